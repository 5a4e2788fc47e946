import { describe, expect, test } from "vitest";
import {
  caaAllows,
  caaPath,
  chooseCa,
  isRunningOut,
  orderMoment,
  pauseAfterMs,
  renewalMoment,
  type Spent,
  type SpentOrders,
} from "./rules.ts";

const minuteMs = 60_000;
const dayMs = 86_400_000;
const start = new Date("2030-01-01T00:00:00Z");
const after = (ms: number) => new Date(start.getTime() + ms);

test.each([
  { failures: 1, retryAfterMs: null, random: 0, ms: minuteMs },
  { failures: 2, retryAfterMs: null, random: 0, ms: 10 * minuteMs },
  { failures: 3, retryAfterMs: null, random: 0.5, ms: 110 * minuteMs },
  { failures: 4, retryAfterMs: null, random: 0, ms: dayMs },
  { failures: 90, retryAfterMs: null, random: 0, ms: dayMs },
  { failures: 1, retryAfterMs: 3 * minuteMs, random: 0, ms: 3 * minuteMs },
])("after $failures failures and Retry-After $retryAfterMs", ({ failures, retryAfterMs, random, ms }) => {
  expect(pauseAfterMs(failures, { wasAsked: true, retryAfterMs }, random)).toBeCloseTo(ms, 0);
});

test.each([
  { failures: 1, ms: minuteMs },
  { failures: 4, ms: 100 * minuteMs },
  { failures: 90, ms: 100 * minuteMs },
])("after $failures failures of which no CA knows", ({ failures, ms }) => {
  expect(pauseAfterMs(failures, { wasAsked: false, retryAfterMs: null }, 0)).toBeCloseTo(ms, 0);
});

test.each([
  { days: 90, renewedAfter: 60, alarmAfter: 67.5 },
  { days: 45, renewedAfter: 30, alarmAfter: 33.75 },
  { days: 6, renewedAfter: 3, alarmAfter: 4.5 },
])("a certificate of $days days is renewed, and its end comes as an alarm when it is not", (life) => {
  const held = { notBefore: start, notAfter: after(life.days * dayMs) };
  expect(renewalMoment(held, 0)).toEqual(after(life.renewedAfter * dayMs));
  expect(renewalMoment(held, 1) < renewalMoment(held, 0)).toBe(true);
  expect(isRunningOut(held, after(life.alarmAfter * dayMs))).toBe(false);
  expect(isRunningOut(held, after(life.alarmAfter * dayMs + 1))).toBe(true);
});

describe("limits of orders", () => {
  const none: Spent = { count: 0, oldest: null };
  const spent = (changes: Partial<SpentOrders>): SpentOrders => ({
    ...{ ordered: none, orderedNew: none, orderedNewOfOwner: none, issuedBelow: none, issuedFor: none },
    ...changes,
  });
  const now = after(10 * dayMs);
  const an = (count: number, agoMs: number): Spent => ({ count, oldest: new Date(now.getTime() - agoMs) });
  const hour = 60 * minuteMs;

  test.each([
    { when: "nothing was ordered", spent: spent({}), isRenewal: false, inMs: 0 },
    {
      when: "new names have used their part",
      spent: spent({ orderedNew: an(200, hour) }),
      isRenewal: false,
      inMs: 2 * hour,
    },
    { when: "new names have used their part", spent: spent({ orderedNew: an(200, hour) }), isRenewal: true, inMs: 0 },
    {
      when: "one user has ordered for very many names",
      spent: spent({ orderedNewOfOwner: an(150, hour) }),
      isRenewal: false,
      inMs: 2 * hour,
    },
    {
      when: "one user has ordered for very many names",
      spent: spent({ orderedNewOfOwner: an(150, hour) }),
      isRenewal: true,
      inMs: 0,
    },
    { when: "all of it is used", spent: spent({ ordered: an(300, hour) }), isRenewal: true, inMs: 2 * hour },
    {
      when: "a domain has many names",
      spent: spent({ issuedBelow: an(45, dayMs) }),
      isRenewal: false,
      inMs: 6 * dayMs,
    },
    { when: "a domain has many names", spent: spent({ issuedBelow: an(45, dayMs) }), isRenewal: true, inMs: 0 },
    {
      when: "a name got one again and again",
      spent: spent({ issuedFor: an(4, dayMs) }),
      isRenewal: true,
      inMs: 6 * dayMs,
    },
  ])("when $when, renewal $isRenewal", ({ spent, isRenewal, inMs }) => {
    expect(orderMoment(spent, isRenewal, now).getTime() - now.getTime()).toBe(inMs);
  });
});

test.each([
  [0, "first"],
  [2, "first"],
  [3, "second"],
  [5, "second"],
  [6, "first"],
])("after %i failures of a CA it is the %s one's turn", (failures, ca) => {
  expect(chooseCa(["first", "second"], failures)).toBe(ca);
  expect(chooseCa(["only"], failures)).toBe("only");
});

describe("CAA", () => {
  const issue = (value: string, tag = "issue", critical = false) => ({ critical, tag, value });
  test.each([
    { when: "nobody is named", records: [], allows: true },
    { when: "we are named", records: [issue("ca.example")], allows: true },
    { when: "we are named with conditions", records: [issue("CA.example ; validationmethods=http-01")], allows: true },
    { when: "somebody else is named", records: [issue("other.example")], allows: false },
    { when: "both are named", records: [issue("other.example"), issue("ca.example")], allows: true },
    { when: "nobody may", records: [issue(";")], allows: false },
    { when: "only reports are asked for", records: [issue("mailto:a@b.example", "iodef")], allows: true },
    { when: "something unknown matters", records: [issue("x", "future", true), issue("ca.example")], allows: false },
    {
      when: "wildcards are another's",
      records: [issue("ca.example"), issue("other.example", "issuewild")],
      allows: true,
    },
  ])("when $when", ({ records, allows }) => {
    expect(caaAllows(records, ["ca.example"], false)).toBe(allows);
  });

  test("of wildcards goes by its own records, if there are any", () => {
    expect(caaAllows([issue("ca.example"), issue("other.example", "issuewild")], ["ca.example"], true)).toBe(false);
    expect(caaAllows([issue("ca.example")], ["ca.example"], true)).toBe(true);
    expect(caaAllows([issue("other.example")], [], true)).toBe(true);
  });

  test("is looked for from the name upwards", () => {
    expect(caaPath("*.a.shop.test")).toEqual(["a.shop.test", "shop.test", "test"]);
  });
});
