import { limits } from "@svc/proto";
import { describe, expect, test } from "vitest";
import { type Alert, afterTry, type Facts, hear, look, type News, type Word } from "./steps.ts";

const at = (seconds: number): Date => new Date(Date.UTC(2030, 0, 1, 0, 0, seconds));
const word = (id: number, isOn: boolean, seconds: number, detail = "It broke."): Word => ({
  ...{ event: "siteDown", subject: "production", isOn, detail, at: at(seconds), id },
});
const alert = (change: Partial<Alert> = {}): Alert => ({
  ...{ event: "siteDown", subject: "production", isOn: true, changedAt: at(0), detail: "It broke.", wordId: 1 },
  ...{ toldSince: null, begins: 0, beginsSince: null, ...change },
});
const told = (change: Partial<Alert> = {}) => alert({ toldSince: at(0), begins: 1, beginsSince: at(0), ...change });

describe("what is said", () => {
  test.each([
    { when: "nothing was wrong and nothing is", known: null, says: word(1, false, 0), becomes: null },
    { when: "it begins", known: null, says: word(1, true, 0), becomes: alert() },
    { when: "it is said again", known: told(), says: word(2, true, 9), becomes: null },
    {
      when: "it is said again with another reason",
      known: told(),
      says: word(2, true, 9, "It broke again."),
      becomes: told({ detail: "It broke again.", wordId: 2 }),
    },
    {
      when: "it is over",
      known: told(),
      says: word(2, false, 9, ""),
      becomes: told({ isOn: false, changedAt: at(9), wordId: 2 }),
    },
    { when: "an old story is told late", known: told({ wordId: 5 }), says: word(4, false, 9), becomes: null },
    {
      when: "a transaction ended later than one that began after it",
      known: told({ changedAt: at(9) }),
      says: word(2, false, 4),
      becomes: told({ isOn: false, changedAt: at(9), wordId: 2 }),
    },
  ])("$when", ({ known, says, becomes }) => {
    expect(hear(known, says)).toEqual(becomes);
  });
});

const calm: Facts["pace"] = { hourAt: null, messages: 0, waiting: [], more: 0 };
const facts = (now: Date, alerts: Alert[], change: Partial<Facts> = {}): Facts => ({
  ...{ now, settings: { enabled: true, choices: {} }, reachable: ["mail", "webhook"], pace: calm, alerts, ...change },
});

describe("what is told", () => {
  test.each([
    { when: "an app fell over a moment ago", now: 29, is: alert(), tells: [], lookAt: 30 },
    { when: "it has been down for long enough", now: 30, is: alert(), tells: ["began"], lookAt: null },
    {
      when: "it came back before anybody was told",
      now: 30,
      is: alert({ isOn: false, changedAt: at(20) }),
      tells: [],
      lookAt: null,
    },
    { when: "it is known to be down", now: 999, is: told(), tells: [], lookAt: null },
    {
      when: "it came back a moment ago",
      now: 110,
      is: told({ isOn: false, changedAt: at(100) }),
      tells: [],
      lookAt: 220,
    },
    {
      when: "it has been back for a while",
      now: 220,
      is: told({ isOn: false, changedAt: at(100) }),
      tells: ["over"],
      lookAt: null,
    },
    {
      when: "it fell over again before that was told",
      now: 999,
      is: told({ changedAt: at(150) }),
      tells: [],
      lookAt: null,
    },
    {
      when: "it does so all the time",
      now: 999,
      is: told({ isOn: false, changedAt: at(900), begins: 3 }),
      tells: [],
      lookAt: 2700,
    },
    {
      when: "it did so all the time, and has been calm since",
      now: 2700,
      is: told({ isOn: false, changedAt: at(900), begins: 3 }),
      tells: ["over"],
      lookAt: null,
    },
    { when: "a deployment failed", now: 0, is: alert({ event: "deployFailed" }), tells: ["began"], lookAt: null },
    {
      when: "the next one succeeded",
      now: 60,
      is: told({ event: "deployFailed", isOn: false, changedAt: at(60) }),
      tells: ["over"],
      lookAt: null,
    },
  ] as const)("$when", ({ now, is, tells, lookAt }) => {
    const said = look(facts(at(now), [is]));
    expect(said.messages.map((message) => message.kind === "alert" && message.news.what)).toEqual(tells);
    expect(said.lookAt).toEqual(lookAt === null ? null : at(lookAt));
    // Whoever looks again at once tells nothing twice.
    const after = said.alerts.length === 0 ? [is] : said.alerts;
    expect(look(facts(at(now), after, { pace: said.pace })).messages).toEqual([]);
  });

  test("how often it began is counted by the hour", () => {
    const [first] = look(facts(at(30), [alert()])).alerts;
    expect(first).toMatchObject({ toldSince: at(0), begins: 1, beginsSince: at(0) });
    const again = { ...alert({ changedAt: at(3000) }), begins: 1, beginsSince: at(0) };
    expect(look(facts(at(3100), [again])).alerts).toMatchObject([{ begins: 2, beginsSince: at(0) }]);
    const later = { ...again, changedAt: at(3601) };
    expect(look(facts(at(3700), [later])).alerts).toMatchObject([{ begins: 1, beginsSince: at(3601) }]);
  });

  test.each([
    { when: "as usual", change: {}, goes: ["mail", "webhook"] },
    { when: "without a webhook", change: { reachable: ["mail" as const] }, goes: ["mail"] },
    {
      when: "by what the owner chose",
      change: { settings: { enabled: true, choices: { siteDown: { mail: false } } } },
      goes: ["webhook"],
    },
    { when: "by no channel", change: { reachable: [] }, goes: null },
    { when: "with alerts off", change: { settings: { enabled: false, choices: {} } }, goes: null },
  ])("$when it goes to $goes", ({ change, goes }) => {
    const said = look(facts(at(30), [alert()], change));
    expect(said.messages).toMatchObject(goes === null ? [] : [{ news: { channels: goes } }]);
    expect(said.pace.messages).toBe(goes === null ? 0 : 1);
    expect(said.alerts).toMatchObject([{ toldSince: at(0) }]);
  });
});

describe("a storm", () => {
  const many = (count: number) =>
    Array.from({ length: count }, (_, n) => alert({ event: "jobFailed", subject: `job-${n}`, changedAt: at(n) }));
  const { alertMessagesPerHour: perHour, alertDigestLinesMax: linesMax } = limits;

  test("has so many messages in an hour, and one with all the rest after it", () => {
    const storm = look(facts(at(100), many(perHour + 3)));
    expect(storm.messages).toHaveLength(perHour);
    expect(storm.lookAt).toEqual(at(100 + 3600));
    expect(look(facts(at(200), [], { pace: storm.pace }))).toMatchObject({ messages: [], lookAt: at(3700) });
    const digest = look(facts(at(3700), [], { pace: storm.pace }));
    const subjects = storm.pace.waiting.map(({ subject }) => subject);
    expect(subjects).toEqual([perHour, perHour + 1, perHour + 2].map((n) => `job-${n}`));
    expect(digest.messages).toEqual([{ kind: "digest", news: storm.pace.waiting, more: 0 }]);
    expect(digest.pace).toEqual({ hourAt: at(3700), messages: 1, waiting: [], more: 0 });
    expect(digest.lookAt).toBeNull();
  });

  test("is told as its owner wants it once the hour is over, and not at all to who wants silence", () => {
    const { pace } = look(facts(at(100), many(perHour + 3)));
    const later = (settings: Facts["settings"], reachable: Facts["reachable"] = ["mail", "webhook"]) =>
      look(facts(at(3700), [], { pace, settings, reachable }));
    const mailOnly = later({ enabled: true, choices: { jobFailed: { webhook: false } } });
    expect(mailOnly.messages).toMatchObject([{ kind: "digest", news: Array(3).fill({ channels: ["mail"] }) }]);
    expect(later({ enabled: true, choices: {} }, []).messages).toEqual([]);
    expect(later({ enabled: false, choices: {} })).toMatchObject({
      messages: [],
      pace: { hourAt: null, messages: 0, waiting: [], more: 0 },
      lookAt: null,
    });
  });

  test("that has no end has a digest of bounded length each hour", () => {
    const storm = look(facts(at(1000), many(perHour + linesMax + 7)));
    expect(storm.pace).toMatchObject({ messages: perHour, more: 7 });
    expect(storm.pace.waiting).toHaveLength(linesMax);
    expect(look(facts(at(9999), [], { pace: storm.pace })).messages).toMatchObject([{ kind: "digest", more: 7 }]);
  });

  test("that is over leaves the next hour as any other", () => {
    const pace = { hourAt: at(0), messages: perHour, waiting: [] as News[], more: 0 };
    expect(look(facts(at(3600), many(1), { pace }))).toMatchObject({
      messages: [{ kind: "alert" }],
      pace: { messages: 1 },
    });
  });
});

describe("a try of a delivery", () => {
  const days = (count: number) => at(count * 86_400);
  test.each([
    {
      when: "is taken",
      tries: 1,
      status: 204,
      failingSince: days(0),
      ends: { ok: true, againAfterMs: null, failingSince: null, disables: false },
    },
    {
      when: "fails",
      tries: 1,
      status: 500,
      failingSince: null,
      ends: { ok: false, againAfterMs: 10_000, failingSince: days(4), disables: false },
    },
    { when: "has no answer", tries: 2, status: null, failingSince: null, ends: { ok: false, againAfterMs: 60_000 } },
    { when: "is sent elsewhere", tries: 1, status: 302, failingSince: null, ends: { ok: false, againAfterMs: 10_000 } },
    {
      when: "is the last but one",
      tries: 7,
      status: 503,
      failingSince: days(0),
      ends: { againAfterMs: 50_400_000, disables: false },
    },
    {
      when: "is the last",
      tries: 8,
      status: 503,
      failingSince: days(3),
      ends: { againAfterMs: null, disables: false, failingSince: days(3) },
    },
    {
      when: "is the last after days",
      tries: 8,
      status: 503,
      failingSince: days(1),
      ends: { againAfterMs: null, disables: true },
    },
    { when: "is one too many", tries: 9, status: 503, failingSince: null, ends: { againAfterMs: null } },
    {
      when: "is told to go away",
      tries: 1,
      status: 410,
      failingSince: null,
      ends: { againAfterMs: null, disables: true },
    },
  ])("that $when", ({ tries, status, failingSince, ends }) => {
    expect(afterTry({ now: days(4), tries, status, failingSince })).toMatchObject(ends);
  });

  test("has all of its tries within a day", () => {
    const pauses = Array.from(
      { length: limits.webhookTriesMax },
      (_, n) => afterTry({ now: at(0), tries: n + 1, status: 500, failingSince: null }).againAfterMs,
    );
    expect(pauses.at(-1)).toBeNull();
    expect(pauses.slice(0, -1).every((pause) => pause !== null)).toBe(true);
    const hours = pauses.reduce<number>((sum, pause) => sum + (pause ?? 0), 0) / 3_600_000;
    expect(hours).toBeGreaterThan(20);
    expect(hours).toBeLessThan(24);
  });
});
