import type { NodeBlocker, NodeDetail } from "@svc/proto";
import { expect, test } from "vitest";
import { blockerText, isStuck, judgeDrain, stuckMsMax } from "./judge.ts";

const blocker = (fields: Partial<NodeBlocker> = {}): NodeBlocker => ({
  ...{ kind: "serve", project: "shop", channel: "production", prNumber: null, replica: 1 },
  ...{ waitsFor: "start", code: null, why: "Its replacement is starting on another node." },
  ...fields,
});
const full = blocker({ waitsFor: "node", code: "NODE_CAPACITY_UNAVAILABLE", why: "No node takes its replacement." });
const node = (
  drain: Partial<NodeDetail["drain"]>,
  status: NodeDetail["status"] = "draining",
): Pick<NodeDetail, "name" | "status" | "drain" | "edge"> => ({
  ...{ name: "node-1", status },
  drain: { state: "draining", startedAt: null, deadline: null, remaining: 3, blockers: [], ...drain },
});

test.each<{ when: string; look: ReturnType<typeof node>; stuckMs?: number; wasLate?: boolean; says: object }>([
  { when: "it goes on", look: node({}), says: { over: false, text: "Draining node-1: 3 things left" } },
  {
    when: "it is known why",
    look: node({ blockers: [blocker({ waitsFor: "build" }), blocker(), blocker()] }),
    says: { over: false, text: "Draining node-1: 3 things left, 2 starting elsewhere, 1 building" },
  },
  {
    when: "it is an edge",
    look: { ...node({ remaining: 0 }), edge: { inRotation: false, phase: "leaving", lacks: null, unready: "x" } },
    says: { over: false, text: "Draining node-1: its health tells visitors to go elsewhere" },
  },
  { when: "it is empty", look: node({ state: "drained", remaining: 0 }, "drained"), says: { how: "drained" } },
  { when: "time is up", look: node({ state: "deadline", blockers: [full] }), says: { how: "deadline" } },
  {
    when: "time was up before",
    look: node({ state: "deadline", blockers: [full] }),
    wasLate: true,
    says: { over: false, text: "Draining node-1 past its deadline: 3 things left, 1 looking for a node" },
  },
  {
    when: "time was up before, and nothing moves",
    ...{ look: node({ state: "deadline", blockers: [full] }), wasLate: true, stuckMs: stuckMsMax },
    says: { how: "blocked" },
  },
  { when: "no node has room for a moment", look: node({ blockers: [full] }), stuckMs: 1_000, says: { over: false } },
  { when: "no node has room", look: node({ blockers: [full] }), stuckMs: stuckMsMax, says: { how: "blocked" } },
  {
    when: "something else still moves",
    look: node({ blockers: [full, blocker()] }),
    stuckMs: stuckMsMax,
    says: { over: false },
  },
  { when: "somebody cancelled it", look: node({ state: "none" }, "cordoned"), says: { how: "ended" } },
  { when: "somebody fenced it", look: node({ state: "none" }, "fenced"), says: { text: /fenced/ } },
])("when $when", ({ look, stuckMs = 0, wasLate = false, says }) => {
  const verdict = judgeDrain(look, { stuckMs, wasLate });
  for (const [field, value] of Object.entries(says)) {
    const found = Object.entries(verdict).find(([name]) => name === field)?.[1];
    if (value instanceof RegExp) expect(found).toMatch(value);
    else expect(found).toBe(value);
  }
});

test("a machine of which nothing is known to wait is not stuck", () => {
  expect(isStuck(node({}))).toBe(false);
  expect(isStuck(node({ blockers: [full] }))).toBe(true);
  expect(isStuck(node({ blockers: [full, blocker({ waitsFor: "turn" })] }))).toBe(true);
  expect(isStuck(node({ blockers: [blocker({ waitsFor: "turn" })] }))).toBe(false);
});

test.each([
  [blocker(), "shop (production, replica 1): Its replacement is starting on another node."],
  [blocker({ kind: "build", replica: null, why: "It builds." }), "shop (production, build): It builds."],
  [
    blocker({ kind: "release", channel: "preview", prNumber: 7, replica: null, why: "It runs." }),
    "shop (preview of pull request 7, release command): It runs.",
  ],
])("%j reads as a line", (each, line) => {
  expect(blockerText(each)).toBe(line);
});
