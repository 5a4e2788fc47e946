import { DatabaseEntry_State as State } from "@svc/proto/node";
import { expect, test } from "vitest";
import { readBranchNews } from "./news.ts";
import { type ReachableBranch, tableOf } from "./table.ts";

const id = "5a1d0c37-0000-4000-8000-00000000000a";
const aBranch = (overrides: Partial<ReachableBranch> = {}): ReachableBranch => ({
  ...{ id, projectId: "p", channel: "production", engine: "postgres", status: "ready", isOff: false },
  ...{
    nodeId: "n",
    connectionLimit: 20,
    readOnly: false,
    isHeld: false,
    copies: [],
    server: { epoch: 7, readOnly: false, at: { nodeId: "n", address: "10.0.0.1" } },
  },
  ...overrides,
});

test.each([
  { when: "it is ready", branch: {}, is: { state: State.OPEN, epoch: 7n, nodeId: "n", address: "10.0.0.1" } },
  { when: "it is being made", branch: { status: "provisioning" }, is: { state: State.OPEN } },
  { when: "it is being dropped", branch: { status: "dropping" }, is: { state: State.CLOSED } },
  { when: "it failed", branch: { status: "error" }, is: { state: State.CLOSED } },
  { when: "it is on its way to another node", branch: { isHeld: true }, is: { state: State.HELD } },
  {
    when: "it failed, and is being restored",
    branch: { isHeld: true, status: "error" },
    is: { state: State.CLOSED },
  },
  {
    when: "copies follow it",
    branch: { copies: [{ copyId: "c", nodeId: "m" }] },
    is: { copies: [{ copyId: "c", nodeId: "m" }] },
  },
  { when: "its project is off the air", branch: { isOff: true }, is: { state: State.CLOSED } },
  {
    when: "its next server is on no node yet",
    branch: { server: { epoch: 8, readOnly: false, at: null } },
    is: { state: State.OPEN, epoch: 8n, nodeId: "", address: "" },
  },
  {
    when: "it is read-only, and its server could be written to",
    branch: { readOnly: true },
    is: { state: State.CLOSED },
  },
  {
    when: "it is read-only, as its server is",
    branch: { readOnly: true, server: { epoch: 8, readOnly: true, at: null } },
    is: { state: State.OPEN },
  },
  {
    when: "its server is still read-only",
    branch: { server: { epoch: 8, readOnly: true, at: null } },
    is: { state: State.OPEN },
  },
] as const)("a branch is told of when $when", ({ branch, is }) => {
  expect(tableOf([aBranch(branch)])).toMatchObject([
    { databaseId: id, role: "r_5a1d0c3700004000", database: "d_5a1d0c3700004000", connectionLimit: 20, ...is },
  ]);
});

test("there is no way to a branch that never had a server", () => {
  expect(tableOf([aBranch({ server: null })])).toEqual([]);
});

test("equal branches are equal tables, in whatever order they were read", () => {
  const other = aBranch({ id: "5a1d0c37-0000-4000-8000-00000000000b" });
  expect(tableOf([other, aBranch()])).toEqual(tableOf([aBranch(), other]));
});

test.each([
  { payload: "", news: null },
  { payload: "d p", news: { databaseId: "d", projectId: "p", nodeId: null } },
  { payload: "d p n", news: { databaseId: "d", projectId: "p", nodeId: "n" } },
])("news of a branch are read from '$payload'", ({ payload, news }) => {
  expect(readBranchNews(payload)).toEqual(news);
});
