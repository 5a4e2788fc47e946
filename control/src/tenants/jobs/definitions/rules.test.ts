import { manifestSchema } from "@svc/proto";
import { describe, expect, test } from "vitest";
import { arePausesRight, type Definition, definitionsOf, type PauseCounts, settle, switchJobs } from "./rules.ts";

const definition = (name: string, values: Partial<Definition> = {}): Definition => ({
  ...{ name, schedule: "0 3 * * *", timezone: "UTC", timeoutSeconds: 900, retries: 0, overlap: "skip", enabled: true },
  ...values,
});
const known = (name: string, values: { schedule?: string; timezone?: string; retired_at?: Date } = {}) => ({
  ...{ id: `id of ${name}`, name, schedule: "0 3 * * *", timezone: "UTC", retired_at: null },
  ...values,
});
const earlier = new Date("2026-01-01T00:00:00Z");

describe("a channel's jobs", () => {
  test.each([
    { when: "the first deployment has some", had: [], wants: [definition("a")], added: ["a"] },
    { when: "it has none", had: [], wants: [] },
    { when: "the same are there again", had: [known("a")], wants: [definition("a")], kept: [["a", false]] },
    {
      when: "a name is gone",
      had: [known("a"), known("b")],
      wants: [definition("b")],
      kept: [["b", false]],
      retired: ["a"],
    },
    { when: "nothing is served any more", had: [known("a"), known("b")], wants: [], retired: ["a", "b"] },
    { when: "a name is another one now", had: [known("a")], wants: [definition("b")], added: ["b"], retired: ["a"] },
    {
      when: "a schedule is another one",
      had: [known("a")],
      wants: [definition("a", { schedule: "0 4 * * *" })],
      kept: [["a", true]],
    },
    {
      when: "a zone is another one",
      had: [known("a")],
      wants: [definition("a", { timezone: "Asia/Tokyo" })],
      kept: [["a", true]],
    },
    {
      when: "only something else of it changes",
      had: [known("a")],
      wants: [definition("a", { retries: 3 })],
      kept: [["a", false]],
    },
    {
      when: "a name comes back",
      had: [known("a", { retired_at: earlier })],
      wants: [definition("a")],
      kept: [["a", true]],
    },
    {
      when: "one that was gone stays so",
      had: [known("a", { retired_at: earlier })],
      wants: [definition("b")],
      added: ["b"],
    },
  ])("when $when", ({ had, wants, added = [], kept = [], retired = [] }) => {
    const found = switchJobs(had, wants);
    expect(found.added.map(({ name }) => name)).toEqual(added);
    expect(found.kept.map(({ id, countsAnew }) => [id, countsAnew])).toEqual(
      kept.map(([name, countsAnew]) => [`id of ${name}`, countsAnew]),
    );
    expect(found.kept.map(({ definition: of }) => of)).toEqual(
      wants.filter(({ name }) => had.some((job) => job.name === name)),
    );
    expect(found.retired).toEqual(retired.map((name) => `id of ${name}`));
  });
});

test("a manifest's jobs are told without their commands, and only servers have any", () => {
  const job = { name: "nightly", schedule: "0 3 * * *", command: "node secret.js" };
  const ssr = manifestSchema.parse({ version: 2, app: { name: "Shop", type: "ssr" }, jobs: [job] });
  expect(definitionsOf(ssr)).toEqual([definition("nightly")]);
  expect(JSON.stringify(definitionsOf(ssr))).not.toContain("secret");
  expect(definitionsOf(manifestSchema.parse({ version: 2, app: { name: "Shop", type: "static" } }))).toEqual([]);
  const image = { version: 2, name: "Shop", type: "ociimage", port: 80, image: { reference: "registry.test/shop:1" } };
  expect(definitionsOf(manifestSchema.parse(image))).toEqual([]);
});

const now = new Date("2026-11-02T12:00:00Z");
const next = new Date("2026-11-03T03:00:00Z");
const free = { now, isSuspended: false, isStopped: false, maxScheduledJobs: 10 };
type Live = Parameters<typeof settle>[0][number];
const live = (name: string, values: Partial<Live> = {}): Live => ({
  ...{ id: name, name, channel: "production", pr_number: 0, schedule: "0 3 * * *", timezone: "UTC" },
  ...{ source_enabled: true, user_enabled: null, pause_reason: null, next_fire_at: null },
  ...values,
});
const scheduled = { next_fire_at: next };
const paused = (pause_reason: Live["pause_reason"]) => ({ pause_reason, next_fire_at: null });

describe("pauses and next instants", () => {
  test.each<{ when: string; jobs: Live[]; situation?: Partial<typeof free>; changes: unknown[] }>([
    { when: "a job is new", jobs: [live("a")], changes: [{ id: "a", pause_reason: null, ...scheduled }] },
    { when: "it is scheduled already", jobs: [live("a", scheduled)], changes: [] },
    {
      when: "one that is due has not been begun yet",
      jobs: [live("a", { next_fire_at: new Date("2026-11-02T11:59:59Z") })],
      changes: [],
    },
    { when: "the manifest says no", jobs: [live("a", { source_enabled: false })], changes: [] },
    {
      when: "the manifest says no and its owner yes",
      jobs: [live("a", { source_enabled: false, user_enabled: true, ...scheduled })],
      changes: [{ id: "a", pause_reason: null, next_fire_at: null }],
    },
    {
      when: "its owner says no",
      jobs: [live("a", { user_enabled: false, ...scheduled })],
      changes: [{ id: "a", pause_reason: null, next_fire_at: null }],
    },
    {
      when: "its owner says yes",
      jobs: [live("a", { user_enabled: true })],
      changes: [{ id: "a", pause_reason: null, ...scheduled }],
    },
    {
      when: "its owner says yes in a pause",
      jobs: [live("a", { user_enabled: true })],
      situation: { isSuspended: true },
      changes: [{ id: "a", ...paused("suspended") }],
    },
    {
      when: "production is stopped",
      jobs: [live("a", scheduled), live("b", { channel: "dev", ...scheduled })],
      situation: { isStopped: true },
      changes: [{ id: "a", ...paused("stopped") }],
    },
    {
      when: "production starts again",
      jobs: [live("a", paused("stopped"))],
      changes: [{ id: "a", pause_reason: null, ...scheduled }],
    },
    {
      when: "the project is suspended",
      jobs: [live("a", scheduled), live("b", { channel: "preview", ...scheduled })],
      situation: { isSuspended: true },
      changes: [
        { id: "a", ...paused("suspended") },
        { id: "b", ...paused("suspended") },
      ],
    },
    {
      when: "a stopped project is suspended",
      jobs: [live("a", paused("stopped"))],
      situation: { isSuspended: true, isStopped: true },
      changes: [{ id: "a", ...paused("suspended") }],
    },
    {
      when: "a stopped project is resumed",
      jobs: [live("a", paused("suspended"))],
      situation: { isStopped: true },
      changes: [{ id: "a", ...paused("stopped") }],
    },
    {
      when: "the plan has fewer: the last by name are paused",
      jobs: [live("c", scheduled), live("a", scheduled), live("b", scheduled)],
      situation: { maxScheduledJobs: 1 },
      changes: [
        { id: "b", ...paused("plan") },
        { id: "c", ...paused("plan") },
      ],
    },
    {
      when: "the plan has fewer: production comes before the rest, and stable channels before pull requests",
      jobs: [
        live("a", { id: "pr", channel: "preview", pr_number: 7, ...scheduled }),
        live("b", { id: "preview", channel: "preview", ...scheduled }),
        live("c", { id: "dev", channel: "dev", ...scheduled }),
        live("d", { id: "production", ...scheduled }),
      ],
      situation: { maxScheduledJobs: 2 },
      changes: [
        { id: "preview", ...paused("plan") },
        { id: "pr", ...paused("plan") },
      ],
    },
    {
      when: "the plan has none",
      jobs: [live("a", scheduled)],
      situation: { maxScheduledJobs: 0 },
      changes: [{ id: "a", ...paused("plan") }],
    },
    {
      when: "the plan has room again",
      jobs: [live("a", scheduled), live("b", paused("plan"))],
      changes: [{ id: "b", pause_reason: null, ...scheduled }],
    },
    {
      when: "it is paused already",
      jobs: [live("a", paused("plan"))],
      situation: { maxScheduledJobs: 0 },
      changes: [],
    },
  ])("when $when", ({ jobs, situation, changes }) => {
    const all = { ...free, ...situation };
    expect(settle(jobs, all)).toEqual(changes);
    const settled = new Map(settle(jobs, all).map((each) => [each.id, each]));
    const after = jobs.map((job) => ({ ...job, ...settled.get(job.id) }));
    expect(settle(after, all)).toEqual([]);
    // What the leader counts says the same as what is decided of each.
    expect(arePausesRight(countsOf(after), all)).toBe(true);
    const pausesChange = jobs.some((job) => (settled.get(job.id) ?? job).pause_reason !== job.pause_reason);
    expect(arePausesRight(countsOf(jobs), all)).toBe(!pausesChange);
  });
});

const countsOf = (jobs: readonly Live[]): PauseCounts => {
  const count = (is: (job: Live) => boolean) => jobs.filter(is).length;
  return {
    jobs: jobs.length,
    ofProduction: count(({ channel }) => channel === "production"),
    suspended: count(({ pause_reason }) => pause_reason === "suspended"),
    stopped: count(({ pause_reason }) => pause_reason === "stopped"),
    plan: count(({ pause_reason }) => pause_reason === "plan"),
  };
};

test("production that is stopped uses the plan's room all the same", () => {
  const jobs = [live("a"), live("b"), live("x", { channel: "dev" }), live("y", { channel: "dev" })];
  const situation = { ...free, isStopped: true, maxScheduledJobs: 3 };
  const reasons = Object.fromEntries(settle(jobs, situation).map(({ id, pause_reason }) => [id, pause_reason]));
  expect(reasons).toEqual({ a: "stopped", b: "stopped", x: null, y: "plan" });
});
