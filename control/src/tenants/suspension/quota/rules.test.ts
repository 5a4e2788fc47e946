import { describe, expect, test } from "vitest";
import {
  decide,
  monthEnd,
  monthOf,
  type NoticeStep,
  noticeStep,
  type OwnedProject,
  type OwnerFacts,
  standing,
} from "./rules.ts";

const mebibyte = 1024 * 1024;
const none = { requests: null, bandwidthMb: null };

describe("standing", () => {
  test.each([
    { when: "nothing is limited", allowance: none, use: { requests: 1e12, bytes: 1e15 }, is: "within" },
    { when: "nothing was used", allowance: { requests: 100, bandwidthMb: 100 }, use: {}, is: "within" },
    { when: "79 % of the requests", allowance: { ...none, requests: 100 }, use: { requests: 79 }, is: "within" },
    { when: "80 % of the requests", allowance: { ...none, requests: 100 }, use: { requests: 80 }, is: "near" },
    { when: "all but one request", allowance: { ...none, requests: 1_000 }, use: { requests: 999 }, is: "near" },
    { when: "every request", allowance: { ...none, requests: 1_000 }, use: { requests: 1_000 }, is: "over" },
    {
      when: "all but one byte",
      allowance: { ...none, bandwidthMb: 10 },
      use: { bytes: 10 * mebibyte - 1 },
      is: "near",
    },
    { when: "every byte", allowance: { ...none, bandwidthMb: 10 }, use: { bytes: 10 * mebibyte }, is: "over" },
    {
      when: "one of the two is used up",
      allowance: { requests: 1_000, bandwidthMb: 10 },
      use: { requests: 1, bytes: 11 * mebibyte },
      is: "over",
    },
    { when: "no request is allowed", allowance: { ...none, requests: 0 }, use: {}, is: "over" },
    { when: "no traffic is allowed", allowance: { ...none, bandwidthMb: 0 }, use: {}, is: "over" },
  ])("$when: $is", ({ allowance, use, is }) => {
    expect(standing(allowance, { requests: 0, bytes: 0, ...use })).toBe(is);
  });
});

const gone: Partial<OwnedProject> = { suspendReason: "quota" };
test.each<{
  level: "near" | "over";
  told: OwnerFacts["told"];
  used: number;
  projects?: Partial<OwnedProject>[];
  does: NoticeStep;
}>([
  { level: "near", told: "near", used: 79, does: { do: "drop", told: null } },
  { level: "near", told: "near", used: 80, does: { do: "send" } },
  { level: "near", told: "near", used: 100, does: { do: "drop", told: null } },
  { level: "near", told: "over", used: 100, does: { do: "drop", told: "over" } },
  { level: "over", told: "over", used: 100, projects: [gone, {}], does: { do: "send" } },
  {
    ...{ level: "over", told: "over", used: 100, projects: [{ ...gone, isResuming: true }] },
    does: { do: "drop", told: "near" },
  },
  {
    ...{ level: "over", told: "over", used: 100, projects: [{ suspendReason: "admin" }] },
    does: { do: "drop", told: "near" },
  },
])("a notice of $level with $used of 100 and $projects: $does", ({ level, told, used, projects = [], does }) => {
  const owned = projects.map((change) => project("p", change));
  const use = { requests: used, bytes: 0 };
  const owner = { now, allowance: { ...none, requests: 100 }, use, told, projects: owned };
  expect(noticeStep(owner, level)).toEqual(does);
});

const now = new Date("2026-03-15T12:00:00Z");
const project = (id: string, change: Partial<OwnedProject> = {}): OwnedProject => ({
  id,
  suspendReason: null,
  isResuming: false,
  waivedUntil: null,
  ...change,
});
const anOwner = (requests: number, projects: OwnedProject[], change: Partial<OwnerFacts> = {}): OwnerFacts => ({
  now,
  allowance: { requests: 100, bandwidthMb: null },
  use: { requests, bytes: 0 },
  told: null,
  projects,
  ...change,
});
const nothing = { suspend: [], resume: [], tell: null };

test.each([
  { when: "there is enough left", owner: anOwner(10, [project("a")]), does: nothing },
  { when: "most is used", owner: anOwner(80, [project("a")]), does: { ...nothing, tell: "near" } },
  { when: "most is used, as the owner knows", owner: anOwner(90, [project("a")], { told: "near" }), does: nothing },
  {
    when: "it is used up",
    owner: anOwner(100, [project("a"), project("b")], { told: "near" }),
    does: { ...nothing, suspend: ["a", "b"], tell: "over" },
  },
  {
    when: "it is used up, and one project is new since",
    owner: anOwner(120, [project("a", { suspendReason: "quota" }), project("b")], { told: "over" }),
    does: { ...nothing, suspend: ["b"] },
  },
  {
    when: "an administrator had suspended one before",
    owner: anOwner(120, [project("a", { suspendReason: "admin" })]),
    does: nothing,
  },
  {
    when: "an administrator lets one run on this month",
    owner: anOwner(120, [project("a", { waivedUntil: monthEnd(now) })]),
    does: nothing,
  },
  {
    when: "an administrator let one run on last month",
    owner: anOwner(120, [project("a", { waivedUntil: new Date("2026-03-01T00:00:00Z") })]),
    does: { ...nothing, suspend: ["a"], tell: "over" },
  },
  {
    when: "an administrator resumes one at this moment",
    owner: anOwner(120, [project("a", { suspendReason: "quota", isResuming: true, waivedUntil: monthEnd(now) })]),
    does: nothing,
  },
  {
    when: "one is coming back, and the plan has become smaller meanwhile",
    owner: anOwner(120, [project("a", { suspendReason: "quota", isResuming: true })], { told: "over" }),
    does: { ...nothing, suspend: ["a"] },
  },
  {
    when: "one is coming back from an administrator's suspension",
    owner: anOwner(120, [project("a", { suspendReason: "admin", isResuming: true })]),
    does: nothing,
  },
  {
    when: "there is some left again",
    owner: anOwner(1, [project("a", { suspendReason: "quota" }), project("b", { suspendReason: "admin" })]),
    does: { ...nothing, resume: ["a"] },
  },
  {
    when: "nothing is limited any more",
    owner: anOwner(500, [project("a", { suspendReason: "quota" })], { allowance: none, told: "over" }),
    does: { ...nothing, resume: ["a"] },
  },
  {
    when: "one is coming back already",
    owner: anOwner(1, [project("a", { suspendReason: "quota", isResuming: true })]),
    does: nothing,
  },
])("when $when", ({ owner, does }) => {
  expect(decide(owner)).toEqual(does);
});

test.each([
  { at: "2026-03-31T23:59:59.999Z", month: "2026-03-01", end: "2026-04-01T00:00:00.000Z" },
  { at: "2026-12-31T23:00:00.000Z", month: "2026-12-01", end: "2027-01-01T00:00:00.000Z" },
  { at: "2027-01-01T00:00:00.000Z", month: "2027-01-01", end: "2027-02-01T00:00:00.000Z" },
  { at: "2028-02-29T00:00:00.000Z", month: "2028-02-01", end: "2028-03-01T00:00:00.000Z" },
])("$at is in the month of $month until $end", ({ at, month, end }) => {
  expect(monthOf(new Date(at))).toBe(month);
  expect(monthEnd(new Date(at)).toISOString()).toBe(end);
});
