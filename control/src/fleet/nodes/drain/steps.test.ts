import { expect, test } from "vitest";
import { type DrainingNode, drainSteps } from "./steps.ts";

const now = new Date("2030-01-01T12:00:00Z");
const before = new Date("2030-01-01T11:59:59Z");
const later = new Date("2030-01-01T12:00:01Z");
const empty: DrainingNode = { id: "n1", state: "draining", generation: 4, deadline: later, held: [], runs: [] };
const ofDeployment = (ownerId: string) => ({ ownerKind: "deployment", ownerId }) as const;
const site = { taskId: "t1", ...ofDeployment("d1"), leaves: "replaced", drains: false } as const;
const replaced = { ...site, drains: true } as const;
const build = { taskId: "t2", ...ofDeployment("d2"), leaves: "redone", drains: false } as const;
const offered = {
  attemptId: "d3.1",
  kind: "release",
  ...ofDeployment("d3"),
  claimed: false,
  isAskedToEnd: false,
} as const;
const bound = { ...site, taskId: "t4", leaves: { stays: "Its data is here.", moveWith: "svc admin db move" } };
const granted = { ...offered, claimed: true };

test.each<{ when: string; node: Partial<DrainingNode>; does: string[] }>([
  { when: "nothing is left", node: {}, does: ["finish"] },
  { when: "nothing is left at last", node: { state: "deadline", deadline: before }, does: ["finish"] },
  { when: "nothing was left when time was up", node: { deadline: before }, does: ["finish"] },
  { when: "it is drained", node: { state: "drained" }, does: [] },
  { when: "something came after all", node: { state: "drained", held: [site] }, does: ["reopen"] },
  { when: "a site is still there", node: { held: [site] }, does: [] },
  { when: "a replaced container serves what is open", node: { held: [replaced] }, does: [] },
  { when: "time is up for what is open", node: { held: [replaced], deadline: before }, does: ["expire", "endDrain"] },
  {
    when: "a container was replaced after time was up",
    node: { state: "deadline", held: [replaced, site], deadline: before },
    does: ["endDrain"],
  },
  { when: "something stays until somebody moves it", node: { held: [bound] }, does: [] },
  { when: "time is up for it", node: { held: [bound], deadline: before }, does: ["expire"] },
  { when: "time was up for it", node: { state: "deadline", held: [bound], deadline: before }, does: [] },
  { when: "it came after all", node: { state: "drained", held: [bound] }, does: ["reopen"] },
  { when: "a build is still there", node: { held: [build] }, does: [] },
  { when: "a command was offered", node: { runs: [offered] }, does: ["endRun"] },
  { when: "it was taken back already", node: { runs: [{ ...offered, isAskedToEnd: true }] }, does: [] },
  { when: "a command may run", node: { runs: [granted] }, does: [] },
  { when: "time is up for a site", node: { held: [site], deadline: before }, does: ["expire"] },
  { when: "time is up at this very moment", node: { held: [site], deadline: now }, does: ["expire"] },
  {
    when: "time is up for all kinds of things",
    node: { held: [site, build], runs: [granted], deadline: before },
    does: ["expire", "redo", "endRun"],
  },
  {
    when: "time was up, and a leader died before it was done",
    node: { state: "deadline", held: [site, build], runs: [granted], deadline: before },
    does: ["redo", "endRun"],
  },
])("when $when", ({ node, does }) => {
  const steps = drainSteps([{ ...empty, ...node }], now);
  expect(steps.map((step) => step.do)).toEqual(does);
  for (const step of steps) expect(step).toMatchObject({ nodeId: "n1", generation: 4 });
});

test("each node is looked at by itself", () => {
  const nodes = [empty, { ...empty, id: "n2", held: [site] }, { ...empty, id: "n3" }];
  expect(drainSteps(nodes, now).map(({ nodeId }) => nodeId)).toEqual(["n1", "n3"]);
});
