import { describe, expect, test } from "vitest";
import {
  advised,
  type Certificate,
  type CertificateState,
  type Circumstances,
  dropped,
  failed,
  issued,
  moved,
  nextStep,
  orderPauseMs,
} from "./steps.ts";

const now = new Date("2030-01-01T00:00:00Z");
const inMs = (ms: number) => new Date(now.getTime() + ms);
const [minuteMs, hourMs, dayMs] = [60_000, 3_600_000, 86_400_000];

const aCertificate = (state: CertificateState, changes: Partial<Certificate> = {}): Certificate => ({
  ...{ name: "shop.test", state, held: null, order: null, since: now, renewAt: null, askAt: null },
  ...{ failures: 0, caFailures: 0, nextAt: now },
  ...changes,
});
const order = { directory: "https://ca.test/dir", url: "https://ca.test/order/1", orderedAt: now };
const held = { notBefore: now, notAfter: inMs(90 * dayMs), issuer: "https://ca.test/dir", ariId: "a.b" };
const wanted: Circumstances = { isWanted: true, isAnswered: false, now };

test.each([
  { when: "it is new", certificate: aCertificate("none"), does: "order" },
  { when: "limits put it off", certificate: aCertificate("none", { nextAt: inMs(1) }), does: "wait" },
  { when: "it failed a moment ago", certificate: aCertificate("failed", { nextAt: inMs(minuteMs) }), does: "wait" },
  { when: "it failed, and its time has come", certificate: aCertificate("failed"), does: "order" },
  { when: "it is ordered", certificate: aCertificate("ordered", { order }), does: "publish" },
  { when: "not all answer", certificate: aCertificate("challenge_published", { order }), does: "wait" },
  {
    when: "all answer",
    certificate: aCertificate("challenge_published", { order }),
    circumstances: { isAnswered: true },
    does: "start",
  },
  {
    when: "not all have answered for ten minutes",
    certificate: aCertificate("challenge_published", { order, since: inMs(-11 * minuteMs) }),
    does: "give up",
  },
  { when: "the CA looks", certificate: aCertificate("validating", { order }), does: "look" },
  {
    when: "the CA does not decide",
    certificate: aCertificate("validating", { order, since: inMs(-16 * minuteMs) }),
    does: "give up",
  },
  {
    when: "an order is old",
    certificate: aCertificate("validating", { order: { ...order, orderedAt: inMs(-2 * hourMs) } }),
    does: "give up",
  },
  {
    when: "it has one for long",
    certificate: aCertificate("issued", { held, renewAt: inMs(60 * dayMs), askAt: inMs(hourMs) }),
    does: "wait",
  },
  {
    when: "the CA is to be asked",
    certificate: aCertificate("issued", { held, renewAt: inMs(60 * dayMs), askAt: now }),
    does: "ask",
  },
  {
    when: "it is to be renewed",
    certificate: aCertificate("issued", { held, renewAt: now, askAt: inMs(hourMs) }),
    does: "order",
  },
  {
    when: "it is to be renewed, and limits put it off",
    certificate: aCertificate("issued", { held, renewAt: now, nextAt: inMs(1) }),
    does: "wait",
  },
  {
    when: "it is not wanted any more",
    certificate: aCertificate("issued", { held, renewAt: now }),
    circumstances: { isWanted: false },
    does: "rest",
  },
  {
    when: "it is not wanted any more in the middle",
    certificate: aCertificate("validating", { order }),
    circumstances: { isWanted: false },
    does: "drop",
  },
])("when $when it does: $does", ({ certificate, circumstances, does }) => {
  expect(nextStep(certificate, { ...wanted, ...circumstances }).do).toBe(does);
});

test.each([
  { trouble: "away", retryAfterMs: null, pauseMs: 10_000 },
  { trouble: "away", retryAfterMs: minuteMs, pauseMs: minuteMs },
  { trouble: "limited", retryAfterMs: 1_000, pauseMs: 10_000 },
  { trouble: "limited", retryAfterMs: hourMs, pauseMs: null },
  { trouble: "refused", retryAfterMs: null, pauseMs: null },
  { trouble: "nonsense", retryAfterMs: 1_000, pauseMs: null },
] as const)("with $trouble and $retryAfterMs an order is asked for again in $pauseMs", (each) => {
  expect(orderPauseMs(each.trouble, each.retryAfterMs)).toBe(each.pauseMs);
});

test.each([
  ["ordered", true],
  ["challenge_published", false],
] as const)("an order that is old while it is %s is the CA's fault: %s", (state, isCas) => {
  const old = aCertificate(state, { order: { ...order, orderedAt: inMs(-2 * hourMs) } });
  expect(nextStep(old, wanted)).toMatchObject({ do: "give up", why: { code: "expired", isCas } });
});

test("what fails at a renewal keeps what it has", () => {
  const before = aCertificate("validating", { held, order, failures: 2, caFailures: 2 });
  const why = { code: "away", text: "the CA does not answer", isCas: true, retryAfterMs: null };
  expect({ ...before, ...failed(before, why, now, 0) }).toMatchObject({
    ...{ state: "failed", held, order: null, failures: 3, caFailures: 3 },
    nextAt: inMs(100 * minuteMs),
  });
  expect(failed(before, { ...why, isCas: false }, now, 0).caFailures).toBe(0);
  expect(dropped(before, now)).toMatchObject({ state: "issued", order: null });
});

test("the advice of a CA moves the renewal", () => {
  const certificate = aCertificate("issued", { held, renewAt: inMs(60 * dayMs) });
  expect(advised(certificate, { renewAt: inMs(-1), retryAfterMs: 6 * hourMs }, now)).toEqual({
    ...{ renewAt: inMs(-1), askAt: inMs(6 * hourMs), nextAt: inMs(-1) },
  });
  expect(advised(certificate, null, now)).toMatchObject({ renewAt: inMs(60 * dayMs), askAt: inMs(12 * hourMs) });
});

describe("months of renewals", () => {
  /** Small, quick and always the same. */
  function chance(seed: number): () => number {
    let state = seed;
    return () => {
      state = (state * 1_664_525 + 1_013_904_223) % 4_294_967_296;
      return state / 4_294_967_296;
    };
  }

  /** Steps of everybody, in order of their moments, for so many days. */
  function live(options: {
    names: number;
    days: number;
    lifeDays: number;
    hasAdvice: boolean;
    failureShare: number;
    /** Nothing is done: control is away. */
    isAway(at: Date): boolean;
    /** Every order fails: the CA is away. */
    isCaAway(at: Date): boolean;
    seed: number;
    tickMs?: number;
  }) {
    const random = chance(options.seed);
    const ends = inMs(options.days * dayMs);
    const all = Array.from({ length: options.names }, (_, index) =>
      aCertificate("none", { name: `shop-${index}.test` }),
    );
    const orders: { name: string; at: Date; isRenewal: boolean }[] = [];
    const gaps: string[] = [];
    const change = (certificate: Certificate, changes: Partial<Certificate>) => Object.assign(certificate, changes);
    const { tickMs = 10 * minuteMs } = options;
    const next = (at: Date) => new Date(at.getTime() + tickMs);

    for (let at = now; at < ends; at = next(at)) {
      if (options.isAway(at)) continue;
      for (const certificate of all) {
        if (certificate.held !== null && certificate.held.notAfter <= at)
          gaps.push(`${certificate.name} ${at.toISOString()}`);
        const isDue = certificate.nextAt <= at || certificate.order !== null;
        for (let steps = 0; isDue && steps < 10; steps += 1) {
          const step = nextStep(certificate, { isWanted: true, isAnswered: true, now: at });
          if (step.do === "wait" || step.do === "rest") break;
          if (step.do === "order") {
            orders.push({ name: certificate.name, at, isRenewal: certificate.held !== null });
            const away = { code: "away", text: "", isCas: true, retryAfterMs: null };
            if (options.isCaAway(at)) change(certificate, failed(certificate, away, at, random()));
            else change(certificate, moved("ordered", { ...order, orderedAt: at }, at));
          } else if (step.do === "publish" && certificate.order !== null) {
            change(certificate, moved("challenge_published", certificate.order, at));
          } else if (step.do === "start" && certificate.order !== null) {
            change(certificate, moved("validating", certificate.order, at));
          } else if (step.do === "look") {
            const refused = { code: "unauthorized", text: "", isCas: false, retryAfterMs: null };
            const notAfter = new Date(at.getTime() + options.lifeDays * dayMs);
            const ariId = options.hasAdvice ? "a.b" : null;
            if (random() < options.failureShare) change(certificate, failed(certificate, refused, at, random()));
            else change(certificate, issued({ notBefore: at, notAfter, issuer: order.directory, ariId }, at, random()));
          } else if (step.do === "ask") {
            const left =
              (certificate.held?.notAfter.getTime() ?? 0) - options.lifeDays * dayMs * (0.3 + random() * 0.05);
            change(certificate, advised(certificate, { renewAt: new Date(left), retryAfterMs: 6 * hourMs }, at));
          } else throw new Error(`a step that is not expected: ${step.do}`);
        }
      }
    }
    return { all, orders, gaps };
  }

  const always = () => false;
  const between = (fromDays: number, toDays: number) => (at: Date) =>
    at >= inMs(fromDays * dayMs) && at < inMs(toDays * dayMs);

  test.each([
    {
      when: "certificates of 90 days, and 200 days",
      lifeDays: 90,
      days: 200,
      hasAdvice: false,
      share: 0.1,
      renewals: 2,
    },
    { when: "certificates of 45 days, and 60 days", lifeDays: 45, days: 60, hasAdvice: true, share: 0.1, renewals: 1 },
    { when: "certificates of 6 days, and 60 days", lifeDays: 6, days: 60, hasAdvice: true, share: 0.1, renewals: 12 },
  ])("with $when no name is ever without one", ({ lifeDays, days, hasAdvice, share, renewals }) => {
    const { all, orders, gaps } = live({
      ...{ names: 20, days, lifeDays, hasAdvice, failureShare: share, isAway: always, isCaAway: always, seed: 7 },
    });
    expect(gaps).toEqual([]);
    expect(all.every(({ held }) => held !== null)).toBe(true);
    const each = orders.length / all.length;
    expect(each).toBeGreaterThan(renewals);
    expect(each).toBeLessThan((renewals + 2) * 2);
  });

  test("a day without control, and another one without the CA, are noticed by nobody", () => {
    const { gaps, orders, all } = live({
      ...{ names: 20, days: 60, lifeDays: 6, hasAdvice: true, failureShare: 0, seed: 3 },
      ...{ isAway: between(20, 21), isCaAway: between(40, 41) },
    });
    expect(gaps).toEqual([]);
    // A CA that is away is not asked again and again: 1, 10, 100 minutes, and then once a day.
    for (const { name } of all) {
      const asked = orders.filter((each) => each.name === name && between(40, 41)(each.at));
      expect(asked.length).toBeLessThanOrEqual(5);
    }
  });

  test("an hour is enough for a name whose first order fails twice", () => {
    const { all } = live({
      ...{ names: 1, days: 0.05, lifeDays: 90, hasAdvice: false, failureShare: 0, seed: 1, tickMs: minuteMs },
      ...{ isAway: always, isCaAway: (at) => at < inMs(5 * minuteMs) },
    });
    expect(all[0]).toMatchObject({ state: "issued", failures: 0 });
  });
});
