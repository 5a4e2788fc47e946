import { expect, test } from "vitest";
import { type DrainingNode, drainSteps } from "./steps.ts";

const now = new Date("2030-01-01T12:00:00Z");
const before = new Date("2030-01-01T11:59:59Z");
const later = new Date("2030-01-01T12:00:01Z");
const empty: DrainingNode = { id: "n1", state: "draining", generation: 4, deadline: later, held: [], runs: [] };
const site = { taskId: "t1", ownerId: "d1", kind: "serve", drains: false } as const;
const replaced = { ...site, drains: true } as const;
const build = { taskId: "t2", ownerId: "d2", kind: "build", drains: false } as const;
const offered = { attemptId: "d3.1", ownerId: "d3", claimed: false, isAskedToEnd: false } as const;
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
