import { nextFire } from "@svc/proto";
import { describe, expect, test } from "vitest";
import { type ClockStep, clockStep, type DueJob, lateMs, missedMax, wasSet } from "./steps.ts";

interface Situation {
  when: string;
  schedule: string;
  timezone?: string;
  due: string;
  now: string;
  run?: string;
  missed?: [string, number];
  last?: string;
  next: string | null;
}

const situations: Situation[] = [
  {
    when: "it is looked at in time",
    schedule: "0 3 * * *",
    due: "2026-11-02T03:00:00Z",
    now: "2026-11-02T03:00:00.120Z",
    run: "2026-11-02T03:00:00Z",
    next: "2026-11-03T03:00:00Z",
  },
  {
    when: "it is looked at in the very instant",
    schedule: "* * * * *",
    due: "2026-11-02T03:00:00Z",
    now: "2026-11-02T03:00:00Z",
    run: "2026-11-02T03:00:00Z",
    next: "2026-11-02T03:01:00Z",
  },
  {
    when: "it is five minutes late",
    schedule: "0 3 * * *",
    due: "2026-11-02T03:00:00Z",
    now: "2026-11-02T03:05:00Z",
    run: "2026-11-02T03:00:00Z",
    next: "2026-11-03T03:00:00Z",
  },
  {
    when: "it is later than that",
    schedule: "0 3 * * *",
    due: "2026-11-02T03:00:00Z",
    now: "2026-11-02T03:05:00.001Z",
    missed: ["2026-11-02T03:00:00Z", 1],
    next: "2026-11-03T03:00:00Z",
  },
  {
    when: "nobody looked for two minutes",
    schedule: "* * * * *",
    due: "2026-11-02T03:00:00Z",
    now: "2026-11-02T03:02:30Z",
    run: "2026-11-02T03:02:00Z",
    missed: ["2026-11-02T03:01:00Z", 2],
    next: "2026-11-02T03:03:00Z",
  },
  {
    when: "nobody looked for an hour, and the newest is not late",
    schedule: "*/10 * * * *",
    due: "2026-11-02T03:00:00Z",
    now: "2026-11-02T04:03:00Z",
    run: "2026-11-02T04:00:00Z",
    missed: ["2026-11-02T03:50:00Z", 6],
    next: "2026-11-02T04:10:00Z",
  },
  {
    when: "nobody looked for three nights",
    schedule: "0 3 * * *",
    due: "2026-11-02T03:00:00Z",
    now: "2026-11-04T12:00:00Z",
    missed: ["2026-11-04T03:00:00Z", 3],
    next: "2026-11-05T03:00:00Z",
  },
  {
    when: "nobody looked for a year at a job of each minute",
    schedule: "* * * * *",
    due: "2025-11-02T03:00:00Z",
    now: "2026-11-02T03:00:30Z",
    run: "2026-11-02T03:00:00Z",
    missed: ["2026-11-02T02:59:00Z", missedMax],
    next: "2026-11-02T03:01:00Z",
  },
  {
    when: "nobody looked for a year at a job of each hour",
    schedule: "0 * * * *",
    due: "2025-11-02T03:00:00Z",
    now: "2026-11-02T03:30:00Z",
    missed: ["2025-11-06T06:00:00Z", missedMax],
    next: "2026-11-02T04:00:00Z",
  },
  {
    when: "its hour is left out today",
    schedule: "30 2 * * *",
    timezone: "Europe/Berlin",
    due: "2026-03-29T01:00:00Z",
    now: "2026-03-29T01:00:01Z",
    run: "2026-03-29T01:00:00Z",
    next: "2026-03-30T00:30:00Z",
  },
  {
    when: "its hour is there twice today",
    schedule: "30 2 * * *",
    timezone: "Europe/Berlin",
    due: "2026-10-25T00:30:00Z",
    now: "2026-10-25T01:30:01Z",
    missed: ["2026-10-25T00:30:00Z", 1],
    next: "2026-10-26T01:30:00Z",
  },
  {
    when: "its schedule never fires again",
    schedule: "0 0 31 2 *",
    due: "2026-11-02T03:00:00Z",
    now: "2026-11-02T03:00:01Z",
    run: "2026-11-02T03:00:00Z",
    next: null,
  },
];

type Decide = (job: DueJob, now: Date) => ClockStep;

function judge(decide: Decide, { schedule, timezone = "UTC", due, now, run, missed, next }: Situation): void {
  const date = (text: string | null | undefined) => (text == null ? null : new Date(text));
  const found = decide({ schedule, timezone, next_fire_at: new Date(due) }, new Date(now));
  expect(found).toEqual({
    run: date(run),
    missed: missed === undefined ? null : { fireAt: new Date(missed[0]), count: missed[1] },
    lastFireAt: date(run ?? missed?.[0]),
    nextFireAt: date(next),
  });
}

test.each(situations)("when $when", (situation) => {
  judge(clockStep, situation);
});

/** Faults that clocks of others had; the situations above have to tell each of them. */
const planted: Record<string, Decide> = {
  "what was missed is made up for, one after another"(job, now) {
    const step = clockStep(job, now);
    const next = nextFire(job.schedule, job.timezone, job.next_fire_at);
    return { ...step, run: job.next_fire_at, missed: null, lastFireAt: job.next_fire_at, nextFireAt: next };
  },
  "a leader that is new runs everything once, however late"(job, now) {
    const step = clockStep(job, now);
    return { ...step, run: step.run ?? step.lastFireAt, missed: null };
  },
  "what comes next counts from now, and what lies between is forgotten": (job, now) => ({
    ...{ run: job.next_fire_at, missed: null, lastFireAt: now },
    nextFireAt: nextFire(job.schedule, job.timezone, now),
  }),
  "what is too late is forgotten": (job, now) => ({ ...clockStep(job, now), missed: null }),
  "the oldest instant runs instead of the newest": (job, now) => ({ ...clockStep(job, now), run: job.next_fire_at }),
};

describe("the situations tell", () => {
  test.each(Object.entries(planted))("when %s", (_, decide) => {
    const told = situations.filter((situation) => {
      try {
        judge(decide, situation);
        return false;
      } catch {
        return true;
      }
    });
    expect(told).not.toEqual([]);
  });
});

test("whatever the moment of a look, no instant runs twice or is lost", () => {
  const job = { schedule: "*/7 * * * *", timezone: "Europe/Berlin" };
  const end = new Date("2026-03-29T06:00:00Z");
  const all: number[] = [];
  for (let at = nextFire(job.schedule, job.timezone, new Date("2026-03-28T20:00:00Z")); at && at <= end; ) {
    all.push(at.getTime());
    at = nextFire(job.schedule, job.timezone, at);
  }
  const [first = 0] = all;
  for (const restMs of [1_000, 61_000, 7 * 60_000, 23 * 60_000, 2 * 3_600_000]) {
    let [due, ran, missed]: [Date | null, number[], number] = [new Date(first), [], 0];
    for (let now = first; now < end.getTime() + restMs; now += restMs) {
      const at = new Date(Math.min(now, end.getTime()));
      if (due === null || due > at) continue;
      const step: ClockStep = clockStep({ ...job, next_fire_at: due }, at);
      if (step.run !== null) {
        expect(at.getTime() - step.run.getTime()).toBeLessThanOrEqual(lateMs);
        ran.push(step.run.getTime());
      }
      missed += step.missed?.count ?? 0;
      due = step.nextFireAt;
    }
    expect(new Set(ran).size).toBe(ran.length);
    expect(ran.every((instant) => all.includes(instant))).toBe(true);
    expect(ran.length + missed).toBe(all.length);
  }
});

test.each([
  { when: "both went on alike", wallMs: 1_000, bootMs: 1_001, is: false },
  { when: "the machine was suspended for a night", wallMs: 8 * 3_600_000, bootMs: 8 * 3_600_000 + 500, is: false },
  { when: "a clock is adjusted slowly", wallMs: 2_900, bootMs: 1_000, is: false },
  { when: "the answer took long", wallMs: 6_000, bootMs: 1_000, withinMs: 4_000, is: false },
  { when: "a clock jumped by a day", wallMs: 86_401_000, bootMs: 1_000, is: true },
  { when: "a clock jumped back", wallMs: -3_600_000, bootMs: 1_000, is: true },
])("when $when", ({ wallMs, bootMs, withinMs = 1, is }) => {
  const before = { now: new Date("2026-11-02T03:00:00Z"), bootMs: 77, withinMs: 1 };
  const after = { now: new Date(before.now.getTime() + wallMs), bootMs: before.bootMs + bootMs, withinMs };
  expect(wasSet(before, after)).toBe(is);
});
