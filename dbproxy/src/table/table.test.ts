import type { DatabaseProxyEntry } from "@svc/proto/database-proxy";
import { systemClock as clock } from "@svc/runtime/system";
import { describe, expect, test } from "vitest";
import { createCounts } from "../sessions/counts.ts";
import { aBranch, anEntry } from "../testing/branch.ts";
import { admitDial, admitLogin, mayStay } from "./admission.ts";
import { findEntry, indexTable } from "./lookup.ts";
import { neighboursOf } from "./neighbours.ts";
import { stateOf } from "./state.ts";
import { createTable, settle } from "./table.ts";

const [shop, blog] = [aBranch(), aBranch()];
const here = { socket: "/run/svc/db/one/.s.PGSQL.5432" };
const elsewhere = { nodeId: "7d1f2a3b-4c5d-4e6f-8a9b-0c1d2e3f4a5b", host: "10.0.0.7", port: 7445 };
const [left, right] = ["172.20.0.1", "172.21.0.1"];
const ofShop = (rest: Partial<DatabaseProxyEntry> = {}) =>
  anEntry(shop, { engine: "postgres", bridges: [left], at: here, epoch: "5", ...rest });
const ofBlog = anEntry(blog, { engine: "mariadb", bridges: [left, right], at: elsewhere });
const index = indexTable({ generation: "3", entries: [ofShop(), ofBlog] });

describe("whom a login means", () => {
  const asked = { engine: "postgres", bridge: left, user: shop.role, database: shop.database } as const;
  const mariadb = { engine: "mariadb", user: blog.role, database: blog.database } as const;
  test.each([
    { when: "all is right", login: asked, found: shop.id },
    { when: "the bridge is another", login: { ...asked, bridge: right }, found: "user" },
    { when: "nobody knows the bridge", login: { ...asked, bridge: "172.22.0.1" }, found: "user" },
    { when: "the engine is another", login: { ...asked, engine: "mariadb" as const }, found: "user" },
    { when: "the user is another", login: { ...asked, user: blog.role }, found: "user" },
    { when: "the user begins like it", login: { ...asked, user: `${shop.role}0` }, found: "user" },
    { when: "the database is another", login: { ...asked, database: "postgres" }, found: "database" },
    { when: "Postgres is told no database", login: { ...asked, database: null }, found: "database" },
    { when: "MariaDB is told no database", login: { ...mariadb, bridge: left, database: null }, found: blog.id },
    { when: "a branch has two bridges", login: { ...mariadb, bridge: right }, found: blog.id },
  ])("when $when", ({ login, found }) => {
    const entry = findEntry(index, login);
    expect(typeof entry === "string" ? entry : entry.databaseId).toBe(found);
  });
});

describe("who may go on", () => {
  test.each([
    { entry: ofShop(), admission: "pass" },
    { entry: ofShop({ state: "held" }), admission: "wait" },
    { entry: ofShop({ state: "held", at: null }), admission: "wait" },
    { entry: ofShop({ state: "closed" }), admission: "closed" },
    { entry: ofShop({ at: null }), admission: "away" },
    { entry: ofBlog, admission: "pass" },
  ])("a login at a branch that is $entry.state: $admission", ({ entry, admission }) => {
    expect(admitLogin(entry)).toBe(admission);
  });

  test.each([
    { when: "both know the same", entry: ofShop(), epoch: "5", admission: "pass" },
    { when: "the other one is behind", entry: ofShop(), epoch: "4", admission: "away" },
    { when: "the other one is ahead", entry: ofShop(), epoch: "6", admission: "wait" },
    { when: "numbers are compared, and not texts", entry: ofShop(), epoch: "10", admission: "wait" },
    { when: "it is unknown here", entry: undefined, epoch: "5", admission: "away" },
    { when: "its server is on a third machine", entry: ofShop({ at: elsewhere }), epoch: "5", admission: "away" },
    { when: "it is held", entry: ofShop({ state: "held" }), epoch: "5", admission: "wait" },
    { when: "it is closed", entry: ofShop({ state: "closed" }), epoch: "5", admission: "closed" },
  ])("another proxy when $when: $admission", ({ entry, epoch, admission }) => {
    expect(admitDial(entry, { epoch, purpose: "session" }, elsewhere.nodeId)).toBe(admission);
  });

  const copyId = "9f3a4b5c-6d7e-4f80-8b1c-2d3e4f5a6b7c";
  const kept = { copies: [{ copyId, nodeId: elsewhere.nodeId, door: null }] };
  const stranger = "1a2b3c4d-5e6f-4a7b-8c9d-0e1f2a3b4c5d";
  const copied = (rest: Partial<DatabaseProxyEntry> = {}) => ofShop({ ...kept, ...rest });
  test.each([
    { when: "the table names its node", entry: copied(), admission: "pass" },
    { when: "the branch is held", entry: copied({ state: "held" }), admission: "pass" },
    { when: "the branch is closed", entry: copied({ state: "closed" }), admission: "pass" },
    { when: "its node is ahead", entry: copied(), epoch: "6", admission: "wait" },
    { when: "its node is behind", entry: copied(), epoch: "4", admission: "away" },
    { when: "another node dials", entry: copied(), nodeId: stranger, admission: "away" },
    { when: "another node dials and is ahead", entry: copied(), nodeId: stranger, epoch: "6", admission: "away" },
    { when: "the table names another copy", entry: copied(), copyId: stranger, admission: "away" },
    { when: "the table names no copy", entry: ofShop(), admission: "away" },
    { when: "its server is on a third machine", entry: copied({ at: elsewhere }), admission: "away" },
    { when: "the branch is unknown here", entry: undefined, admission: "away" },
  ])("a keeper of another machine when $when: $admission", ({ entry, admission, ...rest }) => {
    const { epoch, nodeId, ...dial } = { epoch: "5", nodeId: elsewhere.nodeId, copyId, ...rest };
    expect(admitDial(entry, { ...dial, epoch, purpose: "copy" }, nodeId)).toBe(admission);
  });

  test.each([
    { when: "nothing changed", entry: copied(), stays: true },
    { when: "it is held", entry: copied({ state: "held" }), stays: true },
    { when: "it is closed", entry: copied({ state: "closed" }), stays: true },
    { when: "there is another epoch", entry: copied({ epoch: "6" }), stays: false },
    {
      when: "another node keeps it",
      entry: copied({ copies: [{ copyId, nodeId: stranger, door: null }] }),
      stays: false,
    },
    { when: "the copy is over", entry: ofShop(), stays: false },
    { when: "it is gone", entry: undefined, stays: false },
  ])("a keeper's connection when $when stays: $stays", ({ entry, stays }) => {
    const of = { copyId, nodeId: elsewhere.nodeId };
    expect(mayStay({ databaseId: shop.id, epoch: "5", of }, entry, new Set())).toBe(stays);
  });

  const session = { databaseId: shop.id, epoch: "5", of: { bridge: left } };
  test.each([
    { when: "nothing changed", entry: ofShop(), stays: true },
    { when: "it is held", entry: ofShop({ state: "held" }), stays: true },
    { when: "it is closed", entry: ofShop({ state: "closed" }), stays: false },
    { when: "there is another epoch", entry: ofShop({ epoch: "6" }), stays: false },
    { when: "its bridge is not named any more", entry: ofShop({ bridges: [right] }), stays: false },
    { when: "it is gone", entry: undefined, stays: false },
  ])("a session when $when stays: $stays", ({ entry, stays }) => {
    expect(mayStay(session, entry, new Set([elsewhere.nodeId]))).toBe(stays);
  });

  test("a session of another machine needs no bridge here", () => {
    const of = { nodeId: elsewhere.nodeId };
    expect(mayStay({ ...session, of }, ofShop({ bridges: [] }), new Set([stranger]))).toBe(true);
  });

  test.each([
    { whose: "an app's", of: { nodeId: elsewhere.nodeId } },
    { whose: "a keeper's", of: { copyId, nodeId: elsewhere.nodeId } },
  ])("no connection of a machine that is gone stays: $whose", ({ of }) => {
    expect(mayStay({ ...session, of }, copied(), new Set([elsewhere.nodeId]))).toBe(false);
  });
});

test.each([
  { remote: "172.20.0.9", isIn: true },
  { remote: "172.21.0.9", isIn: false },
  { remote: "10.0.0.9", isIn: false },
  { remote: "", isIn: false },
])("$remote sits behind a bridge: $isIn", ({ remote, isIn }) => {
  expect(neighboursOf(["127.0.0.1/8", "172.20.0.1/16", "172.21.0.1/16"], left).check(remote)).toBe(isIn);
});

test("of loopback every address is a neighbour of every other", () => {
  expect(neighboursOf(["127.0.0.1/8", "172.20.0.1/16"], "127.3.2.1").check("127.0.0.1")).toBe(true);
});

test("the state tells of what is here, and of failed logins", () => {
  const counts = createCounts();
  counts.take(shop.id, 5);
  const about = { databaseId: shop.id, epoch: "5", open: 1, failedLogins: 0 };
  expect(stateOf(7, index, counts)).toEqual({ generation: "3", pid: 7, connections: [about] });
  counts.loginFailed(blog.id);
  const other = { databaseId: blog.id, epoch: "1", open: 0, failedLogins: 1 };
  expect(stateOf(7, index, counts).connections).toEqual([about, other]);
});

describe("what the table decides later", () => {
  const decide = ({ generation }: { generation: bigint }) => (generation === 3n ? "now" : "wait");
  test("is told as soon as it does", async () => {
    const table = createTable();
    let waited = 0;
    const onWait = () => {
      waited += 1;
    };
    const settled = settle(clock, table, { decide, onWait, heldMs: 60_000, signal: new AbortController().signal });
    table.replace(indexTable({ generation: "2", entries: [] }));
    table.replace(index);
    expect([await settled, waited]).toEqual(["now", 1]);
  });

  test("is looked at again when a machine is gone, and the table stays", async () => {
    const table = createTable();
    table.replace(index);
    const signal = new AbortController().signal;
    const settled = settle(clock, table, {
      decide: ({ gone, generation }) => (gone.size > 0 ? generation : "wait"),
      ...{ heldMs: 60_000, signal },
    });
    table.replace({ gone: new Set([elsewhere.nodeId]) });
    expect(await settled).toBe(3n);
    table.replace(indexTable({ generation: "4", entries: [] }));
    expect([...table.current().gone]).toEqual([elsewhere.nodeId]);
  });

  test("is not waited for too long, nor by who has left", async () => {
    const table = createTable();
    const gone = new AbortController();
    const slow = settle(clock, table, { decide, heldMs: 1, signal: gone.signal });
    expect(await slow).toBe("held");
    const left = settle(clock, table, { decide, heldMs: 60_000, signal: gone.signal });
    gone.abort();
    expect(await left).toBe("held");
  });
});
