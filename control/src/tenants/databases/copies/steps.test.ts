import { expect, test } from "vitest";
import { type CopiesFacts, type CopyFacts, lackingMaxMs, nextCopiesStep, restartMs, successorMs } from "./steps.ts";

const keeping = { taskId: "t", wanted: true, failed: false, isCurrent: true, ageMs: 0 };
const aCopy = (overrides: Partial<CopyFacts> = {}): CopyFacts => ({
  ...{ id: "c", purpose: "keeper", generation: 1, nodeId: "n2", nodeGone: false, nodeLeaving: false, tier: 2 },
  ...{ state: "following", isFresh: true, ageMs: 0, lackingMs: 0, isTooLarge: false, isLetIn: true },
  ...{ keepers: [keeping], ...overrides },
});
const aSuccessor = (overrides: Partial<CopyFacts> = {}): CopyFacts =>
  aCopy({ id: "s", purpose: "successor", nodeId: "n3", tier: 3, isFresh: false, state: "basing", ...overrides });
const facts: CopiesFacts = {
  ...{ isWanted: true, status: "ready", generation: 1, suspended: false, projectGone: false, isServing: true },
  ...{ isChanging: false, hasPassword: true, copies: [aCopy()], best: null, mayHoldLog: false },
};
/** Its keeper has tried for hours. */
const lacking: Partial<CopyFacts> = { state: "broken", isFresh: false, lackingMs: lackingMaxMs };
const end = (copyId: string) => ({ do: "end", copyId });

test.each<{ when: string; are: Partial<CopiesFacts>; does: object }>([
  {
    when: "there is none, and a node takes one",
    are: { copies: [], best: { nodeId: "n2", tier: 2 } },
    does: { do: "begin", purpose: "keeper", nodeId: "n2" },
  },
  { when: "there is none, and no node takes one", are: { copies: [] }, does: { do: "rest" } },
  {
    when: "the branch is not ready yet",
    are: { status: "provisioning", copies: [], best: { nodeId: "n2", tier: 2 } },
    does: { do: "rest" },
  },
  {
    when: "the branch is about to move",
    are: { isChanging: true, copies: [], best: { nodeId: "n2", tier: 2 } },
    does: { do: "rest" },
  },
  {
    when: "none are kept here",
    are: { isWanted: false, copies: [], best: { nodeId: "n2", tier: 2 } },
    does: { do: "rest" },
  },
  { when: "none are kept here any more", are: { isWanted: false }, does: end("c") },
  {
    when: "none are kept here, and one is for a move",
    are: { isWanted: false, copies: [aCopy({ purpose: "move" })] },
    does: { do: "rest" },
  },
  {
    when: "another node has joined, and the copy is on the branch's own",
    are: { copies: [aCopy({ tier: 1, nodeId: "n1" })], best: { nodeId: "n2", tier: 2 } },
    does: { do: "begin", purpose: "successor", nodeId: "n2" },
  },
  {
    when: "another zone has a node",
    are: { best: { nodeId: "n3", tier: 3 } },
    does: { do: "begin", purpose: "successor", nodeId: "n3" },
  },
  {
    when: "the one that is to take its place follows, and a move may come out of the one before",
    are: { isChanging: true, copies: [aCopy(), aSuccessor({ isFresh: true, state: "following" })] },
    does: { do: "rest" },
  },
  {
    when: "the branch is about to move, and nothing would end with it",
    are: { isChanging: true, copies: [aSuccessor()] },
    does: { do: "promote", copyId: "s", insteadOf: null },
  },
  { when: "another node is no better", are: { best: { nodeId: "n3", tier: 2 } }, does: { do: "rest" } },
  {
    when: "its node is to be empty",
    are: { copies: [aCopy({ nodeLeaving: true, tier: 3 })], best: { nodeId: "n3", tier: 2 } },
    does: { do: "begin", purpose: "successor", nodeId: "n3" },
  },
  {
    when: "its node is to be empty, and only the branch's own could have it",
    are: { copies: [aCopy({ nodeLeaving: true })], best: { nodeId: "n1", tier: 1 } },
    does: { do: "rest" },
  },
  { when: "the successor does not follow yet", are: { copies: [aCopy(), aSuccessor()] }, does: { do: "rest" } },
  {
    when: "the successor follows",
    are: { copies: [aCopy(), aSuccessor({ isFresh: true })] },
    does: { do: "promote", copyId: "s", insteadOf: "c" },
  },
  {
    when: "the one before is gone",
    are: { copies: [aSuccessor()] },
    does: { do: "promote", copyId: "s", insteadOf: null },
  },
  {
    when: "the successor has not followed for a day",
    are: { copies: [aCopy(), aSuccessor({ ageMs: successorMs })] },
    does: end("s"),
  },
  {
    when: "the successor is no better any more",
    are: { copies: [aCopy(), aSuccessor({ tier: 2 })] },
    does: end("s"),
  },
  { when: "its node is gone", are: { copies: [aCopy({ nodeGone: true })] }, does: end("c") },
  { when: "the branch has another volume", are: { generation: 2 }, does: end("c") },
  { when: "the branch's own machine is lost", are: { status: "error", isServing: false }, does: { do: "rest" } },
  {
    when: "it is broken, and its keeper is there",
    are: { copies: [aCopy({ state: "broken" })] },
    does: { do: "rest" },
  },
  {
    when: "it lacks everything for hours, and another node takes one",
    are: { copies: [aCopy(lacking)], best: { nodeId: "n3", tier: 2 } },
    does: { do: "begin", purpose: "successor", nodeId: "n3" },
  },
  {
    when: "it says nothing for hours, and only the branch's own node takes one",
    are: { copies: [aCopy({ ...lacking, state: "following" })], best: { nodeId: "n1", tier: 1 } },
    does: { do: "begin", purpose: "successor", nodeId: "n1" },
  },
  {
    when: "it lacks everything for hours, and no node takes one",
    are: { copies: [aCopy(lacking)] },
    does: { do: "rest" },
  },
  {
    when: "it has lacked what was written for hours, and so would any other, for want of room",
    are: { copies: [aCopy({ ...lacking, isTooLarge: true })], best: { nodeId: "n3", tier: 2 } },
    does: { do: "rest" },
  },
  {
    when: "it has been broken for less than hours",
    are: { copies: [aCopy({ ...lacking, lackingMs: lackingMaxMs - 1 })], best: { nodeId: "n3", tier: 2 } },
    does: { do: "rest" },
  },
  {
    when: "it lacks everything for hours, and so does every copy, since the server does not answer",
    are: { isServing: false, copies: [aCopy(lacking)], best: { nodeId: "n3", tier: 2 } },
    does: { do: "rest" },
  },
  {
    when: "the one instead of one that lacks everything is not whole yet",
    are: { copies: [aCopy(lacking), aSuccessor({ tier: 2 })] },
    does: { do: "rest" },
  },
  {
    when: "the one instead of one that lacks everything follows",
    are: { copies: [aCopy(lacking), aSuccessor({ tier: 2, isFresh: true })] },
    does: { do: "promote", copyId: "s", insteadOf: "c" },
  },
  {
    when: "the one instead of one that lacked everything does not either",
    are: { copies: [aCopy(lacking), aSuccessor({ tier: 2, ageMs: successorMs })] },
    does: end("s"),
  },
  { when: "the branch is dropped", are: { status: "dropping", generation: 2 }, does: { do: "rest" } },
  { when: "the project is being deleted", are: { projectGone: true, copies: [] }, does: { do: "rest" } },
  {
    when: "the project is suspended",
    are: { suspended: true },
    does: { do: "removeKeepers", copyId: "c", taskIds: ["t"] },
  },
  {
    when: "the project is suspended, and nobody keeps it",
    are: { suspended: true, copies: [aCopy({ keepers: [] })], best: { nodeId: "n3", tier: 3 } },
    does: { do: "rest" },
  },
  {
    when: "nobody has said where it is kept",
    are: { copies: [aCopy({ nodeId: null, tier: null, keepers: [] })], best: { nodeId: "n2", tier: 2 } },
    does: { do: "place", copyId: "c", nodeId: "n2" },
  },
  {
    when: "nobody has said where one for a move is kept",
    are: {
      copies: [aCopy(), aCopy({ id: "m", purpose: "move", nodeId: null, tier: null, keepers: [] })],
      best: { nodeId: "n3", tier: 2 },
    },
    does: { do: "place", copyId: "m", nodeId: "n3" },
  },
  {
    when: "whoever keeps copies has no password",
    are: { hasPassword: false, copies: [aCopy({ keepers: [], isLetIn: false })] },
    does: { do: "makePassword" },
  },
  {
    when: "the server does not know who keeps copies",
    are: { copies: [aCopy({ keepers: [], isLetIn: false })] },
    does: { do: "letIn" },
  },
  {
    when: "nobody keeps it",
    are: { copies: [aCopy({ keepers: [] })] },
    does: { do: "startKeeper", copyId: "c" },
  },
  {
    when: "nobody keeps it, and the server does not answer",
    are: { isServing: false, copies: [aCopy({ keepers: [] })] },
    does: { do: "wait" },
  },
  {
    when: "nobody keeps it, on a node that is to be empty",
    are: { copies: [aCopy({ keepers: [], nodeLeaving: true })] },
    does: { do: "rest" },
  },
  {
    when: "the keeper before is on its way out",
    are: { copies: [aCopy({ keepers: [{ ...keeping, wanted: false }] })] },
    does: { do: "wait" },
  },
  {
    when: "its keeper has just failed",
    are: { copies: [aCopy({ keepers: [{ ...keeping, failed: true, ageMs: restartMs - 1 }] })] },
    does: { do: "rest" },
  },
  {
    when: "its keeper has failed",
    are: { copies: [aCopy({ keepers: [{ ...keeping, failed: true, ageMs: restartMs }] })] },
    does: { do: "removeKeepers", copyId: "c", taskIds: ["t"] },
  },
  {
    when: "its keeper has another room than the plan gives by now",
    are: { copies: [aCopy({ keepers: [{ ...keeping, isCurrent: false }] })] },
    does: { do: "removeKeepers", copyId: "c", taskIds: ["t"] },
  },
  {
    when: "a keeper of another room could not be let in again",
    are: { isServing: false, copies: [aCopy({ keepers: [{ ...keeping, isCurrent: false }] })] },
    does: { do: "rest" },
  },
  {
    when: "a keeper of another room keeps what a change comes out of",
    are: { isChanging: true, copies: [aCopy({ keepers: [{ ...keeping, isCurrent: false }] })] },
    does: { do: "rest" },
  },
  { when: "the server may keep its log for one that ended", are: { mayHoldLog: true }, does: { do: "releaseLog" } },
  { when: "the server that may is away", are: { mayHoldLog: true, isServing: false }, does: { do: "rest" } },
])("when $when", ({ are, does }) => {
  expect(nextCopiesStep({ ...facts, ...are })).toMatchObject(does);
});
