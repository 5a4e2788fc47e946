import { systemClock } from "@svc/runtime/system";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createLog } from "../../log.ts";
import { type TestDatabase, testDatabase } from "../../stores/db/testing.ts";
import type { Etcd } from "../../stores/etcd/index.ts";
import { type EtcdServer, startEtcd, testClient } from "../../stores/etcd/testing.ts";
import { keys, prefix, type RunValue } from "../cluster/keys.ts";
import { readRecords } from "./run-records.ts";
import { endRuns, settleRuns, sweepRuns } from "./runs.ts";

let [server, etcd, database]: [EtcdServer?, Etcd?, TestDatabase?] = [];
beforeAll(async () => {
  server = await startEtcd();
  etcd = testClient(server.endpoint);
  database = await testDatabase();
});
afterAll(async () => {
  await etcd?.[Symbol.asyncDispose]();
  await server?.[Symbol.asyncDispose]();
  await database?.[Symbol.asyncDispose]();
});

const [gone, project] = ["33333333-3333-4333-8333-333333333333", "44444444-4444-4444-8444-444444444444"];
const aRun = (attemptId: string, changes: object = {}): Record<string, unknown> => ({
  ...{ attemptId, kind: "job", ownerKind: "job", ownerId: gone, projectId: project, state: "exited", cancel: false },
  ...{ acceptedBy: null, token: null, exitCode: 0, timedOut: false, message: null, startedAt: null, finishedAt: null },
  ...{ changedAt: "2030-01-01T00:00:00.000Z", ...changes },
});
/** Of a version that is newer than this one, in several ways. */
const newer = { kind: aRun("b", { kind: "dream" }), state: aRun("c", { state: "paused", ownerId: "another" }) };

async function write(): Promise<Etcd> {
  if (etcd === undefined) throw new Error("etcd is not there");
  const put = (id: string, value: string) => etcd?.txn({ ops: [{ put: { key: keys.run("n1", id), value } }] });
  await put("a", JSON.stringify(aRun("a")));
  await put("b", JSON.stringify(newer.kind));
  await put("c", JSON.stringify(newer.state));
  await put("d", "no JSON");
  await put("e", JSON.stringify(aRun("e", { state: "started" })));
  return etcd;
}
const left = async (client: Etcd) =>
  new Map((await client.range(prefix.runs)).entries.map(({ key, value }) => [key.slice(-1), value]));

test("each record is read by itself, and of what nobody knows there is whose it is, as far as it says", () => {
  const entries = [JSON.stringify(aRun("a")), JSON.stringify(newer.kind), "no JSON", "null"];
  const { known, unknown } = readRecords(entries.map((value, at) => ({ key: `${at}`, value, modRevision: 1n })));
  expect(known.map(({ key, run }) => [key, run.attemptId])).toEqual([["0", "a"]]);
  expect(unknown).toEqual([{ ownerId: gone, projectId: project }, null, null]);
});

test("records that only a newer version knows stay as they are, and hide none of the others", async () => {
  const client = await write();
  const before = await left(client);
  // Nobody waits for these: what is over goes, what runs is asked to end, and of the others nothing is touched.
  const deps = { clock: systemClock, db: database?.db as TestDatabase["db"], etcd: client, log: createLog("silent") };
  expect(await sweepRuns(deps)).toBe(3);
  const swept = await left(client);
  expect([...swept.keys()].sort()).toEqual(["b", "c", "d", "e"]);
  for (const id of ["b", "c", "d"]) expect(swept.get(id)).toBe(before.get(id));
  expect(JSON.parse(swept.get("e") ?? "")).toMatchObject({ state: "started", cancel: true });

  const settled = await settleRuns(client, new Set(["n1"]), (run): RunValue => ({ ...run, state: "indeterminate" }));
  expect(settled.map(({ attemptId }) => attemptId)).toEqual(["e"]);
  expect((await left(client)).get("b")).toBe(before.get("b"));

  // An owner has ended only once the newer version has seen to its own.
  await endRuns(deps, ({ ownerId }) => ownerId === gone);
  expect([...(await left(client)).keys()].sort()).toEqual(["b", "c", "d"]);
  expect(await endRuns(deps, ({ ownerId }) => ownerId === gone)).toBe(false);
  expect(await endRuns(deps, ({ ownerId }) => ownerId === "nobody")).toBe(true);
});
