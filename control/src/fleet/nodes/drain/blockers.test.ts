import type { NodeAxes } from "@svc/proto";
import { expect, test } from "vitest";
import { kindOfRun } from "../../tasks/run-kinds/index.ts";
import { type HeldTask, runBlocker, taskBlocker } from "./blockers.ts";

const now = new Date("2030-01-01T12:00:00Z");
const ago = (seconds: number) => new Date(now.getTime() - seconds * 1000);
const site: HeldTask = {
  leaves: "replaced",
  whose: "shop/production",
  desired: "running",
  isOnItsWay: false,
  isServed: true,
  leavingSince: null,
  edges: null,
  replacement: null,
};
const bound: Partial<HeldTask> = { leaves: { stays: "Its data is here.", moveWith: "svc admin db move" } };
const replacement = { isPlaced: false, isServing: false, refused: null };
const leaving = (seconds: number, current: number): Partial<HeldTask> => ({
  leavingSince: ago(seconds),
  edges: { inRotation: 3, current },
});

test.each<{
  when: string;
  task: Partial<HeldTask>;
  link?: NodeAxes["link"];
  movesDatabases?: boolean;
  is: [string, string | null];
  says?: RegExp;
}>([
  { when: "others move first", task: {}, is: ["turn", null] },
  { when: "a node is being looked for", task: { replacement }, is: ["node", null] },
  {
    when: "no node has room",
    task: { replacement: { ...replacement, refused: { "too little memory": 2, cordoned: 1 } } },
    is: ["node", "NODE_CAPACITY_UNAVAILABLE"],
    says: /2 nodes: too little memory; 1 node: cordoned/,
  },
  { when: "the replacement starts", task: { replacement: { ...replacement, isPlaced: true } }, is: ["start", null] },
  {
    when: "the replacement serves",
    task: { replacement: { ...replacement, isPlaced: true, isServing: true } },
    is: ["edges", null],
  },
  { when: "edges are about to leave it", task: leaving(3, 1), is: ["edges", null], says: /^2 of 3 edges/ },
  { when: "an edge does not follow", task: leaving(31, 2), is: ["edges", "ROUTE_DIVERGED"], says: /^1 of 3 edges/ },
  { when: "requests come to their end", task: leaving(31, 3), is: ["requests", null] },
  { when: "its deployment is on its way", task: { isOnItsWay: true, isServed: false }, is: ["deploy", null] },
  { when: "its deployment serves no more", task: { isServed: false, ...leaving(1, 3) }, is: ["requests", null] },
  { when: "it was told to stop", task: { desired: "removed" }, is: ["stop", null] },
  {
    when: "it was told to stop and cannot hear it",
    task: { desired: "removed" },
    link: "unreachable",
    is: ["fence", "NODE_FENCE_REQUIRED"],
  },
  { when: "its node is only silent for a moment", task: { desired: "removed" }, link: "suspect", is: ["stop", null] },
  { when: "it is a build", task: { leaves: "redone" }, is: ["build", null] },
  { when: "it is a build on a lost node", task: { leaves: "redone" }, link: "unreachable", is: ["build", null] },
  {
    when: "it stays until somebody moves it",
    task: bound,
    is: ["move", null],
    says: /^Its data is here\. Move it with `svc admin db move shop\/production`, or drain with --move-databases\.$/,
  },
  {
    when: "it stays, and its node is lost",
    task: bound,
    link: "unreachable",
    is: ["move", null],
    says: /^Its data is here\. Move it with `svc admin db move shop\/production`, or drain with --move-databases\.$/,
  },
  {
    when: "it moves along with the drain",
    task: bound,
    movesDatabases: true,
    is: ["move", null],
    says: /^Its data is here\. It moves when its turn comes, if a node takes it\.$/,
  },
  { when: "it stays no longer", task: { ...bound, desired: "removed" }, is: ["stop", null] },
])("when $when", ({ task, link = "connected", movesDatabases = false, is, says = /./ }) => {
  const blocker = taskBlocker({ ...site, ...task }, { link, now, movesDatabases });
  expect([blocker.waitsFor, blocker.code]).toEqual(is);
  expect(blocker.why).toMatch(says);
});

test.each<{ claimed: boolean; link: NodeAxes["link"]; is: [string, string | null] }>([
  { claimed: false, link: "connected", is: ["release", null] },
  { claimed: true, link: "connected", is: ["release", null] },
  { claimed: true, link: "suspect", is: ["release", null] },
  { claimed: true, link: "unreachable", is: ["fence", "NODE_FENCE_REQUIRED"] },
  { claimed: true, link: "quarantined", is: ["fence", "NODE_FENCE_REQUIRED"] },
  { claimed: false, link: "unreachable", is: ["release", null] },
])("a release command, claimed $claimed, on a node that is $link", ({ claimed, link, is }) => {
  const blocker = runBlocker(kindOfRun("release"), claimed, link);
  expect([blocker.waitsFor, blocker.code]).toEqual(is);
  expect(blocker.why).toContain("release command");
});

test.each([
  { claimed: false, link: "connected" as const, is: "build" },
  { claimed: true, link: "connected" as const, is: "build" },
  { claimed: true, link: "unreachable" as const, is: "fence" },
])("another kind of run, claimed $claimed, has its own name and what it waits for", ({ claimed, link, is }) => {
  const survey = { called: { one: "survey", many: "surveys" }, waitsFor: "build" } as const;
  expect(runBlocker(survey, claimed, link)).toMatchObject({
    waitsFor: is,
    why: expect.stringContaining("Its survey "),
  });
});
