import { create } from "@bufbuild/protobuf";
import { ResourcesSchema } from "@svc/proto/node";
import { expect, test } from "vitest";
import { freshMemory } from "../journal/records.ts";
import {
  afterMiss,
  isLimitsDue,
  type LimitsView,
  lackOf,
  limitsKey,
  limitsRetryMs,
  pauseOf,
  withSaid,
} from "./limits.ts";

const nowMs = 1_000_000;
const small = { memoryMb: 128, cpuMillicores: 500, pidsLimit: 64 };
const large = { memoryMb: 256, cpuMillicores: 500, pidsLimit: 64 };
/** Set aside with the large ones. */
const part = { reservedMemoryMb: 64, reservedCpuMillicores: 50 };
const reserved = { memoryMb: 64, cpuMillicores: 50 };
const resources = (limits: object, generation = 0n) => create(ResourcesSchema, { ...limits, generation });

const aView = (changes: Partial<LimitsView> = {}): LimitsView => ({
  wanted: resources(large, 1n),
  inForce: large,
  reserved: { memoryMb: 0, cpuMillicores: 0 },
  told: resources(large, 1n),
  toldProblem: "",
  pause: null,
  memory: freshMemory,
  nowMs,
  ...changes,
});
const refused = { inForce: small, told: resources(small, 1n), toldProblem: "too much in use" };
const tried = (changes: Partial<LimitsView["memory"]> = {}) => ({
  limitsTried: limitsKey(large),
  limitsMisses: 1,
  limitsRetryAtMs: nowMs + 1,
  limitsPause: "",
  ...changes,
});

test.each<{ when: string; view: LimitsView; due: boolean }>([
  { when: "the container has what it is to have, and control knows", view: aView(), due: false },
  { when: "the container has less", view: aView({ inForce: small, told: resources(small) }), due: true },
  { when: "control does not know that it has it", view: aView({ told: resources(large, 0n) }), due: true },
  { when: "an earlier version of the agent told nothing", view: aView({ told: undefined }), due: true },
  { when: "control takes it for refused, and it has it by now", view: aView({ toldProblem: "in use" }), due: true },
  {
    when: "somebody changed the container by hand",
    view: aView({ inForce: small, told: resources(large, 1n) }),
    due: true,
  },
  { when: "the engine refused a moment ago", view: aView({ ...refused, memory: tried() }), due: false },
  {
    when: "the engine refused a while ago",
    view: aView({ ...refused, memory: tried({ limitsRetryAtMs: nowMs }) }),
    due: true,
  },
  {
    when: "the engine refused too often",
    view: aView({ ...refused, memory: tried({ limitsMisses: 20, limitsRetryAtMs: 0 }) }),
    due: false,
  },
  {
    when: "the engine refused too often, and the container does not run any more",
    view: aView({ ...refused, pause: "c@1", memory: tried({ limitsMisses: 20 }) }),
    due: true,
  },
  {
    when: "the engine refused since the container does not run any more",
    view: aView({ ...refused, pause: "c@1", memory: tried({ limitsPause: "c@1" }) }),
    due: false,
  },
  {
    when: "the engine refused before the container ran and ended again",
    view: aView({ ...refused, pause: "c@2", memory: tried({ limitsPause: "c@1" }) }),
    due: true,
  },
  {
    when: "the engine refused a while ago, and nobody started the container since",
    view: aView({ ...refused, pause: "c@1", memory: tried({ limitsPause: "c@1", limitsRetryAtMs: nowMs }) }),
    due: true,
  },
  {
    when: "the engine refused too often, and nobody started the container since",
    view: aView({
      ...refused,
      pause: "c@1",
      memory: tried({ limitsPause: "c@1", limitsMisses: 20, limitsRetryAtMs: 0 }),
    }),
    due: false,
  },
  {
    when: "the engine took them a moment ago and dropped one",
    view: aView({
      inForce: { ...large, memoryMb: 0 },
      told: resources({ ...large, memoryMb: 0 }, 1n),
      toldProblem: "dropped",
      memory: tried(),
    }),
    due: false,
  },
  {
    when: "control was told that there is no limit, and there is one",
    view: aView({ inForce: small, told: resources({ ...small, memoryMb: 0 }, 1n), memory: tried() }),
    due: true,
  },
  {
    when: "the engine refused other limits",
    view: aView({ ...refused, memory: tried({ limitsTried: limitsKey(small) }) }),
    due: true,
  },
  {
    when: "the same limits are asked for anew",
    view: aView({ ...refused, wanted: resources(large, 2n), memory: tried() }),
    due: true,
  },
  { when: "control never said any limits", view: aView({ wanted: undefined, inForce: small }), due: false },
  {
    when: "the container has also what is set aside for it",
    view: aView({ wanted: resources({ ...large, ...part }, 1n), reserved }),
    due: false,
  },
  {
    when: "an earlier version of the agent, which knew of nothing set aside, told that it has them",
    view: aView({ wanted: resources({ ...large, ...part }, 1n) }),
    due: true,
  },
  {
    when: "the engine took them a moment ago without what is set aside",
    view: aView({ wanted: resources({ ...large, ...part }, 1n), memory: tried() }),
    due: false,
  },
  {
    when: "the engine took them too often without what is set aside",
    view: aView({
      wanted: resources({ ...large, ...part }, 1n),
      memory: tried({ limitsMisses: 20, limitsRetryAtMs: 0 }),
    }),
    due: false,
  },
  { when: "control left one out", view: aView({ wanted: resources({ ...large, pidsLimit: 0 }, 1n) }), due: false },
])("when $when: $due", ({ view, due }) => {
  expect(isLimitsDue(view)).toBe(due);
});

test("tries after a refusal become rarer, and never rarer than every ten minutes", () => {
  expect([1, 2, 3, 10, 20].map(limitsRetryMs)).toEqual([30_000, 60_000, 120_000, 600_000, 600_000]);
});

/** How often a container is asked about within a time, looked at once a second, when it never gets what it is to have. */
function triesWithin(seconds: number, pauseAt: (second: number) => string | null): number {
  let view = aView(refused);
  let tries = 0;
  for (let second = 0; second < seconds; second += 1) {
    view = { ...view, pause: pauseAt(second), nowMs: nowMs + second * 1_000 };
    if (!isLimitsDue(view)) continue;
    tries += 1;
    view = { ...view, memory: afterMiss(view.memory, { wanted: large, pause: view.pause, nowMs: view.nowMs }) };
  }
  return tries;
}

test.each<{ when: string; seconds: number; pauseAt: (second: number) => string | null; tries: number }>([
  { when: "runs for a day", seconds: 86_400, pauseAt: () => null, tries: 20 },
  { when: "waits for a day to be started", seconds: 86_400, pauseAt: () => "c@", tries: 20 },
  { when: "is started at once", seconds: 10, pauseAt: (second) => (second === 0 ? "c@" : null), tries: 1 },
  { when: "is down for a while", seconds: 25, pauseAt: () => "c@1", tries: 1 },
  {
    when: "ends every ten seconds, and is started again five seconds later",
    seconds: 30,
    pauseAt: (second) => (second % 10 < 5 ? `c@${Math.floor(second / 10)}` : null),
    tries: 3,
  },
])("limits that a container never gets are asked for $tries times when it $when", ({ seconds, pauseAt, tries }) => {
  expect(triesWithin(seconds, pauseAt)).toBe(tries);
});

test("misses of other limits are not counted", () => {
  const memory = afterMiss(tried({ limitsMisses: 7 }), { wanted: small, pause: null, nowMs });
  expect(memory).toEqual({
    limitsTried: limitsKey(small),
    limitsMisses: 1,
    limitsRetryAtMs: nowMs + 30_000,
    limitsPause: "",
  });
});

test.each<{ when: string; at: Parameters<typeof pauseOf>[0]; pause: string | null }>([
  { when: "runs", at: { id: "c", state: "running", finishedAt: null }, pause: null },
  { when: "runs again", at: { id: "c", state: "running", finishedAt: "1" }, pause: null },
  { when: "is new", at: { id: "c", state: "created", finishedAt: null }, pause: "c@" },
  { when: "has ended", at: { id: "c", state: "exited", finishedAt: "1" }, pause: "c@1" },
])("a container that $when is in the pause $pause", ({ at, pause }) => {
  expect(pauseOf(at)).toBe(pause);
});

test("only what was said is missed, and changed", () => {
  expect(lackOf({ memoryMb: 256, cpuMillicores: 0, pidsLimit: 80 }, small)).toEqual(["memory", "process ids"]);
  expect(withSaid(small, { memoryMb: 256, cpuMillicores: 0, pidsLimit: 0 })).toEqual(large);
});
