import { describe, expect, test } from "vitest";
import {
  type BranchFacts,
  dropWaitMs,
  nextBranchStep,
  provisioningMs,
  restartMs,
  restartMsMax,
  type ServerFacts,
} from "./steps.ts";

const server: ServerFacts = {
  ...{ taskId: "t1", wanted: true, nodeId: "n1", refused: null, state: "serving", problem: null, failsAgain: false },
  ...{ ageMs: 1_000, outgrown: false, readOnly: false, isDown: false },
};
const facts: BranchFacts = {
  ...{ status: "provisioning", sinceMs: 1_000, projectGone: false, suspended: false, nodeId: "n1", nodeGone: false },
  ...{ lastNodeId: "n1", servers: [server], tenantCurrent: true, rotating: false },
  ...{ readOnly: false, standsBy: true },
  ...{ changing: false, serverFailures: 0 },
};
const leaving: ServerFacts = { ...server, wanted: false };
const unplaced: ServerFacts = { ...server, nodeId: null, state: "starting", refused: { cordoned: 2 } };

interface Situation {
  when: string;
  change: Partial<BranchFacts>;
  does: string;
}
const check = ({ change, does }: Situation) => expect(nextBranchStep({ ...facts, ...change }).do).toBe(does);

describe("a branch that is asked for", () => {
  test.each<Situation>([
    { when: "nothing was begun", change: { nodeId: null, lastNodeId: null, servers: [] }, does: "startServer" },
    {
      when: "its server waits for a node",
      change: { nodeId: null, lastNodeId: null, servers: [unplaced] },
      does: "wait",
    },
    { when: "its server was placed", change: { nodeId: null }, does: "pin" },
    { when: "its server starts", change: { servers: [{ ...server, state: "starting" }] }, does: "wait" },
    { when: "its server answers", change: { tenantCurrent: false }, does: "bringTenant" },
    { when: "its tenant was made", change: {}, does: "proveLogin" },
    { when: "it takes too long", change: { sinceMs: provisioningMs }, does: "fail" },
    {
      when: "no node takes it for too long",
      change: { nodeId: null, lastNodeId: null, servers: [unplaced], sinceMs: provisioningMs },
      does: "fail",
    },
    { when: "its server failed", change: { servers: [{ ...server, state: "failed" }] }, does: "fail" },
    { when: "its node is lost", change: { nodeGone: true }, does: "fail" },
    { when: "it was suspended", change: { suspended: true }, does: "removeServers" },
    {
      when: "it was suspended before anybody noted where it is",
      change: { suspended: true, nodeId: null },
      does: "pin",
    },
    { when: "it is suspended", change: { suspended: true, servers: [] }, does: "end" },
    {
      when: "it is suspended for long",
      change: { suspended: true, servers: [], sinceMs: provisioningMs },
      does: "end",
    },
    { when: "a server of before is on its way out", change: { servers: [leaving] }, does: "wait" },
    {
      when: "it is tried again while a server of before goes",
      change: { servers: [leaving, { ...server, taskId: "t2" }] },
      does: "proveLogin",
    },
    { when: "its project is deleted", change: { projectGone: true }, does: "beginDrop" },
    { when: "it is being restored", change: { changing: true, servers: [] }, does: "end" },
  ])("when $when: $does", check);
});

describe("a branch that is ready", () => {
  const ready = (change: Partial<BranchFacts>): Partial<BranchFacts> => ({ status: "ready", ...change });
  test.each<Situation>([
    { when: "all is well", change: ready({}), does: "end" },
    { when: "it is old", change: ready({ sinceMs: 1e12 }), does: "end" },
    { when: "its server is away for now", change: ready({ servers: [{ ...server, state: "starting" }] }), does: "end" },
    { when: "its server failed", change: ready({ servers: [{ ...server, state: "failed" }] }), does: "noteDown" },
    {
      when: "its server just failed, and its owner knows",
      change: ready({ servers: [{ ...server, state: "failed", ageMs: restartMs - 1 }], serverFailures: 1 }),
      does: "wait",
    },
    {
      when: "its server failed a while ago",
      change: ready({ servers: [{ ...server, state: "failed", ageMs: restartMs }], serverFailures: 1 }),
      does: "replaceServer",
    },
    {
      when: "its server failed a while ago, as the one before",
      change: ready({ servers: [{ ...server, state: "failed", ageMs: 2 * restartMs - 1 }], serverFailures: 2 }),
      does: "wait",
    },
    {
      when: "its server failed twice as long ago, as the one before",
      change: ready({ servers: [{ ...server, state: "failed", ageMs: 2 * restartMs }], serverFailures: 2 }),
      does: "replaceServer",
    },
    {
      when: "its servers fail for a day",
      change: ready({ servers: [{ ...server, state: "failed", ageMs: restartMsMax }], serverFailures: 300 }),
      does: "replaceServer",
    },
    {
      when: "its server falls over again and again",
      change: ready({ servers: [{ ...server, state: "starting", isDown: true }] }),
      does: "noteDown",
    },
    {
      when: "its server falls over again and again, and its owner knows",
      change: ready({ servers: [{ ...server, state: "starting", isDown: true }], serverFailures: 1 }),
      does: "wait",
    },
    { when: "its server serves again", change: ready({ serverFailures: 1 }), does: "noteServing" },
    {
      when: "another password is to be, and its server serves again",
      change: ready({ serverFailures: 1, rotating: true }),
      does: "noteServing",
    },
    {
      when: "its server failed as the next one would",
      change: ready({ servers: [{ ...server, state: "failed", failsAgain: true }] }),
      does: "fail",
    },
    { when: "it has no server", change: ready({ servers: [] }), does: "startServer" },
    { when: "it has none since it moves", change: ready({ servers: [], changing: true }), does: "end" },
    { when: "it moves from a lost machine", change: ready({ nodeGone: true, changing: true }), does: "end" },
    { when: "it moves and is to be dropped", change: { status: "dropping", changing: true }, does: "removeServers" },
    { when: "its server goes", change: ready({ servers: [leaving] }), does: "wait" },
    { when: "another password is to be", change: ready({ rotating: true }), does: "rotate" },
    {
      when: "another password is to be, and the server is away",
      change: ready({ rotating: true, servers: [{ ...server, state: "starting" }] }),
      does: "wait",
    },
    { when: "the plan has other limits", change: ready({ tenantCurrent: false }), does: "bringTenant" },
    {
      when: "the plan gives the server more",
      change: ready({ tenantCurrent: false, servers: [{ ...server, outgrown: true }] }),
      does: "resizeServer",
    },
    { when: "its node is lost", change: ready({ nodeGone: true }), does: "fail" },
    { when: "it was suspended", change: ready({ suspended: true, rotating: true }), does: "removeServers" },
    { when: "it is suspended", change: ready({ suspended: true, rotating: true, servers: [] }), does: "end" },
    { when: "its project is deleted", change: ready({ projectGone: true, suspended: true }), does: "beginDrop" },
  ])("when $when: $does", check);
});

describe("a branch that holds more than its plan allows", () => {
  const readOnly: ServerFacts = { ...server, readOnly: true };
  const full = (change: Partial<BranchFacts>): Partial<BranchFacts> => ({ status: "ready", readOnly: true, ...change });
  test.each<Situation>([
    { when: "its server writes", change: full({}), does: "removeServers" },
    {
      when: "its server is being started to write",
      change: full({ servers: [{ ...server, state: "starting" }] }),
      does: "removeServers",
    },
    { when: "its server only reads", change: full({ servers: [readOnly] }), does: "end" },
    { when: "the one that wrote goes", change: full({ servers: [leaving] }), does: "wait" },
    { when: "the one that wrote is gone", change: full({ servers: [] }), does: "startServer" },
    {
      when: "another password is to be",
      change: full({ rotating: true, servers: [readOnly] }),
      does: "removeServers",
    },
    { when: "another password is to be, in one that takes it", change: full({ rotating: true }), does: "rotate" },
    { when: "it has that password", change: full({}), does: "removeServers" },
    {
      when: "another password is to be, and its server takes it all the same",
      change: full({ rotating: true, servers: [readOnly], standsBy: false }),
      does: "rotate",
    },
    {
      when: "the plan has other limits",
      change: full({ tenantCurrent: false, servers: [readOnly] }),
      does: "removeServers",
    },
    {
      when: "the plan has other limits, in one that takes them",
      change: full({ tenantCurrent: false }),
      does: "bringTenant",
    },
    { when: "it is tried again", change: full({ status: "provisioning", tenantCurrent: false }), does: "bringTenant" },
    {
      when: "it is tried again, and its tenant is there",
      change: full({ status: "provisioning" }),
      does: "removeServers",
    },
    {
      when: "it is tried again, and only reads",
      change: full({ status: "provisioning", servers: [readOnly] }),
      does: "proveLogin",
    },
    {
      when: "its server just failed, and its owner knows",
      change: full({ servers: [{ ...readOnly, state: "failed" }], serverFailures: 1 }),
      does: "wait",
    },
    { when: "it is dropped", change: full({ status: "dropping", servers: [readOnly] }), does: "removeServers" },
    { when: "it was suspended", change: full({ suspended: true, servers: [readOnly] }), does: "removeServers" },
    { when: "it may write again", change: { status: "ready", servers: [readOnly] }, does: "removeServers" },
  ])("when $when: $does", check);
});

describe("a branch in error", () => {
  const failed = (change: Partial<BranchFacts>): Partial<BranchFacts> => ({ status: "error", ...change });
  test.each<Situation>([
    { when: "a server is left", change: failed({}), does: "removeServers" },
    { when: "nobody noted where a server that is left was placed", change: failed({ nodeId: null }), does: "pin" },
    { when: "nothing is left", change: failed({ servers: [] }), does: "end" },
    { when: "its node is lost", change: failed({ nodeGone: true, servers: [leaving] }), does: "end" },
    { when: "its project is deleted", change: failed({ projectGone: true }), does: "beginDrop" },
  ])("when $when: $does", check);
});

describe("a branch that is dropped", () => {
  const dropping = (change: Partial<BranchFacts>): Partial<BranchFacts> => ({ status: "dropping", ...change });
  test.each<Situation>([
    { when: "its server runs", change: dropping({}), does: "removeServers" },
    { when: "its server goes", change: dropping({ servers: [leaving] }), does: "wait" },
    { when: "its server is gone", change: dropping({ servers: [] }), does: "bury" },
    { when: "its node is silent", change: dropping({ servers: [leaving], sinceMs: dropWaitMs }), does: "bury" },
    { when: "its node is lost", change: dropping({ servers: [leaving], nodeGone: true }), does: "bury" },
    { when: "its project is deleted", change: dropping({ servers: [], projectGone: true }), does: "bury" },
    { when: "it is suspended", change: dropping({ suspended: true }), does: "removeServers" },
    {
      when: "there never was a server",
      change: dropping({ servers: [], nodeId: null, lastNodeId: null }),
      does: "bury",
    },
  ])("when $when: $does", check);

  test("keeps in mind where its volume is, also when nobody had noted that", () => {
    expect(nextBranchStep({ ...facts, status: "dropping", nodeId: null, servers: [] })).toEqual({
      do: "bury",
      nodeId: "n1",
    });
  });
});

test.each([
  { when: "no node has room", of: unplaced, says: /No machine .*: cordoned \(2\)\.$/ },
  { when: "the server is silent", of: { ...server, state: "starting" as const }, says: /did not answer/ },
  { when: "the login fails", of: server, says: /nobody could log in/ },
  { when: "the server failed", of: { ...server, state: "failed" as const, problem: "no room" }, says: /: no room$/ },
])("the reason when $when", ({ of, says }) => {
  const step = nextBranchStep({
    ...facts,
    nodeId: of.nodeId,
    lastNodeId: of.nodeId,
    servers: [of],
    sinceMs: provisioningMs,
  });
  expect(step).toMatchObject({ do: "fail", reason: expect.stringMatching(says) });
});
