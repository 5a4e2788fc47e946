import { keys } from "@svc/control/fleet/cluster/keys";
import { expect, test } from "vitest";
import type { Txn, Writer } from "./etcd.ts";
import { Writers } from "./writers.ts";

const session = keys.nodeSession("n1");
const edge = keys.edgeSession("e1");
const put = (key: string) => ({ put: { key, value: "1" } });
const by = { serverId: "one" };

const cases: [string, Omit<Txn, "writer">, Writer][] = [
  [
    "a leader, by the guard on its key",
    { guards: [{ key: keys.leader, compare: "createRevision", value: 7n }], ops: [put(keys.placement("n1", "t1"))] },
    { ...by, by: "leader", epoch: 7n },
  ],
  [
    "whoever takes a session",
    { guards: [{ key: session, compare: "absent" }], ops: [put(session)] },
    { ...by, by: "server" },
  ],
  [
    "whoever takes an edge's from another, and writes what it serves",
    { guards: [{ key: edge, compare: "modRevision", value: 3n }], ops: [put(edge), put(keys.edgeApplied("e1"))] },
    { ...by, by: "server" },
  ],
  [
    "a session that changes its key",
    {
      guards: [{ key: session, compare: "modRevision", value: 3n }],
      ops: [put(session)],
      orElse: [{ get: { key: session } }],
    },
    { ...by, by: "session", daemonId: "n1", epoch: 5n },
  ],
  [
    "a session that forgot its guard",
    { guards: [], ops: [put(keys.observation("n1", "t1"))] },
    { ...by, by: "session", daemonId: "n1", epoch: 5n },
  ],
  ["a worker that offers a run", { guards: [], ops: [put(keys.run("n1", "a1"))] }, { ...by, by: "worker" }],
  [
    "whoever clears what a lost node left",
    { guards: [], ops: [{ delete: { key: session } }] },
    { ...by, by: "worker" },
  ],
];

test.each(cases)("%s", (_name, asked, writer) => {
  expect(new Writers("one", () => 5n).of(asked)).toEqual(writer);
});

test("whoever says so writes under that name, and only then", () => {
  const writers = new Writers("one", () => 0n);
  expect(writers.as({ by: "operator" }, () => writers.of({ guards: [], ops: [] }))).toEqual({ by: "operator" });
  expect(writers.of({ guards: [], ops: [] })).toEqual({ ...by, by: "worker" });
});
