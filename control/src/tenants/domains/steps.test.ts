import { describe, expect, test } from "vitest";
import { afterLook, type DomainState, isOutdated, type Look, nextPendingCheck, windowEnd } from "./steps.ts";

const domain = "shop.example";
const start = new Date("2030-01-01T00:00:00Z");
const secondMs = 1_000;
const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const at = (ms: number) => new Date(start.getTime() + ms);

const pending: DomainState = {
  ...{ status: "pending", reason: null, dnsStatus: null, verifyUntil: windowEnd(start), verifiedAt: null },
  ...{ failingSince: null, warnings: 0, warnedAt: null },
};
const verified: DomainState = {
  ...{ ...pending, status: "verified", verifyUntil: null, verifiedAt: start, dnsStatus: "direct" },
};
const direct = { status: "direct", problem: null } as const;
const found: Look = { proof: "found", dns: direct };
const absent: Look = { proof: "absent", dns: direct };
const unknown: Look = { proof: { unknown: "10.0.0.1 answers with ESERVFAIL" }, dns: null };

test("a window is looked at often at first, and for the last time at its end", () => {
  const delays: number[] = [];
  const until = windowEnd(start);
  for (let now = start; now < until; ) {
    const next = nextPendingCheck(until, now);
    delays.push((next.getTime() - now.getTime()) / secondMs);
    now = next;
  }
  expect(delays.slice(0, 7)).toEqual([15, 30, 60, 120, 300, 600, 600]);
  expect(new Set(delays.slice(5, -1))).toEqual(new Set([600, 3600]));
  expect(delays.reduce((sum, each) => sum + each, 0)).toBe(48 * 3600);
  // 5 at first, some 35 until six hours are over, then one an hour.
  expect(delays.length).toBeLessThan(90);
});

test.each([
  { what: "of a first look", askedMs: 0, lastMs: null, nowMs: 5 * secondMs, is: false },
  { what: "that nobody overtook", askedMs: 10, lastMs: 0, nowMs: 20, is: false },
  { what: "of the very moment of another", askedMs: 0, lastMs: 0, nowMs: 20, is: false },
  { what: "that a later look overtook", askedMs: 0, lastMs: 1, nowMs: 20, is: true },
  { what: "of an hour ago", askedMs: 0, lastMs: null, nowMs: hourMs, is: false },
  { what: "of longer ago", askedMs: 0, lastMs: null, nowMs: hourMs + 1, is: true },
])("what was found $what is outdated: $is", ({ askedMs, lastMs, nowMs, is }) => {
  expect(isOutdated(at(askedMs), lastMs === null ? null : at(lastMs), at(nowMs))).toBe(is);
});

describe("a pending domain", () => {
  test.each([
    {
      when: "its proof is there",
      look: found,
      is: { status: "verified", news: "verified", verifyUntil: null, reason: null },
    },
    { when: "its proof is not there", look: absent, is: { status: "pending", news: null } },
    { when: "DNS does not know", look: unknown, is: { status: "pending", news: null, dnsStatus: null } },
  ])("when $when", ({ look, is }) => {
    const verdict = afterLook(domain, pending, look, false, at(20 * secondMs));
    expect(verdict).toMatchObject(is);
    expect(verdict.nextCheckAt).not.toBeNull();
  });

  test("that another project has waits for that one's end, and says so", () => {
    const verdict = afterLook(domain, pending, found, true, at(hourMs));
    expect(verdict).toMatchObject({
      status: "pending",
      reason: expect.stringContaining("Another project"),
      news: null,
    });
  });

  test.each([
    { look: absent, says: /48 hours.*does not have the value/ },
    { look: unknown, says: /48 hours.*ESERVFAIL/ },
  ])("fails at the end of its window, with the reason of the last look", ({ look, says }) => {
    expect(afterLook(domain, pending, look, false, at(48 * hourMs - 1)).status).toBe("pending");
    const verdict = afterLook(domain, pending, look, false, at(48 * hourMs));
    expect(verdict).toMatchObject({ status: "failed", news: "expired", nextCheckAt: null, verifyUntil: null });
    expect(verdict.reason).toMatch(says);
  });

  test("whose proof is there at the very end is verified", () => {
    expect(afterLook(domain, pending, found, false, at(48 * hourMs)).status).toBe("verified");
  });
});

describe("a verified domain", () => {
  test("is looked at daily, and often while it is new and leads elsewhere", () => {
    expect(afterLook(domain, verified, found, false, at(dayMs)).nextCheckAt).toEqual(at(2 * dayMs));
    const elsewhere: Look = { proof: "found", dns: { status: "not-pointing", problem: "It leads elsewhere." } };
    expect(afterLook(domain, verified, elsewhere, false, at(hourMs))).toMatchObject({
      ...{ status: "verified", dnsStatus: "not-pointing", reason: "It leads elsewhere." },
      nextCheckAt: at(hourMs + 600_000),
    });
    expect(afterLook(domain, verified, elsewhere, false, at(3 * dayMs)).nextCheckAt).toEqual(at(4 * dayMs));
  });

  /** Daily looks from day 0 on; what each day had as news. */
  const days = (looks: readonly Look[], from = verified) => {
    const news: [number, string][] = [];
    let state = from;
    for (const [day, look] of looks.entries()) {
      const verdict = afterLook(domain, state, look, false, at(day * dayMs));
      if (verdict.news !== null) news.push([day + 1, verdict.news]);
      state = verdict;
    }
    return { state, news };
  };
  const repeated = (look: Look, times: number) => Array.from({ length: times }, () => look);

  test("whose proof is gone is told of on day 1 and 6, and lost after seven days", () => {
    expect(days(repeated(absent, 7)).state).toMatchObject({ status: "verified", warnings: 2 });
    const { state, news } = days(repeated(absent, 8));
    expect(news).toEqual([
      [1, "warned"],
      [6, "warned"],
      [8, "lost"],
    ]);
    expect(state).toMatchObject({ status: "failed", nextCheckAt: null, verifiedAt: null, failingSince: null });
  });

  test("whose proof comes back has all of its days again", () => {
    const { state, news } = days([...repeated(absent, 6), found, ...repeated(absent, 7)]);
    expect(news.map(([day]) => day)).toEqual([1, 6, 8, 13]);
    expect(state.status).toBe("verified");
  });

  test("stays while DNS does not know, for however long", () => {
    const { state, news } = days(repeated(unknown, 400));
    expect([state.status, state.failingSince, news]).toEqual(["verified", null, []]);
  });

  test("is not lost by what nobody knows, nor without a warning of the day before", () => {
    const { state, news } = days([absent, ...repeated(unknown, 20)]);
    expect([state.status, news]).toEqual(["verified", [[1, "warned"]]]);
    const later = days([absent, ...repeated(unknown, 20), absent, absent]);
    expect(later.news).toEqual([
      [1, "warned"],
      [22, "warned"],
      [23, "lost"],
    ]);
  });

  test("never becomes pending again", () => {
    for (const look of [found, absent, unknown])
      expect(afterLook(domain, verified, look, true, at(hourMs)).status).toBe("verified");
  });
});

test("a failed domain stays as it is until somebody asks", () => {
  const failed: DomainState = { ...pending, status: "failed", verifyUntil: null, reason: "why" };
  expect(afterLook(domain, failed, found, false, at(hourMs))).toMatchObject({
    ...{ status: "failed", reason: "why", nextCheckAt: null, news: null },
  });
});
