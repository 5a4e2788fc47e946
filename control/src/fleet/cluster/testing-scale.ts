/**
 * What one replica of control costs at a size of the cluster: all nodes linked, ten sites on each, one container per site,
 * nothing to do. Rows and keys are made directly, and the rounds are the leader's own. Prints one line of JSON.
 *
 * Run by test/bench/scale.ts: `node --expose-gc testing-scale.ts NODES`.
 */
import { createLimiter } from "@svc/runtime/limiter";
import { systemClock } from "@svc/runtime/system";
import { sql } from "kysely";
import { testApi } from "../../http/testing.ts";
import { createLog } from "../../log.ts";
import type { Leadership, Op } from "../../stores/etcd/index.ts";
import { startEtcd, testClient } from "../../stores/etcd/testing.ts";
import { createKeeper } from "../replicas/keeper.ts";
import { replicaRows } from "../replicas/rows.ts";
import { readHostFacts } from "../routes/facts.ts";
import { publishOnce, tableDigest } from "../routes/publisher.ts";
import { routeRows } from "../routes/rows.ts";
import { applyChange, tableChange } from "../routes/table.ts";
import { createScheduler } from "../scheduler/scheduler.ts";
import { schedulerRows } from "../scheduler/store.ts";
import { raiseFence } from "./fenced.ts";
import { keys, type NodeSessionValue, type ObservationValue, type PlacementValue } from "./keys.ts";
import { stormRows } from "./storm/store.ts";
import { createStormWatch } from "./storm/watch.ts";
import { openFleet } from "./testing.ts";

const nodesTotal = Number(process.argv[2]);
const sitesEach = 10;
const rounds = 7;
const log = createLog("silent");
const serverId = "control-1";
const at = new Date().toISOString();

await using api = await testApi();
const { db } = api;
await using etcdServer = await startEtcd({ flags: ["--quota-backend-bytes=8589934592"] });
await using etcd = testClient(etcdServer.endpoint);

const owner = await api.newUser();
const capacity = { memoryMb: 65_536, cpuMillicores: 32_000, pids: 32_768, diskMb: 1_000_000 };
await sql`insert into node (role, name, address, last_seen_at, capacity)
  select 'node', 'node-' || n, '10.' || n / 65536 || '.' || n / 256 % 256 || '.' || n % 256, now(), ${JSON.stringify(capacity)}::jsonb
  from generate_series(1, ${nodesTotal}::int) as n`.execute(db);
await sql`insert into project (owner_id, name, slug, type)
  select ${owner.id}, 'P', 'p' || n, 'ssr' from generate_series(1, ${nodesTotal * sitesEach}::int) as n`.execute(db);
await sql`insert into site_host (host, project_id, channel)
  select slug || '.svc.localhost', id, 'production' from project`.execute(db);
await sql`insert into deployment (project_id, status, channel, url, manifest, artifact_kind, artifact_repository, artifact_digest,
    artifact_size)
  select id, 'running', 'production', 'http://' || slug || '.svc.localhost', '{"version":2,"app":{"name":"P","type":"ssr"}}',
    'image', 'svc/p', 'sha256:' || repeat('0', 64), 1000
  from project`.execute(db);
await sql`insert into channel_state (project_id, channel, deployment_id)
  select project_id, 'production', id from deployment`.execute(db);
await sql`insert into task (project_id, owner_kind, owner_id, kind, channel, spec, spec_hash, memory_mb, cpu_millicores, pids_limit,
    node_id, served_at)
  select d.project_id, 'deployment', d.id, 'serve', 'production', '{}', repeat('0', 64), 256, 250, 128, n.id, now()
  from (select id, project_id, row_number() over (order by id) - 1 as at from deployment) as d
  join (select id, row_number() over (order by id) - 1 as at from node) as n on n.at = d.at / ${sitesEach}::int`.execute(
  db,
);
await sql`analyze`.execute(db);
await raiseFence(db, 1n);

let etcdBytes = 0;
let etcdKeys = 0;
async function putAll(entries: Iterable<[string, unknown]>): Promise<void> {
  const limiter = createLimiter({ total: 8 });
  const sent: Promise<unknown>[] = [];
  let ops: Op[] = [];
  const send = () => {
    const batch = ops;
    ops = [];
    sent.push(limiter(() => etcd.txn({ guards: [], ops: batch })));
  };
  for (const [key, value] of entries) {
    const text = JSON.stringify(value);
    etcdBytes += key.length + text.length;
    etcdKeys += 1;
    ops.push({ put: { key, value: text } });
    if (ops.length === 100) send();
  }
  send();
  await Promise.all(sent);
}

function* clusterOf(
  nodes: readonly { id: string; address: string | null }[],
  tasks: readonly { id: string; epoch: number; project_id: string; owner_id: string; node_id: string | null }[],
): Iterable<[string, unknown]> {
  yield [keys.server(serverId), { serverId, startedAt: at }];
  const addresses = new Map(nodes.map(({ id, address }) => [id, address ?? ""]));
  for (const { id, address } of nodes) {
    const session: NodeSessionValue = {
      ...{ serverId, instanceId: id, bootId: id, address: address ?? "", capacity, version: "0.1.0", labels: {} },
      ...{ platform: { os: "linux", architecture: "amd64" }, connectedAt: at, reconciled: true, suspect: false },
      ...{ detached: false, takeovers: [], bootTookAt: null },
    };
    yield [keys.nodeSession(id), session];
  }
  for (const [index, task] of tasks.entries()) {
    const nodeId = task.node_id ?? "";
    const placement: PlacementValue = {
      ...{ placementId: task.id, epoch: task.epoch, desired: "running", kind: "serve", specHash: "0".repeat(64) },
      ...{ projectId: task.project_id, ownerKind: "deployment", ownerId: task.owner_id, channel: "production" },
      ...{ memoryMb: 256, cpuMillicores: 250, pidsLimit: 128, storageMb: 0, limitsGeneration: 0, drainSeconds: 0 },
    };
    yield [keys.placement(nodeId, task.id), placement];
    const observation: ObservationValue = {
      ...{
        placementId: task.id,
        epoch: task.epoch,
        statusSeq: 7,
        observed: "running",
        health: "healthy",
        restartSeq: 0,
      },
      ...{
        upstream: `${addresses.get(nodeId)}:${20_000 + (index % sitesEach)}`,
        failure: null,
        build: null,
        changedAt: at,
      },
    };
    yield [keys.observation(nodeId, task.id), observation];
  }
}
{
  const nodes = await db.selectFrom("node").select(["id", "address"]).execute();
  const tasks = await db.selectFrom("task").select(["id", "epoch", "project_id", "owner_id", "node_id"]).execute();
  await putAll(clusterOf(nodes, tasks));
}

const usedMb = (): number => {
  (globalThis as { gc?: () => void }).gc?.();
  const { heapUsed, external } = process.memoryUsage();
  return (heapUsed + external) / 2 ** 20;
};
async function timed(work: () => unknown, times = rounds): Promise<number> {
  const samples: number[] = [];
  for (let time = 0; time < times; time += 1) {
    const beganMs = systemClock.steadyMs();
    await work();
    samples.push(systemClock.steadyMs() - beganMs);
  }
  return samples.sort((a, b) => a - b)[Math.floor(samples.length / 2)] ?? Number.NaN;
}

const beforeMb = usedMb();
const openedMs = systemClock.steadyMs();
await using fleet = await openFleet(etcd, { clock: systemClock, log });
const viewMs = systemClock.steadyMs() - openedMs;

// The table, as the publisher would write it; it takes a transaction per hundred hosts.
const gateSecret = Buffer.alloc(32);
const { facts } = await readHostFacts(routeRows(db), fleet, gateSecret);
const table = applyChange(new Map(), tableChange(new Map(), facts));
let tableBytes = 0;
for (const entry of table) tableBytes += JSON.stringify(entry).length;
await putAll(table.map((entry): [string, unknown] => [keys.route(entry.host), entry]));
await putAll([[keys.routesMeta, { generation: 1, digest: tableDigest(table), count: table.length }]]);
while (fleet.routesMeta().generation !== 1) await new Promise((resolve) => systemClock.after(20, () => resolve(null)));
const viewMb = usedMb() - beforeMb;

const signal = new AbortController().signal;
const leadership: Leadership = {
  ...{ epoch: 1n, signal, isHeld: () => true },
  txn: (ops, guards = []) => etcd.txn({ guards, ops }),
};
const schedule = createScheduler({ clock: systemClock, rows: schedulerRows(db), etcd, fleet, leadership, log });
const storms = createStormWatch({
  ...{ rows: stormRows(db), fleet, leadership, leaderId: serverId, leadingSince: fleet.now(), log },
});
const { keep } = createKeeper({
  ...{
    clock: systemClock,
    rows: replicaRows(db),
    etcd,
    fleet,
    leadership,
    storms,
    drainMs: 5_000,
    log,
    lookAgain: () => {},
  },
  takeTurns: createLimiter({ total: 1 }),
});
const publish = () => publishOnce({ rows: routeRows(db), fleet, leadership, gateSecret, log });
const result = {
  ...{ nodes: nodesTotal, sites: table.length, etcdKeys, etcdMb: etcdBytes / 2 ** 20, tableMb: tableBytes / 2 ** 20 },
  ...{ viewMs, viewMb },
  scheduleMs: await timed(schedule),
  keepMs: await timed(keep),
  publishMs: await timed(publish),
  digestMs: await timed(() => tableDigest(table)),
};
// Nothing was to be done, or it is not the rest that was measured.
if (fleet.routesMeta().generation !== 1) throw new Error("the rounds had something to publish");
console.log(JSON.stringify(result));
