import type { Clock } from "@svc/runtime/clock";
import { within } from "@svc/runtime/deadline";
import type pg from "pg";
import type { Fleet } from "../../../fleet/cluster/fleet.ts";
import { edgesInRotation } from "../../../fleet/routes/progress.ts";
import type { Metrics } from "../../../metrics/metrics.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Etcd } from "../../../stores/etcd/index.ts";
import { readStoredFacts, type StoredFacts } from "./facts.ts";

export interface GaugeSources {
  db: Db;
  pool: Pick<pg.Pool, "totalCount" | "idleCount" | "waitingCount">;
  etcd: Etcd;
  fleet: Fleet;
  /** The id of every machine that is neither fenced nor removed, with the word for how it is. */
  machines: () => Promise<{ id: string; role: "node" | "edge"; status: string }[]>;
  clock: Clock;
  /** The bucket that backups are put into; null: there is none. */
  offsitePlace: string | null;
}

/** However many ask, Postgres is asked no more often than this; and readers wait no longer than that for it. */
const factsKeptMs = 5_000;
const factsWaitMs = 3_000;

/** Sets what can be looked up at the moment of a reading, instead of being counted as it happens. */
export function watchGauges(metrics: Metrics, sources: GaugeSources): void {
  metrics.beforeReading(() => {
    const { clock, pool, etcd } = sources;
    metrics.postgresConnections.set({ state: "in_use" }, pool.totalCount - pool.idleCount);
    metrics.postgresConnections.set({ state: "idle" }, pool.idleCount);
    metrics.postgresWaiting.set(pool.waitingCount);
    const silences = [...etcd.connection.watches].map(({ heardAtMs }) => clock.steadyMs() - heardAtMs);
    metrics.etcdWatchSilence.set(Math.max(0, ...silences) / 1000);
  });
  metrics.beforeReading(() => setFleet(metrics, sources));
  const { clock } = sources;
  const late = () => {
    throw new Error(`no answer within ${factsWaitMs} ms`);
  };
  const facts = keptFor(clock, factsKeptMs, () => within(clock, factsWaitMs, readAll(sources), late));
  metrics.beforeReading(async () => {
    try {
      setFacts(metrics, sources, await facts());
    } catch (error) {
      // A number that nobody knows is none: the gauges are left out until Postgres answers again.
      metrics.factsFailed.inc();
      for (const each of factGauges) metrics[each].reset();
      throw error;
    }
  });
}

const factGauges = [
  ...(["workItems", "workOldest", "tasksWaiting", "tasksRefused", "certificateDays"] as const),
  ...(["nodesDiskFull", "nodesMemoryShort", "nodes", "edgesBehind"] as const),
  ...(["databaseCopies", "databaseCopyLag", "databasesUncopied", "databaseProofs", "databaseProofAge"] as const),
  ...(["backupsWaiting", "backupsWaitingAge", "copiesOffsiteLag", "jobsClockLag"] as const),
] as const;

type AllFacts = StoredFacts & { machines: Awaited<ReturnType<GaugeSources["machines"]>>; inRotation: string[] };

const readAll = async ({ db, machines, offsitePlace }: GaugeSources): Promise<AllFacts> => ({
  ...(await readStoredFacts(db, offsitePlace)),
  machines: await machines(),
  inRotation: await edgesInRotation(db),
});

function setFleet(metrics: Metrics, { fleet }: GaugeSources): void {
  const states = new Map<string, number>();
  for (const { nodeId, placement } of fleet.placements()) {
    const state = fleet.observation(nodeId, placement.placementId)?.observed ?? "assigned";
    states.set(state, (states.get(state) ?? 0) + 1);
  }
  metrics.placements.reset();
  for (const [state, count] of states) metrics.placements.set({ state }, count);
  const { generation, count } = fleet.routesMeta();
  metrics.routesGeneration.set(generation);
  metrics.routesHosts.set(count);
  metrics.storm.set(fleet.status()?.storm ? 1 : 0);
}

function setFacts(metrics: Metrics, { fleet }: GaugeSources, facts: AllFacts): void {
  for (const each of factGauges) metrics[each].reset();
  const oldest = new Map<string, number>();
  for (const { kind, state, count, oldestSeconds } of facts.work) {
    metrics.workItems.set({ kind, state }, count);
    oldest.set(kind, Math.max(oldest.get(kind) ?? 0, oldestSeconds));
  }
  for (const [kind, secondsOld] of oldest) metrics.workOldest.set({ kind }, secondsOld);
  metrics.tasksWaiting.set(facts.waiting);
  for (const { reason, count } of facts.refused) metrics.tasksRefused.set({ reason }, count);
  for (const { role, daysLeft } of facts.certificates) metrics.certificateDays.set({ role }, daysLeft);
  for (const { state, place, count } of facts.copies) metrics.databaseCopies.set({ state, place }, count);
  if (facts.copyLagSeconds !== null) metrics.databaseCopyLag.set(facts.copyLagSeconds);
  metrics.databasesUncopied.set(facts.uncopied);
  for (const { verdict, count } of facts.proofs) metrics.databaseProofs.set({ verdict }, count);
  if (facts.proofAgeSeconds !== null) metrics.databaseProofAge.set(facts.proofAgeSeconds);
  if (facts.notOffsite !== null) {
    metrics.backupsWaiting.set(facts.notOffsite.count);
    metrics.backupsWaitingAge.set(facts.notOffsite.oldestSeconds);
    if (facts.notOffsite.copyLagSeconds !== null) metrics.copiesOffsiteLag.set(facts.notOffsite.copyLagSeconds);
  }
  metrics.jobsClockLag.set(facts.jobsLagSeconds);
  metrics.nodesDiskFull.set(facts.diskFull);
  metrics.nodesMemoryShort.set(facts.memoryShort);
  for (const { role, status } of facts.machines) metrics.nodes.inc({ role, status });
  const { generation } = fleet.routesMeta();
  const behind = facts.inRotation.filter((id) => {
    const applied = fleet.edgeApplied(id);
    return applied === null || applied.generation < generation || applied.behindHosts.length > 0;
  });
  metrics.edgesBehind.set(behind.length);
}

/** One answer for everybody who asks within `keptMs` of it, and for those who ask while it is under way. */
function keptFor<T>(clock: Clock, keptMs: number, read: () => Promise<T>): () => Promise<T> {
  let reading: { startedAtMs: number; answer: Promise<T> } | null = null;
  return () => {
    const nowMs = clock.bootMs();
    if (reading === null || nowMs - reading.startedAtMs > keptMs) reading = { startedAtMs: nowMs, answer: read() };
    return reading.answer;
  };
}
