import { describe, expect, test } from "vitest";
import type { ServerFacts } from "../steps.ts";
import {
  behindMsMax,
  type ChangeFacts,
  type CopyFacts,
  copyingMs,
  freezeMs,
  freezesMax,
  letInMs,
  nextChangeStep,
  refusedMs,
  reopeningMs,
  restoringMs,
  settledMs,
  thawedMs,
  upgradingMs,
} from "./steps.ts";

const server: ServerFacts = {
  ...{ taskId: "t1", wanted: true, nodeId: "n1", refused: null, state: "serving", problem: null, failsAgain: false },
  ...{ ageMs: 60_000, outgrown: false, readOnly: false, isDown: false },
};
const copy: CopyFacts = {
  state: "following",
  problem: null,
  nodeGone: false,
  isHere: false,
  behindMs: 500,
  hasFrozen: false,
  refusal: null,
};
const move: ChangeFacts = {
  ...{ kind: "move", state: "copying", sinceMs: 1_000, frozenMs: null, freezes: 0, undoing: null, cancelled: false },
  ...{ branch: "ready", projectGone: false, suspended: false, backingUp: false, nodeGone: false },
  ...{ copy, volume: null, servers: [server], tenantCurrent: true, tenantMs: 60_000, rotating: false },
  ...{ standsBy: false, serverStandsBy: false },
};
const freezing: ChangeFacts = { ...move, state: "freezing", frozenMs: 100, freezes: 1 };
const draining: ChangeFacts = { ...freezing, state: "draining" };
const stopping: ChangeFacts = { ...freezing, state: "stopping" };
const restoring: ChangeFacts = { ...move, state: "restoring", tenantCurrent: false };
const leaving = { ...server, wanted: false };
const refused = { ...copy, refusal: "cordoned" };

interface Situation {
  when: string;
  facts: ChangeFacts;
  does: string;
}
const check = ({ facts, does }: Situation) => expect(nextChangeStep(facts).do).toBe(does);

describe("while a copy is made", () => {
  test.each<Situation>([
    { when: "there is none yet", facts: { ...move, copy: null }, does: "beginCopy" },
    { when: "it is being made", facts: { ...move, copy: { ...copy, state: "basing", behindMs: null } }, does: "wait" },
    { when: "it is far behind", facts: { ...move, copy: { ...copy, behindMs: behindMsMax + 1 } }, does: "wait" },
    { when: "it follows", facts: move, does: "beginFreeze" },
    { when: "it broke", facts: { ...move, copy: { ...copy, state: "broken", problem: "disk full" } }, does: "fail" },
    { when: "it is on the same machine", facts: { ...move, copy: { ...copy, isHere: true } }, does: "fail" },
    { when: "it takes too long", facts: { ...move, sinceMs: copyingMs }, does: "fail" },
    { when: "the server is away", facts: { ...move, servers: [] }, does: "wait" },
    { when: "a password is on its way", facts: { ...move, rotating: true }, does: "wait" },
    { when: "nobody knows the tenant's password", facts: { ...move, tenantCurrent: false }, does: "wait" },
    { when: "it became read-only", facts: { ...move, standsBy: true, serverStandsBy: true }, does: "fail" },
    {
      when: "it is read-only no more, and its server still is",
      facts: { ...move, serverStandsBy: true },
      does: "wait",
    },
    { when: "it was let in a moment ago", facts: { ...move, tenantMs: settledMs - 1 }, does: "wait" },
    { when: "a backup is being written", facts: { ...move, backingUp: true }, does: "wait" },
    { when: "it was tried a moment ago", facts: { ...move, freezes: 2, sinceMs: 2 * thawedMs - 1 }, does: "wait" },
    { when: "it was tried a while ago", facts: { ...move, freezes: 2, sinceMs: 2 * thawedMs }, does: "beginFreeze" },
    { when: "its machine takes no server", facts: { ...move, copy: refused }, does: "wait" },
    {
      when: "its machine takes no server for a while",
      facts: { ...move, copy: refused, sinceMs: refusedMs },
      does: "fail",
    },
    { when: "it is cancelled", facts: { ...move, cancelled: true }, does: "fail" },
    { when: "the project is suspended", facts: { ...move, suspended: true }, does: "fail" },
    { when: "the branch is dropped", facts: { ...move, branch: "dropping" }, does: "fail" },
    { when: "the branch is no more", facts: { ...move, branch: null }, does: "fail" },
    { when: "its machine is lost", facts: { ...move, nodeGone: true }, does: "fail" },
    { when: "the other machine is lost", facts: { ...move, copy: { ...copy, nodeGone: true } }, does: "fail" },
  ])("when $when: $does", check);
});

describe("while its tenant is kept out", () => {
  test.each<Situation>([
    { when: "nobody has done so yet", facts: freezing, does: "freeze" },
    { when: "the server is away", facts: { ...freezing, servers: [{ ...server, state: "starting" }] }, does: "wait" },
    { when: "the copy has not all", facts: { ...draining, sinceMs: 100 }, does: "wait" },
    { when: "the copy has not all for a while", facts: draining, does: "freeze" },
    { when: "the copy has all", facts: { ...draining, copy: { ...copy, hasFrozen: true } }, does: "stop" },
    {
      when: "the copy has all up to an old mark",
      facts: { ...freezing, copy: { ...copy, hasFrozen: true } },
      does: "freeze",
    },
    { when: "it takes too long", facts: { ...draining, frozenMs: freezeMs }, does: "undo" },
    {
      when: "the copy has all too late",
      facts: { ...draining, frozenMs: freezeMs, copy: { ...copy, hasFrozen: true } },
      does: "undo",
    },
    {
      when: "the copy has all, and its machine takes no server any more",
      facts: { ...draining, copy: { ...refused, hasFrozen: true } },
      does: "undo",
    },
    { when: "it is cancelled", facts: { ...draining, cancelled: true }, does: "undo" },
    { when: "the project is suspended", facts: { ...freezing, suspended: true }, does: "undo" },
    { when: "its machine is lost", facts: { ...freezing, nodeGone: true }, does: "undo" },
    { when: "it is to be let in again", facts: { ...draining, undoing: "late" }, does: "thaw" },
    {
      when: "it is to be let in again, and the copy has all by now",
      facts: { ...draining, undoing: "late", copy: { ...copy, hasFrozen: true } },
      does: "thaw",
    },
    {
      when: "it is to be let in again, and the server is away",
      facts: { ...draining, undoing: "late", servers: [] },
      does: "leave",
    },
    {
      when: "it is to be let in again by a server that takes nothing",
      facts: { ...draining, undoing: "late", serverStandsBy: true },
      does: "leave",
    },
    {
      when: "it is to be let in again, and that was tried in vain for a while",
      facts: { ...draining, undoing: "late", frozenMs: letInMs },
      does: "leave",
    },
    { when: "its machine was lost", facts: { ...draining, undoing: "lost", nodeGone: true }, does: "leave" },
    { when: "the branch is no more", facts: { ...draining, undoing: "dropped", branch: null }, does: "leave" },
  ])("when $when: $does", check);

  test.each([
    { when: "it was the first try", facts: { freezes: 1 }, is: "copying" },
    { when: "it was the last try", facts: { freezes: freezesMax }, is: "failed" },
    { when: "it is cancelled", facts: { cancelled: true }, is: "failed" },
    { when: "the project is suspended", facts: { suspended: true }, is: "failed" },
  ] as const)("and is let in again, when $when: $is", ({ facts, is }) => {
    expect(nextChangeStep({ ...draining, undoing: "late", ...facts })).toMatchObject({ do: "thaw", to: is });
  });
});

describe("while its server ends", () => {
  test.each<Situation>([
    { when: "nobody told it so", facts: stopping, does: "removeServers" },
    { when: "it is on its way", facts: { ...stopping, servers: [leaving] }, does: "wait" },
    { when: "it has ended", facts: { ...stopping, servers: [] }, does: "switch" },
    { when: "it is cancelled", facts: { ...stopping, servers: [leaving], cancelled: true }, does: "fail" },
    { when: "the other machine takes none", facts: { ...stopping, servers: [], copy: refused }, does: "fail" },
    {
      when: "it serves, and where it is restored none is taken",
      facts: { ...stopping, kind: "restore", copy: refused },
      does: "fail",
    },
    {
      when: "it was lost, and where it is restored none is taken",
      facts: { ...stopping, kind: "restore", branch: "error", servers: [], nodeGone: true, copy: refused },
      does: "switch",
    },
    { when: "its machine is lost", facts: { ...stopping, servers: [], nodeGone: true }, does: "fail" },
    {
      when: "its machine is lost, and it is restored",
      facts: { ...stopping, kind: "restore", branch: "error", servers: [], nodeGone: true },
      does: "switch",
    },
    {
      when: "its machine is lost, and still has the server as far as anybody knows",
      facts: { ...stopping, kind: "restore", branch: "error", servers: [leaving], nodeGone: true },
      does: "wait",
    },
    {
      when: "it goes back to a volume that is there",
      facts: { ...stopping, kind: "restore", copy: null, volume: { isLost: false }, servers: [] },
      does: "switch",
    },
    {
      when: "it goes back to a volume that is lost by now",
      facts: { ...stopping, kind: "restore", copy: null, volume: { isLost: true }, servers: [] },
      does: "fail",
    },
    { when: "the copy is lost", facts: { ...stopping, servers: [], copy: { ...copy, nodeGone: true } }, does: "fail" },
  ])("when $when: $does", check);
});

describe("once there is no way back", () => {
  test.each<Situation>([
    { when: "its server restores", facts: { ...restoring, servers: [{ ...server, state: "starting" }] }, does: "wait" },
    { when: "it serves", facts: restoring, does: "bringTenant" },
    { when: "the tenant is let in", facts: { ...restoring, tenantCurrent: true }, does: "proveLogin" },
    { when: "its server is gone", facts: { ...restoring, servers: [] }, does: "startServer" },
    { when: "its server goes", facts: { ...restoring, servers: [leaving] }, does: "wait" },
    {
      when: "its server just failed",
      facts: { ...restoring, servers: [{ ...server, state: "failed", ageMs: 0 }] },
      does: "wait",
    },
    {
      when: "its server failed in a way that the next one would",
      facts: {
        ...restoring,
        servers: [{ ...server, state: "failed", ageMs: 0, failsAgain: true, problem: "no data" }],
      },
      does: "fail",
    },
    {
      when: "its server failed",
      facts: { ...restoring, servers: [{ ...server, state: "failed" }] },
      does: "removeServers",
    },
    { when: "it is cancelled", facts: { ...restoring, cancelled: true }, does: "bringTenant" },
    { when: "the project is suspended", facts: { ...restoring, suspended: true }, does: "bringTenant" },
    { when: "its machine is lost", facts: { ...restoring, nodeGone: true }, does: "fail" },
    { when: "it takes too long", facts: { ...restoring, sinceMs: restoringMs }, does: "fail" },
    {
      when: "a volume that it had before takes too long",
      facts: { ...restoring, copy: null, volume: { isLost: false }, sinceMs: reopeningMs },
      does: "fail",
    },
    { when: "an upgrade takes too long", facts: { ...restoring, kind: "upgrade", sinceMs: upgradingMs }, does: "fail" },
    { when: "the branch is dropped", facts: { ...restoring, branch: "dropping" }, does: "fail" },
  ])("when $when: $does", check);
});

test.each(["done", "failed"] as const)("nothing is left to do once it is %s", (state) => {
  expect(nextChangeStep({ ...move, state })).toEqual({ do: "end" });
});
