import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { systemClock } from "@svc/runtime/system";
import { seededNumbers } from "@svc/runtime/testing/random";
import type { Fleet } from "../../../fleet/cluster/fleet.ts";
import {
  hasEnded,
  isRunOver,
  keys,
  type ObservationValue,
  type PlacementValue,
  type RunValue,
} from "../../../fleet/cluster/keys.ts";
import { openFleet } from "../../../fleet/cluster/testing.ts";
import { createLog } from "../../../log.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Etcd } from "../../../stores/etcd/index.ts";

/** What every build here warns of. */
export const buildWarnings = ["There is nothing to see.", "It is empty."] as const;

/** Numbers from 0 to below 1, the same ones for the same seed. */
export type Random = () => number;

export const createRandom: (seed: number) => Random = seededNumbers;

/**
 * Nodes and an edge as control sees them through etcd: they take what is placed, report it step by step, lose their
 * stream now and then, fail some of it, and run release commands. What they really did is counted here.
 */
export interface VirtualFleet extends AsyncDisposable {
  /** How often the release command of each deployment was started. */
  releaseStarts: ReadonlyMap<string, number>;
  /** Attempts whose command runs now, with their projects. */
  runningReleases: ReadonlyMap<string, string>;
  /** Attempts that began while another one of the same project ran. */
  overlaps: readonly string[];
  /** How often the command of each attempt at a job was started, by the attempt's id. */
  jobStarts: ReadonlyMap<string, number>;
  /** Attempts at jobs whose command runs now, with their runs. */
  runningJobs: ReadonlyMap<string, string>;
  /** What becomes of a job's command that was started; null: it runs on. One that is asked to end does, unless this says otherwise. */
  jobs: (run: RunValue) => Partial<RunValue> | null;
  /** Artifacts that builds pushed, as repository@digest. */
  pushed: ReadonlySet<string>;
  /** Deployments whose app never answers its health path. */
  broken: Set<string>;
  /** Deployments that have open connections: their containers go when they have to, and not before. */
  busy: Set<string>;
  nodeIds: readonly string[];
  /** The node is silent and its lease is over, or it is back with what it had. */
  setNodeAway(nodeId: string, isAway: boolean): void;
  /** The node keeps its stream and answers nothing, or does again. */
  stall(nodeId: string, isStalled: boolean): void;
  /** The edge does not follow the table any more, or does again. */
  setEdgeAway(isAway: boolean): void;
  /** From now on nothing is lost and nothing fails by chance. */
  calm(): void;
  /** What control's stores in etcd say, as another replica would see it. */
  fleet: Fleet;
}

const capacity = { memoryMb: 1_000_000, cpuMillicores: 1_000_000, pids: 1_000_000, diskMb: 1_000_000 };
const serverId = "virtual";
const json = (value: unknown) => JSON.stringify(value);

export async function startVirtualFleet(options: {
  db: Db;
  etcd: Etcd;
  random: Random;
  nodes: number;
}): Promise<VirtualFleet> {
  const { db, etcd, random } = options;
  const now = () => new Date();
  const stop = new AbortController();
  const fleet = await openFleet(etcd, { clock: systemClock, log: createLog("silent") });
  let isCalm = false;
  const chance = (share: number) => !isCalm && random() < share;
  const put = (key: string, value: unknown) => etcd.txn({ guards: [], ops: [{ put: { key, value: json(value) } }] });

  const insertNode = (role: "node" | "edge", name: string) =>
    db
      .insertInto("node")
      .values({ role, name, last_seen_at: now() })
      .returning("id")
      .executeTakeFirstOrThrow()
      .then(({ id }) => id);
  await put(keys.server(serverId), { serverId, startedAt: now().toISOString() });
  const nodeIds = await Promise.all(
    Array.from({ length: options.nodes }, (_, index) => insertNode("node", `node-${index}`)),
  );
  const edgeId = await insertNode("edge", "edge");

  const releaseStarts = new Map<string, number>();
  const runningReleases = new Map<string, string>();
  const overlaps: string[] = [];
  const pushed = new Set<string>();
  const broken = new Set<string>();
  const busy = new Set<string>();
  let isEdgeAway = false;
  const away = new Set<string>();
  const stalled = new Set<string>();

  function nextObservation(placement: PlacementValue, last: ObservationValue | null): ObservationValue | null {
    const base: ObservationValue = {
      placementId: placement.placementId,
      epoch: placement.epoch,
      statusSeq: (last?.statusSeq ?? 0) + 1,
      observed: "assigned",
      health: null,
      restartSeq: 0,
      upstream: null,
      failure: null,
      build: null,
      changedAt: now().toISOString(),
    };
    if (placement.drainSeconds > 0 && busy.has(placement.ownerId)) return null;
    if (placement.desired === "removed") return last?.observed === "removed" ? null : { ...base, observed: "removed" };
    if (placement.desired === "stopped")
      return last && hasEnded(last.observed) ? null : { ...base, observed: "stopped" };
    const failed = {
      ...base,
      observed: "failed" as const,
      failure: { code: "NODE_TASK_FAILED", message: "by chance", exitCode: 1, oomKilled: false },
    };
    switch (last?.observed) {
      case undefined:
        return { ...base, observed: "accepted" };
      case "accepted":
        return chance(0.05) ? failed : { ...base, observed: "starting" };
      case "starting": {
        if (broken.has(placement.ownerId)) {
          const failure = { code: "HEALTH_CHECK_FAILED", message: "by intent", exitCode: null, oomKilled: false };
          return { ...failed, failure };
        }
        if (chance(0.05)) return failed;
        if (placement.kind === "serve") {
          const upstream = `127.0.9.1:${20_000 + (placement.epoch % 30_000)}`;
          return { ...base, observed: "running", health: "healthy", upstream };
        }
        const digest = `sha256:${placement.placementId.replaceAll("-", "").padEnd(64, "0")}`;
        pushed.add(digest);
        const build = { digest, sizeBytes: 1, os: "linux", architecture: "amd64", warnings: [...buildWarnings] };
        return { ...base, observed: "completed", build };
      }
      default:
        return null;
    }
  }

  const jobStarts = new Map<string, number>();
  const runningJobs = new Map<string, string>();

  /** The same of an attempt at a job that was granted. */
  function nextJob(run: RunValue): RunValue | null {
    const changedAt = now().toISOString();
    const { attemptId } = run;
    if (run.state === "granted") {
      if (run.cancel && !runningJobs.has(attemptId)) return { ...run, state: "not_started", changedAt };
      if (!runningJobs.has(attemptId)) jobStarts.set(attemptId, (jobStarts.get(attemptId) ?? 0) + 1);
      runningJobs.set(attemptId, run.ownerId);
      return { ...run, state: "started", startedAt: changedAt, changedAt };
    }
    const ends = self.jobs(run) ?? (run.cancel ? { exitCode: 143 } : null);
    if (ends === null) return null;
    runningJobs.delete(attemptId);
    return { ...run, state: "exited", finishedAt: changedAt, changedAt, ...ends };
  }

  /** What an agent's answer makes of a run; null when it has nothing to say. */
  function nextRun(run: RunValue): RunValue | null {
    if (isRunOver(run.state)) return null;
    const changedAt = now().toISOString();
    const { attemptId, ownerId: deploymentId } = run;
    if (run.kind === "job" && (run.state === "granted" || run.state === "started")) return nextJob(run);
    switch (run.state) {
      case "offered":
      case "accepted":
        if (run.cancel) return { ...run, state: "not_started", changedAt };
        if (run.state === "accepted") return null;
        return chance(0.1) ? { ...run, state: "refused", changedAt } : { ...run, state: "accepted", changedAt };
      case "granted":
        if (run.cancel && !runningReleases.has(attemptId)) return { ...run, state: "not_started", changedAt };
        if (!runningReleases.has(attemptId)) {
          releaseStarts.set(deploymentId, (releaseStarts.get(deploymentId) ?? 0) + 1);
          if ([...runningReleases.values()].includes(run.projectId)) overlaps.push(attemptId);
          runningReleases.set(attemptId, run.projectId);
        }
        return { ...run, state: "started", startedAt: changedAt, changedAt };
      default: {
        if (!run.cancel && chance(0.5)) return null;
        runningReleases.delete(attemptId);
        const exitCode = run.cancel ? 143 : chance(0.1) ? 1 : 0;
        return { ...run, state: "exited", exitCode, finishedAt: changedAt, changedAt };
      }
    }
  }

  async function node(nodeId: string): Promise<void> {
    const session = {
      serverId,
      instanceId: randomUUID(),
      bootId: randomUUID(),
      address: "127.0.9.1",
      capacity,
      platform: { os: "linux", architecture: "amd64" },
      version: "0",
      labels: {},
      connectedAt: now().toISOString(),
      reconciled: true,
    };
    const key = keys.nodeSession(nodeId);
    await put(key, session);
    while (!stop.signal.aborted) {
      await delay(5 + random() * 15);
      if (away.has(nodeId)) {
        await etcd.txn({ guards: [], ops: [{ delete: { key } }] });
        while (away.has(nodeId) && !stop.signal.aborted) await delay(10);
        if (!stop.signal.aborted) await put(key, session);
        continue;
      }
      if (stalled.has(nodeId)) continue;
      if (chance(0.01)) {
        await etcd.txn({ guards: [], ops: [{ delete: { key } }] });
        await delay(100 + random() * 300);
        await put(key, session);
      }
      for (const { nodeId: at, placement } of fleet.placements()) {
        if (at !== nodeId || chance(0.3)) continue;
        const last = fleet.observation(nodeId, placement.placementId);
        const next = nextObservation(placement, last);
        // The owner of a stream writes observations only of placements that exist.
        const placementKey = keys.placement(nodeId, placement.placementId);
        const guard = await etcd.get(placementKey);
        if (next === null || guard === null) continue;
        await etcd.txn({
          guards: [{ key: placementKey, compare: "modRevision", value: guard.modRevision }],
          ops: [{ put: { key: keys.observation(nodeId, placement.placementId), value: json(next) } }],
        });
      }
      for (const { nodeId: at, run, modRevision } of fleet.runs()) {
        if (at !== nodeId || chance(0.3)) continue;
        // The order to start is on its way whatever becomes of the record: the count is taken first.
        const runKey = keys.run(nodeId, run.attemptId);
        const current = await etcd.get(runKey);
        if (current === null || current.modRevision !== modRevision) continue;
        const next = nextRun(run);
        if (next === null) continue;
        await etcd.txn({
          guards: [{ key: runKey, compare: "modRevision", value: modRevision }],
          ops: [{ put: { key: runKey, value: json(next) } }],
        });
      }
    }
  }

  async function edge(): Promise<void> {
    while (!stop.signal.aborted) {
      await delay(5 + random() * 20 + (chance(0.3) ? 300 : 0));
      if (isEdgeAway) continue;
      const { generation, digest } = fleet.routesMeta();
      if (fleet.edgeApplied(edgeId)?.generation === generation) continue;
      await put(keys.edgeApplied(edgeId), {
        generation,
        digest,
        error: null,
        behindHosts: [],
        at: now().toISOString(),
      });
    }
  }

  const self: VirtualFleet = {
    jobStarts,
    runningJobs,
    jobs: () => ({ exitCode: 0 }),
    releaseStarts,
    runningReleases,
    overlaps,
    pushed,
    broken,
    busy,
    nodeIds,
    setNodeAway(nodeId, isAway) {
      if (isAway) away.add(nodeId);
      else away.delete(nodeId);
    },
    stall(nodeId, isStalled) {
      if (isStalled) stalled.add(nodeId);
      else stalled.delete(nodeId);
    },
    setEdgeAway(isAway) {
      isEdgeAway = isAway;
    },
    fleet,
    calm() {
      isCalm = true;
    },
    async [Symbol.asyncDispose]() {
      stop.abort();
      await loops;
      await fleet[Symbol.asyncDispose]();
    },
  };
  const loops = Promise.all([...nodeIds.map(node), edge()]);
  return self;
}
