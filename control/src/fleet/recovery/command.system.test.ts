import { randomUUID } from "node:crypto";
import { systemClock } from "@svc/runtime/system";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type TestApi, testApi } from "../../http/testing.ts";
import type { Deployment } from "../../stores/db/tables.ts";
import { campaign, type Etcd } from "../../stores/etcd/index.ts";
import { startEtcd, testClient } from "../../stores/etcd/testing.ts";
import { keys, type PlacementValue } from "../cluster/keys.ts";
import { createBootstrapToken } from "../nodes/tokens.ts";
import { lastDecision, requireRecovered } from "./check.ts";
import { RecoveryRefused, recoverCluster } from "./command.ts";
import { recoveryRows } from "./rows.ts";

const stack = new AsyncDisposableStack();
const node = randomUUID();
let api: TestApi;
let etcd: Etcd;
let deployment: Deployment;
beforeAll(async () => {
  const server = stack.use(await startEtcd());
  api = stack.use(await testApi());
  etcd = stack.use(testClient(server.endpoint));
  await api.db.insertInto("node").values({ id: node, name: "n1", role: "node", lifecycle: "active" }).execute();
  deployment = await api.newDeployment(await api.newProject(await api.newUser()), { status: "running" });
});
afterAll(() => stack.disposeAsync());

/** A container that runs on the node, as Postgres knows it. */
async function aTask({ desired, reaped_at = null }: { desired?: "removed"; reaped_at?: Date | null } = {}) {
  const { id } = await api.newTask(deployment, desired && { desired });
  await api.db.updateTable("task").set({ node_id: node, reaped_at }).where("id", "=", id).execute();
  return id;
}

const placed = async (id: string): Promise<PlacementValue | null> => {
  const entry = await etcd.get(keys.placement(node, id));
  return entry === null ? null : JSON.parse(entry.value);
};
const recover = (more: { epoch?: number; waitMs?: number } = {}) =>
  recoverCluster({ rows: recoveryRows(api.db), etcd, clock: systemClock, print: () => {}, waitMs: 0, ...more });
const readEpochs = async () => {
  const { epoch } = await api.db.selectFrom("cluster").select("epoch").executeTakeFirstOrThrow();
  const fence = await api.db.selectFrom("leader_fence").select("epoch").executeTakeFirstOrThrow();
  return { cluster: epoch, fence: fence.epoch };
};

test("an etcd that lost everything knows again what runs where, under a new epoch", async () => {
  const [running, doomed] = [await aTask(), await aTask({ desired: "removed" })];
  const reaped = await aTask({ desired: "removed", reaped_at: new Date() });
  await api.db.updateTable("leader_fence").set({ epoch: 4_000_000 }).execute();
  await expect(requireRecovered(() => lastDecision(api.db), etcd)).rejects.toThrow("after-restore");
  const before = await readEpochs();
  await recover();
  expect(await placed(running)).toMatchObject({
    placementId: running,
    desired: "running",
    ownerId: deployment.id,
  });
  expect(await placed(doomed)).toMatchObject({ desired: "removed" });
  expect(await placed(reaped)).toBeNull();
  expect(await readEpochs()).toEqual({ cluster: before.cluster + 1, fence: 0 });
  await expect(requireRecovered(() => lastDecision(api.db), etcd)).resolves.toBeUndefined();
});

test("done again it changes nothing but the epoch, and an older Postgres goes on above what etcd has heard", async () => {
  const { revision, entries } = await etcd.range("/svc/placements/");
  const { cluster } = await readEpochs();
  expect(await recover()).toBe(cluster + 1);
  const after = await etcd.range("/svc/placements/");
  expect(after.entries).toEqual(entries);
  expect(after.revision).toBeGreaterThan(revision);

  await api.db.updateTable("cluster").set({ epoch: 1 }).execute();
  expect(await recover()).toBe(cluster + 2);
  expect(await recover({ epoch: 900 })).toBe(900);
});

test("who was kept out since the backup is not let in by it: open tokens end, and the rest is told", async () => {
  const seenAt = new Date("2030-01-02T03:04:05.000Z");
  await api.db.updateTable("node").set({ last_seen_at: seenAt }).where("id", "=", node).execute();
  await api.db.insertInto("node").values({ name: "n2", role: "node", lifecycle: "fenced" }).execute();
  const cluster = { clusterId: randomUUID(), caSha256: "0".repeat(64) };
  const { id } = await createBootstrapToken(api.db, {
    ...{ ...cluster, role: "node", ttlSeconds: 600, createdBy: null, now: new Date() },
  });
  const lines: string[] = [];
  const epoch = await recoverCluster({
    rows: recoveryRows(api.db),
    etcd,
    clock: systemClock,
    print: (line) => lines.push(line),
  });
  const token = await api.db.selectFrom("bootstrap_token").selectAll().where("id", "=", id).executeTakeFirstOrThrow();
  expect(token.revoked_at).not.toBeNull();
  const audited = await api.db
    .selectFrom("audit")
    .select("detail")
    .where("action", "=", "cluster.recover")
    .orderBy("id", "desc")
    .executeTakeFirstOrThrow();
  expect(audited.detail).toEqual({ epoch, tokensRevoked: 1 });
  const text = lines.join("\n");
  expect(text).toMatch(/1 bootstrap token that looked unused is revoked/);
  expect(text).toMatch(/fences, removals, revoked tokens and replacements of the authority .* are undone/);
  expect(text).toContain(`  n1 (node ${node}), last seen 2030-01-02T03:04:05.000Z`);
  expect(text).not.toContain("n2");
});

test("while a control server runs it is refused, and nothing is changed", async () => {
  const before = await readEpochs();
  const stop = new AbortController();
  await campaign({
    ...{ etcd, key: keys.leader, id: "somebody", ttlMs: 10_000, signal: stop.signal },
    async lead() {
      await expect(recover()).rejects.toThrow(RecoveryRefused);
      stop.abort();
    },
  });
  await etcd.txn({ ops: [{ put: { key: keys.server("s1"), value: "{}" } }] });
  await expect(recover()).rejects.toThrow("a control server runs");
  expect(await readEpochs()).toEqual(before);
  await etcd.txn({ ops: [{ delete: { key: keys.server("s1") } }] });
});
