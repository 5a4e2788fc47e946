import { expect, test } from "vitest";
import { failedMoveMs, type LeavingBranch, nextMoves } from "./drain-steps.ts";

const branch = (databaseId: string, change: Partial<LeavingBranch> = {}): LeavingBranch => ({
  ...{ databaseId, nodeId: "n1", status: "ready", isChanging: false, failedMs: null },
  ...change,
});

test.each<{ when: string; branches: readonly LeavingBranch[]; begin: readonly string[] }>([
  { when: "there are none", branches: [], begin: [] },
  { when: "several are there", branches: [branch("a"), branch("b")], begin: ["a"] },
  { when: "one moves", branches: [branch("a", { isChanging: true }), branch("b")], begin: [] },
  { when: "two machines are emptied", branches: [branch("a"), branch("b", { nodeId: "n2" })], begin: ["a", "b"] },
  { when: "one has just failed", branches: [branch("a", { failedMs: 1 }), branch("b")], begin: ["b"] },
  { when: "one failed a while ago", branches: [branch("a", { failedMs: failedMoveMs })], begin: ["a"] },
  {
    when: "one failed a while ago, and another one never",
    branches: [branch("a", { failedMs: failedMoveMs }), branch("b")],
    begin: ["b"],
  },
  { when: "one is not ready", branches: [branch("a", { status: "provisioning" })], begin: [] },
])("when $when, $begin begin to move", ({ branches, begin }) => {
  expect(nextMoves(branches)).toEqual(begin);
});
