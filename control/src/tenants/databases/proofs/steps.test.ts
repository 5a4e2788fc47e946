import { expect, test } from "vitest";
import { nextProofStep, type ProofFacts, type ProofTaskFacts, proofMs, settledMs } from "./steps.ts";

const result = { coveredAt: "2030-01-01T00:00:00Z", tookMs: 1, bytes: 2, tables: [], isCut: false };
const aTask = (overrides: Partial<ProofTaskFacts> = {}): ProofTaskFacts => ({
  ...{ taskId: "t", wanted: true, state: "running", problem: null, result: null, ...overrides },
});
const facts: ProofFacts = {
  ...{ verdict: "pending", ageMs: 0, nodeId: "n", isServing: true, hasSource: true, coversSource: true },
  ...{ task: null, restoredAgoMs: null },
};
const done = aTask({ state: "completed", result });

test.each<{ when: string; are: Partial<ProofFacts>; does: object }>([
  { when: "nobody has looked at the branch", are: { hasSource: false }, does: { do: "look" } },
  { when: "the branch does not answer", are: { hasSource: false, isServing: false }, does: { do: "wait" } },
  { when: "the copy has not all of it yet", are: { coversSource: false }, does: { do: "wait" } },
  { when: "the copy has all of it", are: {}, does: { do: "startTask", nodeId: "n" } },
  { when: "the node is at it", are: { task: aTask() }, does: { do: "wait" } },
  {
    when: "it could not be restored",
    are: { task: aTask({ state: "failed", problem: "no base" }) },
    does: { do: "fail", reason: "no base" },
  },
  { when: "a drain took it away", are: { task: aTask({ state: "failed", wanted: false }) }, does: { do: "drop" } },
  { when: "the copy has ended", are: { nodeId: null }, does: { do: "drop" } },
  { when: "it takes too long", are: { ageMs: proofMs, task: aTask() }, does: { do: "drop" } },
  { when: "it ended without a word", are: { task: aTask({ state: "completed" }) }, does: { do: "drop" } },
  { when: "counters may be behind", are: { task: done, restoredAgoMs: settledMs - 1 }, does: { do: "wait" } },
  { when: "counters are of after it", are: { task: done, restoredAgoMs: settledMs }, does: { do: "judge", result } },
  {
    when: "counters cannot be read",
    are: { task: done, restoredAgoMs: settledMs, isServing: false },
    does: { do: "wait" },
  },
  { when: "there is a verdict", are: { verdict: "proven", task: done }, does: { do: "removeTask", taskId: "t" } },
  { when: "all is done", are: { verdict: "failed", task: aTask({ wanted: false }) }, does: { do: "end" } },
])("when $when", ({ are, does }) => {
  expect(nextProofStep({ ...facts, ...are })).toMatchObject(does);
});
