import { describe, expect, test } from "vitest";
import { askedAtOnce, heldUpBy, type MovingDaemon, toAsk } from "./rules.ts";

const now = new Date("2030-01-10T00:00:00Z");
const later = new Date("2030-01-20T00:00:00Z");
const earlier = new Date("2030-01-09T23:59:59Z");
const days = (ago: number) => new Date(now.getTime() - ago * 86_400_000);
const aDaemon = (values: Partial<MovingDaemon>): MovingDaemon => ({
  ...{ id: "n1", name: "one", role: "node", trust: "both", certificateExpiresAt: later, lastSeenAt: now },
  createdAt: now,
  ...values,
});

describe("a rotation is held up", () => {
  test.each([
    { when: "by nobody, when all have moved", daemon: {}, held: false },
    { when: "by a daemon that trusts the old authority alone", daemon: { trust: "old" }, held: true },
    { when: "by a daemon that was not heard since this is told", daemon: { trust: null }, held: true },
    {
      when: "by an unreachable one, as long as its certificate lasts",
      daemon: { trust: "old", lastSeenAt: null },
      held: true,
    },
    {
      when: "by one that had its last session a while ago",
      daemon: { trust: "old", lastSeenAt: days(29) },
      held: true,
    },
    {
      when: "not by one that renews and had no session for as long as a certificate lasts",
      daemon: { trust: "old", lastSeenAt: days(30) },
      held: false,
    },
    {
      when: "not by one that renews and has never had a session",
      daemon: { trust: "old", lastSeenAt: null, createdAt: days(31) },
      held: false,
    },
    {
      when: "not by one whose certificate is over",
      daemon: { trust: "old", certificateExpiresAt: earlier },
      held: false,
    },
    { when: "not by one whose certificate ends now", daemon: { trust: "old", certificateExpiresAt: now }, held: false },
    {
      when: "not by one that never had a certificate",
      daemon: { trust: null, certificateExpiresAt: null },
      held: false,
    },
    { when: "by one that trusts what a lost rotation handed out", daemon: { trust: "lost" }, held: true },
  ])("$when", ({ daemon, held }) => {
    expect(heldUpBy([aDaemon(daemon)], { trust: "both", now })).toHaveLength(held ? 1 : 0);
  });
});

describe("asked for a renewal", () => {
  const at = { trust: "both", nowMs: 1_000_000 };
  test.each([
    { when: "one that trusts something else", session: { trust: "old", askedAtMs: null }, asked: true },
    { when: "one that does not tell", session: { trust: null, askedAtMs: null }, asked: true },
    { when: "not one that trusts what it should", session: { trust: "both", askedAtMs: null }, asked: false },
    { when: "not one that was asked a moment ago", session: { trust: "old", askedAtMs: 999_000 }, asked: false },
    { when: "again one that was asked long ago", session: { trust: "old", askedAtMs: 800_000 }, asked: true },
  ])("is $when", ({ session, asked }) => {
    expect(toAsk([session], at)).toHaveLength(asked ? 1 : 0);
  });

  test("are so many at once, and first those that were not yet", () => {
    const again = Array.from({ length: 40 }, () => ({ trust: "old", askedAtMs: 1 }));
    const fresh = Array.from({ length: 10 }, () => ({ trust: "old", askedAtMs: null }));
    const asked = toAsk([...again, ...fresh], at);
    expect(asked).toHaveLength(askedAtOnce);
    expect(asked.slice(0, 10)).toEqual(fresh);
  });
});
