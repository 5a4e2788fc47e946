import {
  type ClusterStatusValue,
  hasEnded,
  isRunOver,
  keyParts,
  keys,
  type ObservationValue,
  type PlacementValue,
  prefix,
  type RoutesMetaValue,
  type RunValue,
} from "@svc/control/cluster/keys";
import type { Storm, StormNode } from "@svc/control/cluster/storm/rules";
import type { Routing } from "@svc/control/deployments/routing";
import { isServing } from "@svc/control/deployments/steps";
import { backOffMs } from "@svc/control/etcd/back-off";
import { EtcdError, LeadershipLost, UnknownOutcome } from "@svc/control/etcd/errors";
import type { Guard } from "@svc/control/etcd/txn";
import { type DrainingNode, drainSteps } from "@svc/control/nodes/drain/steps";
import { runAfterFence } from "@svc/control/nodes/fence/steps";
import { replicaNode } from "@svc/control/replicas/nodes";
import { Sightings } from "@svc/control/replicas/sightings";
import type { Replica as KeptReplica, ReplicaStep, Site } from "@svc/control/replicas/steps";
import { type Container, type HostFacts, isUnheard, type RouteEntry, upstreamsOf } from "@svc/control/routes/table";
import type { Hints, SchedulableNode } from "@svc/control/scheduler/placement";
import { createRecent } from "@svc/control/scheduler/recent";
import type { ClusterState, DesiredTask, Placed, SchedulerStep } from "@svc/control/scheduler/steps";
import { releaseAttemptId } from "@svc/control/tasks/assignment";
import { type Bell, createBell, createQueue, pause, type Work, wait } from "../kernel/kernel.ts";
import type { Op } from "../stores/etcd.ts";
import type { Leadership } from "../stores/etcd-lease.ts";
import { DatabaseError, type NodeRow, type Tables, type TaskRow } from "../stores/postgres.ts";
import type { Replica } from "./replica.ts";
import { readRouting, routedTo } from "./routed.ts";

const periodMs = 2_000;
const drainMs = 5_000;
/** As `control/src/routes/publisher.ts` has them. */
const firstTableMs = 60_000;
const generationsPerEpoch = 2 ** 30;
const takeOverBackOff = { firstMs: 100, maxMs: 5_000 };

/** A later leader has written to Postgres. */
class LeaderOutdated extends Error {
  override readonly name = "LeaderOutdated";
}

const isPassing = (error: unknown): boolean =>
  error instanceof EtcdError ||
  error instanceof UnknownOutcome ||
  error instanceof DatabaseError ||
  error instanceof LeaderOutdated ||
  error instanceof LeadershipLost ||
  error instanceof NotNow;

/** The rest of a round is left to the next one. */
class NotNow extends Error {
  override readonly name = "NotNow";
}

/** The loops of which the cluster has one: mirrors `control/src/cluster/leader.ts` and what it runs. */
export function lead(replica: Replica, leadership: Leadership): void {
  const { scope } = leadership;
  const { fleet, bells } = replica;
  replica.leads = true;
  scope.onEnd(() => {
    replica.leads = false;
  });
  const [replicas, drains, fences] = [createBell(), createBell(), createBell()];
  const ring = (...of: Bell[]) => {
    for (const bell of of) bell.ring();
  };
  const stops = [
    fleet.nodes.subscribe(() => ring(bells.tasks, bells.routes, replicas, fences)),
    fleet.servers.subscribe(() => ring(bells.tasks, bells.routes, replicas)),
    fleet.placements.subscribe(() => ring(bells.tasks, bells.routes, replicas, drains)),
    fleet.observations.subscribe(() => ring(bells.tasks, bells.routes, replicas, drains)),
    fleet.routes.subscribe(() => ring(bells.routes, replicas)),
    fleet.edges.subscribe(() => ring(replicas)),
  ];
  scope.onEnd(() => {
    for (const stop of stops) stop();
  });
  const loop = (bell: Bell, round: () => Work) => {
    scope.spawn(
      (function* (): Work {
        for (;;) {
          try {
            yield* round();
            yield* wait(bell.wait(periodMs));
          } catch (error) {
            if (!isPassing(error)) throw error;
            yield* wait(createBell().wait(200));
          }
        }
      })(),
    );
  };
  const office = new Office(replica, leadership);
  scope.spawn(
    (function* (): Work {
      yield* office.takeOver();
      if (!replica.world.cores.shell.leavesRunsAlone) scope.spawn(office.forceRuns(), () => {});
      loop(bells.tasks, () => office.schedule());
      loop(bells.routes, () => office.publish());
      loop(replicas, () => office.keep());
      loop(drains, () => office.drain());
      loop(fences, function* () {
        yield* office.clearGone();
        yield* office.clearLeft();
      });
    })(),
  );
}

/** A site as it was read from Postgres. */
interface ReadSite {
  deploymentId: string;
  host: string;
  /** With what the fleet says at this moment. */
  current(): Site;
  /** Whether no edge sends visitors to the container, as `routing` has it. */
  isLeft(taskId: string, routing: Routing): boolean;
}

class Office {
  private placements: { placed: Map<string, Placed>; turn: bigint } | null = null;
  private readonly recent = createRecent();
  private readonly leadingSince: Date;
  private readonly sightings = new Sightings();
  /** What publishes containers and what removes them take turns. */
  private readonly turns: ReturnType<typeof createQueue>;
  /** Nodes of the last look at the storm. */
  private known: readonly { id: string; seenMsAgo: number; readAt: Date }[] = [];

  private readonly replica: Replica;
  private readonly leadership: Leadership;

  constructor(replica: Replica, leadership: Leadership) {
    this.replica = replica;
    this.leadership = leadership;
    this.leadingSince = replica.fleet.now();
    this.turns = createQueue(leadership.scope);
  }

  /** The first thing that a leader does: from then on nothing that an earlier one decided is committed. */
  *takeOver(): Work {
    const { epoch } = this.leadership;
    const { world, process } = this.replica;
    for (let failures = 1; ; failures += 1) {
      try {
        const isNewest = yield* this.replica.transact((tables) => {
          if (tables.leaderFence > epoch) return false;
          world.checks.onFence(tables.leaderFence, epoch);
          tables.leaderFence = epoch;
          return true;
        });
        if (isNewest) return;
      } catch (error) {
        if (!(error instanceof DatabaseError)) throw error;
      }
      yield* wait(pause(backOffMs(failures, takeOverBackOff, process.random.next())));
    }
  }

  /** A transaction that a later leader's makes impossible. */
  private *fenced<T>(work: (tables: Tables, notify: (channel: "task" | "route") => void) => T): Work<T> {
    const { epoch } = this.leadership;
    const done = yield* this.replica.transact((tables, notify) =>
      tables.leaderFence === epoch ? { result: work(tables, notify) } : null,
    );
    if (done === null) throw new LeaderOutdated("another leader is at work");
    return done.result;
  }

  // --------------------------------------------------------------- scheduler

  private get endTurn(): Op {
    return { put: { key: keys.schedulerTurn, value: this.replica.world.values.textOf(String(this.leadership.epoch)) } };
  }

  private *ledger() {
    if (this.placements !== null) return this.placements;
    const { revision } = yield* this.leadership.txn([this.endTurn]);
    const { entries } = yield* this.replica.client.range(prefix.placements);
    const placed = new Map<string, Placed>();
    for (const { key, value, modRevision } of entries) {
      const placement = this.replica.world.values.of<PlacementValue>(value);
      placed.set(placement.placementId, {
        ...placement,
        nodeId: keyParts(key, prefix.placements)[0] ?? "",
        modRevision,
      });
    }
    this.placements = { placed, turn: revision };
    return this.placements;
  }

  *schedule(): Work {
    const { replica } = this;
    const { world, fleet } = replica;
    for (let tries = 1; tries <= 3; tries += 1) {
      const { placed } = yield* this.ledger();
      const state = yield* readClusterState(replica, placed);
      const seen = new Map(
        [...placed.values()].flatMap(({ placementId, nodeId }) => {
          const observation = fleet.observation(nodeId, placementId);
          return observation === null ? [] : [[placementId, observation] as const];
        }),
      );
      const hints: Hints = this.recent.note(placed, seen, fleet.now());
      const steps = world.cores.schedule({ ...state, hints });
      if (!(yield* this.commit(steps.filter((step) => step.do !== "refuse" && step.do !== "keep")))) continue;
      const refusals = steps.flatMap((step) => (step.do === "refuse" ? [step] : []));
      if (refusals.length > 0) {
        yield* replica.transact((tables) => {
          for (const { taskId, refused } of refusals) {
            const task = tables.open.get(taskId);
            if (task !== undefined) task.refused = refused;
          }
        });
      }
      return;
    }
  }

  private *commit(steps: readonly SchedulerStep[]): Work<boolean> {
    for (let at = 0; at < steps.length; at += 50) {
      const batch = steps.slice(at, at + 50);
      const { placements: known } = this;
      if (known === null) return false;
      const ops: Op[] = [];
      const guards: Guard[] = [];
      const entries: ({ put: Placed } | { deleted: string })[] = [];
      for (const step of batch) this.change(step, ops, guards, entries);
      this.placements = null;
      const { succeeded, revision } = yield* this.leadership.txn(
        [...ops, this.endTurn],
        [...guards, { key: keys.schedulerTurn, compare: "modRevision", value: known.turn }],
      );
      if (!succeeded) return false;
      for (const entry of entries) {
        if ("put" in entry) known.placed.set(entry.put.placementId, { ...entry.put, modRevision: revision });
        else known.placed.delete(entry.deleted);
      }
      this.placements = { placed: known.placed, turn: revision };
      yield* this.fenced((tables) => {
        for (const step of batch) this.mirror(tables, step);
      });
    }
    return true;
  }

  private change(
    step: SchedulerStep,
    ops: Op[],
    guards: Guard[],
    entries: ({ put: Placed } | { deleted: string })[],
  ): void {
    const { values } = this.replica.world;
    const put = (placed: Placed, guard: Guard) => {
      const { nodeId, modRevision: _, ...value } = placed;
      ops.push({ put: { key: keys.placement(nodeId, value.placementId), value: values.textOf(value) } });
      guards.push(guard);
      entries.push({ put: placed });
    };
    const unchanged = ({ nodeId, placementId, modRevision }: Placed): Guard => ({
      key: keys.placement(nodeId, placementId),
      compare: "modRevision",
      value: modRevision,
    });
    if (step.do === "place") {
      const { task, nodeId } = step;
      const value: PlacementValue = {
        placementId: task.id,
        epoch: task.epoch,
        desired: task.desired,
        kind: task.kind,
        specHash: task.specHash,
        projectId: task.projectId,
        deploymentId: task.deploymentId,
        channel: task.channel,
        memoryMb: task.memoryMb,
        cpuMillicores: task.cpuMillicores,
        pidsLimit: task.pidsLimit,
        limitsGeneration: 0,
      };
      put({ ...value, nodeId, modRevision: 0n }, { key: keys.placement(nodeId, task.id), compare: "absent" });
    } else if (step.do === "move") {
      put({ ...step.placement, desired: step.desired }, unchanged(step.placement));
    } else if (step.do === "reap" && step.nodeId !== null) {
      ops.push({ delete: { key: keys.placement(step.nodeId, step.taskId) } });
      ops.push({ delete: { key: keys.observation(step.nodeId, step.taskId) } });
      entries.push({ deleted: step.taskId });
    }
  }

  private mirror(tables: Tables, step: SchedulerStep): void {
    if (step.do === "place" || step.do === "mirror") {
      const task = tables.tasks.get(step.do === "place" ? step.task.id : step.taskId);
      if (task === undefined) return;
      task.nodeId = step.nodeId;
      task.refused = null;
    } else if (step.do === "reap") {
      const task = tables.tasks.get(step.taskId);
      if (task !== undefined) task.reaped = true;
      tables.open.delete(step.taskId);
    }
  }

  // --------------------------------------------------------------- publisher

  private *inTurn(work: () => Work): Work {
    yield* wait(this.turns(work));
  }

  *publish(): Work {
    yield* this.inTurn(() => this.publishNow());
  }

  private *publishNow(): Work {
    const { replica } = this;
    const { fleet, world } = replica;
    const facts = yield* this.readHosts();
    const table = fleet.routeTable();
    const { modRevision, ...meta } = fleet.routesMeta();
    const isFirst = modRevision === null;
    // Edges keep the table that they have until nodes have told what they run, also those of a restored etcd.
    const isEarly = fleet.now().getTime() - fleet.lookingSince.getTime() < firstTableMs;
    if (isFirst && isEarly && facts.some(isUnheard)) return;
    const generation = isFirst ? (replica.clusterEpoch - 1) * generationsPerEpoch : meta.generation;
    const change = world.cores.tableChange(table, facts);
    const isUntold = isFirst;
    if (change.upserts.length === 0 && change.removedHosts.length === 0 && !isUntold) return;
    const next = world.cores.applyChange(table, change);
    const nextMeta: RoutesMetaValue = { generation: generation + 1, digest: "", count: next.length };
    const ops: Op[] = [
      ...change.upserts.map(
        (entry): Op => ({ put: { key: keys.route(entry.host), value: world.values.textOf({ entry }) } }),
      ),
      ...change.removedHosts.map((host): Op => ({ delete: { key: keys.route(host) } })),
      { put: { key: keys.routesMeta, value: world.values.textOf({ meta: nextMeta }) } },
    ];
    yield* this.leadership.txn(ops, [
      modRevision === null
        ? { key: keys.routesMeta, compare: "absent" }
        : { key: keys.routesMeta, compare: "modRevision", value: modRevision },
    ]);
  }

  private *readHosts(): Work<HostFacts[]> {
    const { fleet } = this.replica;
    const read = yield* this.replica.transact((tables) => ({
      sites: [...tables.sites.values()].map((site) => ({ ...site })),
      tasks: [...tables.open.values()].filter(({ desired }) => desired === "running").map((task) => ({ ...task })),
      nodes: nodeRows(tables),
    }));
    const isStorm = fleet.status.get(keys.clusterStatus)?.value.storm != null;
    const containers = new Map<string, Container[]>();
    for (const { id, deploymentId, retiringAt } of read.tasks) {
      const nodeId = fleet.findPlacement(id)?.nodeId ?? null;
      const observation = nodeId === null ? null : fleet.observation(nodeId, id);
      const node =
        nodeId === null
          ? "present"
          : replicaNode(factsOf(read.nodes.get(nodeId)), !isStorm && fleet.nodeLink(nodeId).link === "unreachable");
      const isSilent =
        nodeId !== null && fleet.nodeLink(nodeId).link === "suspect" && fleet.nodeLostAt(nodeId) === null;
      const own = containers.get(deploymentId) ?? [];
      containers.set(deploymentId, own);
      own.push({
        upstream: observation?.upstream ?? null,
        serving: isServing({ observation }),
        isOver: (observation !== null && hasEnded(observation.observed)) || node === "gone",
        retiring: retiringAt !== null,
        isStale: node === "lost" || node === "quarantined" || (isSilent && !isStorm),
      });
    }
    return read.sites.map(({ host, projectId, stopped, deploymentId }) => ({
      ...{ host, projectId, stopped, channel: "production", redirectTo: null, gate: null, suspended: false },
      active:
        deploymentId === null
          ? null
          : { deploymentId, kind: "image", ...upstreamsOf(containers.get(deploymentId) ?? []) },
    }));
  }

  // ------------------------------------------------------------------ keeper

  private *lookAtStorm(): Work<Storm | null> {
    const { fleet, world, id: leaderId } = this.replica;
    const rows = yield* this.replica.transact((tables) =>
      [...tables.nodes.values()].flatMap(({ id, role, lifecycle, seenAt }) =>
        role === "node" && lifecycle === "active" && seenAt !== null
          ? [{ id, seenMsAgo: world.postgres.nowMs() - seenAt.getTime() }]
          : [],
      ),
    );
    const readAt = fleet.now();
    this.known = rows.map((row) => ({ ...row, readAt }));
    const storm = this.storm();
    const value: ClusterStatusValue = {
      leaderId,
      leadingSince: this.leadingSince.toISOString(),
      storm: storm && { reason: storm.reason, since: storm.since.toISOString() },
    };
    const before = fleet.status.get(keys.clusterStatus)?.value;
    if (JSON.stringify(before) !== JSON.stringify(value)) {
      yield* this.leadership.txn([{ put: { key: keys.clusterStatus, value: world.values.textOf(value) } }]);
    }
    return storm;
  }

  /** By what the fleet knows at this moment, of the nodes of the last look. */
  private storm(): Storm | null {
    const { fleet, world } = this.replica;
    const nodes = this.known.map(({ id, seenMsAgo, readAt }): StormNode => {
      const { link, since } = fleet.nodeLink(id);
      if (link === "connected" || link === "reconciling") return { id, heardSince: since };
      // What was away before this replica looked was lost when it was last heard, and not all at that moment.
      const isLongAway = link === "unreachable" && fleet.wasAwayAtFirst(id);
      return { id, lostAt: isLongAway ? new Date(readAt.getTime() - seenMsAgo) : since };
    });
    return world.cores.stormOf({ now: fleet.now(), leadingSince: this.leadingSince, nodes });
  }

  private decide(sites: readonly Site[], storm: Storm | null): ReplicaStep[] {
    const { fleet, world } = this.replica;
    return world.cores.keepReplicas({ now: fleet.now(), storm: storm !== null, drainMs, sites });
  }

  *keep(): Work {
    const { world } = this.replica;
    const storm = yield* this.lookAtStorm();
    const reads = yield* this.readSites();
    const sites = reads.map((read) => read.current());
    const fresh = sites.flatMap(({ running }) => running.filter(({ serving, served }) => serving && !served));
    if (fresh.length > 0) {
      yield* this.fenced((tables) => {
        for (const { taskId } of fresh) {
          const task = tables.tasks.get(taskId);
          if (task !== undefined) task.servedAt ??= world.postgres.now();
        }
      });
    }
    const steps = Map.groupBy(this.decide(sites, storm), ({ deploymentId }) => deploymentId);
    for (const read of reads) {
      const decided = steps.get(read.deploymentId);
      if (decided !== undefined) yield* this.inTurn(() => this.carryOut(read, decided));
    }
  }

  /** A round takes its time, so what it decided must still be what the fleet asks for. */
  private *carryOut(read: ReadSite, decided: readonly ReplicaStep[]): Work {
    const site = read.current();
    const wanted = new Set(this.decide([site], this.storm()).map(about));
    if (!decided.every((step) => wanted.has(about(step)))) return;
    const steps = yield* this.withoutRouted(read, site, decided);
    if (steps.length > 0) yield* this.applySteps(site, steps);
  }

  /** Without the removals of what an edge still uses by etcd itself: the view may be old. */
  private *withoutRouted(
    read: ReadSite,
    { running }: Site,
    steps: readonly ReplicaStep[],
  ): Work<readonly ReplicaStep[]> {
    const leaving = new Set(
      running.filter(({ retiring, node }) => retiring && node !== "gone").map(({ taskId }) => taskId),
    );
    const isRemoval = (step: ReplicaStep) => step.do === "remove" && leaving.has(step.taskId);
    if (!this.replica.world.cores.shell.waitsForEdges || !steps.some(isRemoval)) return steps;
    const routing = yield* readRouting(this.replica, read.host);
    return steps.filter((step) => step.do !== "remove" || !isRemoval(step) || read.isLeft(step.taskId, routing));
  }

  private *applySteps({ deploymentId, running }: Site, steps: readonly ReplicaStep[]): Work {
    const { world } = this.replica;
    yield* this.fenced((tables, notify) => {
      const deployment = tables.deployments.get(deploymentId);
      const row = siteOf(tables, deployment?.projectId ?? "");
      if (deployment?.status !== "running" || row === null || row.deploymentId !== deploymentId || row.stopped) return;
      const open = [...tables.open.values()].filter(
        (task) => task.deploymentId === deploymentId && task.desired === "running",
      );
      const known = new Map(running.map(({ taskId, retiring }) => [taskId, retiring]));
      if (open.length !== known.size || !open.every(({ id, retiringAt }) => known.get(id) === (retiringAt !== null)))
        return;
      for (const step of steps) {
        world.kernel.note(() => `keeper: ${JSON.stringify(step)}`);
        if (step.do === "replace") {
          world.checks.onReplace(step.cause);
          tables.insertTask({
            projectId: deployment.projectId,
            deploymentId,
            replica: step.slot,
            memoryMb: row.memoryMb,
            createdAt: world.postgres.now(),
            cause: step.cause,
          });
        } else {
          const task = tables.open.get(step.taskId);
          if (task === undefined) continue;
          if (step.do === "retire") task.retiringAt ??= world.postgres.now();
          else task.desired = "removed";
        }
      }
      notify("task");
      notify("route");
    });
  }

  /** Mirrors `control/src/replicas/read.ts`. */
  private *readSites(): Work<ReadSite[]> {
    const { replica, sightings } = this;
    const { fleet, world } = replica;
    const read = yield* replica.transact((tables) => {
      const rows = [...tables.sites.values()].flatMap((site) => {
        const deployment = site.deploymentId === null ? undefined : tables.deployments.get(site.deploymentId);
        return deployment === undefined || site.stopped || deployment.status !== "running"
          ? []
          : [
              {
                host: site.host,
                deployment: { ...deployment },
                all: tables.tasksOf(deployment.id).map((task) => ({ ...task })),
              },
            ];
      });
      return { rows, nodes: nodeRows(tables), edges: edgesInRotation(tables), now: world.postgres.now() };
    });
    const { rows, nodes, edges } = read;
    const aheadMs = fleet.now().getTime() - read.now.getTime();
    const isKept = ({ desired, reaped }: TaskRow) => desired === "running" && !reaped;
    sightings.keepOnly(new Set(rows.flatMap(({ all }) => all.filter(isKept).map(({ id }) => id))));
    return rows.map(({ host, deployment, all }): ReadSite => {
      const own = all.filter(isKept);
      const served = own.map(({ id, servedAt }) => ({ id, served: servedAt !== null }));
      const isLeaving = own.some(({ retiringAt }) => retiringAt !== null);
      const replaced = replacedOf(all, aheadMs, fleet.now());
      return {
        deploymentId: deployment.id,
        host,
        isLeft(taskId, routing) {
          const routed = routedTo(world.cores, routing, edges, host);
          return routed !== null && !sightings.isAmong(routed, taskId, served);
        },
        current: () => {
          const routed = isLeaving ? routedTo(world.cores, fleet, edges, host) : null;
          const now = fleet.now();
          const found = own.map((task) => {
            const nodeId = fleet.findPlacement(task.id)?.nodeId ?? task.nodeId;
            return { task, nodeId, observation: nodeId === null ? null : fleet.observation(nodeId, task.id) };
          });
          for (const { task, observation } of found) sightings.see(task.id, observation, now);
          return {
            deploymentId: deployment.id,
            replicas: deployment.replicas,
            running: found.map((each) => {
              const { id, retiringAt } = each.task;
              const isRouted = routed === null || sightings.isAmong(routed, id, served);
              const isUnrouted = !isRouted || !world.cores.shell.waitsForEdges;
              sightings.seeRoute(id, retiringAt !== null && isUnrouted, now);
              return this.replicaOf(each, nodes, aheadMs);
            }),
            replaced,
          };
        },
      };
    });
  }

  private replicaOf(
    { task, nodeId, observation }: { task: TaskRow; nodeId: string | null; observation: ObservationValue | null },
    nodes: ReadonlyMap<string, NodeRow>,
    aheadMs: number,
  ): KeptReplica {
    const { fleet } = this.replica;
    const { sightings } = this;
    const { id, retiringAt } = task;
    const link = nodeId === null ? null : fleet.nodeLink(nodeId).link;
    return {
      taskId: id,
      slot: task.replica,
      epoch: task.epoch,
      nodeId,
      node: nodeId === null ? "present" : replicaNode(factsOf(nodes.get(nodeId)), link === "unreachable"),
      connected: link === "connected",
      hasNoRoom: nodeId === null && task.refused !== null,
      serving: isServing({ observation }),
      served: task.servedAt !== null,
      published: task.servedAt !== null || sightings.wasPublished(id),
      endedAt: sightings.endedAt.get(id) ?? null,
      retiring: retiringAt !== null,
      retiringSince: retiringAt === null ? null : new Date(retiringAt.getTime() + aheadMs),
      unroutedAt: sightings.unroutedAt.get(id) ?? null,
    };
  }

  // -------------------------------------------------------------- drain, fence

  *drain(): Work {
    const { replica } = this;
    const { fleet, process } = replica;
    const rows = yield* replica.transact((tables) =>
      [...tables.nodes.values()]
        .filter(({ drain, lifecycle, role }) => drain !== "none" && lifecycle === "active" && role === "node")
        .map((node) => ({ ...node })),
    );
    const nodes = rows.flatMap((row): DrainingNode[] => {
      if (row.drain === "none") return [];
      const held = [...(fleet.byNode.get(row.id)?.values() ?? [])].filter(({ value }) => {
        const said = fleet.observation(row.id, value.placementId);
        return said === null || !hasEnded(said.observed);
      });
      const runs = [...fleet.runs.values].filter(
        ([key, { value }]) => key.startsWith(keys.runs(row.id)) && !isRunOver(value.state),
      );
      return [
        {
          ...{ id: row.id, state: row.drain, generation: row.drainGeneration, deadline: row.drainDeadline },
          held: held.map(({ value: { placementId: taskId, deploymentId, kind } }) => ({ taskId, deploymentId, kind })),
          runs: runs.map(([, { value }]) => ({
            ...{ attemptId: value.attemptId, deploymentId: value.deploymentId, isAskedToEnd: value.cancel },
            claimed: value.state === "granted" || value.state === "started",
          })),
        },
      ];
    });
    for (const step of drainSteps(nodes, process.now())) {
      const isStill = yield* replica.transact((tables) => {
        const node = tables.nodes.get(step.nodeId);
        if (node === undefined || node.drain === "none" || node.drainGeneration !== step.generation) return false;
        if (step.do === "finish" && node.drain !== "drained") node.drain = "drained";
        if (step.do === "reopen" && node.drain === "drained") node.drain = "draining";
        if (step.do === "expire" && node.drain === "draining") node.drain = "deadline";
        return true;
      });
      if (isStill && step.do === "endRun") yield* cancelRun(replica, step.nodeId, step.attemptId);
    }
  }

  /** What a leader must not do: see the mutant that asks for it. */
  *forceRuns(): Work {
    const { replica } = this;
    yield* replica.transact((tables) => {
      const nodeIds = [...tables.nodes.values()].filter(({ role }) => role === "node").map(({ id }) => id);
      for (const row of tables.deployments.values()) {
        if (row.status !== "deploying" || row.releaseAttempt === 0 || row.releaseStatus === "succeeded") continue;
        const attempt = row.releaseAttempt;
        row.releaseAttempt = attempt + 1;
        row.releaseNodeId = nodeIds[attempt % nodeIds.length] ?? row.releaseNodeId;
        const [next, last] = [releaseAttemptId(row.id, attempt + 1), releaseAttemptId(row.id, attempt)];
        replica.world.checks.onAttempt(row.id, next, last);
      }
    });
  }

  /** Session keys that nobody has given back: every later replica would count their lease anew. */
  *clearLeft(): Work {
    for (const { key, serverId, modRevision } of this.replica.fleet.leftSessions()) {
      yield* this.leadership.txn(
        [{ delete: { key } }],
        [
          { key, compare: "modRevision", value: modRevision },
          { key: keys.server(serverId), compare: "absent" },
        ],
      );
    }
  }

  *clearGone(): Work {
    const { replica } = this;
    const { fleet, client, world, process } = replica;
    const writer = { by: "worker", serverId: replica.id } as const;
    const gone = yield* replica.transact((tables) =>
      [...tables.nodes.values()].filter(({ lifecycle }) => lifecycle !== "active").map(({ id }) => id),
    );
    for (const id of gone) {
      for (const key of [keys.nodeSession(id), keys.edgeSession(id), keys.edgeApplied(id)]) {
        if (fleet.nodes.get(key) === undefined && fleet.edges.get(key) === undefined) continue;
        yield* wait(client.txn({ guards: [], ops: [{ delete: { key } }], writer }));
      }
      const { entries } = yield* client.range(keys.runs(id));
      for (const { key, value, modRevision } of entries) {
        const next = runAfterFence(world.values.of<RunValue>(value), process.now());
        if (next === null) continue;
        const put = { put: { key, value: world.values.textOf(next) } };
        yield* wait(client.txn({ guards: [{ key, compare: "modRevision", value: modRevision }], ops: [put], writer }));
      }
    }
  }
}

/** What a step does, for comparing. */
const about = (step: ReplicaStep): string =>
  step.do === "replace" ? `replace ${step.slot} ${step.cause}` : `${step.do} ${step.taskId}`;

/** Replacements of the last hour by slot, without those that served until another took over. */
function replacedOf(tasks: readonly TaskRow[], aheadMs: number, now: Date): Site["replaced"] {
  const replaced = new Map<number, { count: number; lastAt: Date }>();
  for (const { cause, servedAt, retiringAt, createdAt, replica: slot } of tasks) {
    const madeAt = new Date(createdAt.getTime() + aheadMs);
    const didItsPart = servedAt !== null && retiringAt !== null;
    if (cause === null || didItsPart || madeAt.getTime() < now.getTime() - 3_600_000) continue;
    const before = replaced.get(slot);
    const lastAt = before === undefined || before.lastAt < madeAt ? madeAt : before.lastAt;
    replaced.set(slot, { count: (before?.count ?? 0) + 1, lastAt });
  }
  return replaced;
}

const nodeRows = (tables: Tables): Map<string, NodeRow> =>
  new Map([...tables.nodes.values()].filter(({ role }) => role === "node").map((node) => [node.id, { ...node }]));

const factsOf = (node: NodeRow | undefined): Parameters<typeof replicaNode>[0] =>
  node && {
    id: node.id,
    lifecycle: node.lifecycle,
    drain: node.drain,
    quarantined_at: node.quarantinedAt,
    engine_stalled: false,
  };

export const siteOf = (tables: Tables, projectId: string) =>
  [...tables.sites.values()].find((site) => site.projectId === projectId) ?? null;

/** Edges that visitors may reach. */
export const edgesInRotation = (tables: Tables): string[] =>
  [...tables.nodes.values()]
    .filter(
      ({ role, lifecycle, schedulable, seenAt }) =>
        role === "edge" && lifecycle === "active" && schedulable && seenAt !== null,
    )
    .map(({ id }) => id);

/** Mirrors `control/src/scheduler/snapshot.ts`. */
export function* readClusterState(replica: Replica, placed: ReadonlyMap<string, Placed>): Work<ClusterState> {
  const { fleet } = replica;
  const read = yield* replica.transact((tables) => ({
    nodes: [...tables.nodes.values()].filter(({ role }) => role === "node").map((node) => ({ ...node })),
    tasks: [...tables.open.values()].map((task) => ({ ...task })),
  }));
  const observed = new Map(
    [...placed.values()].flatMap(({ placementId, nodeId }) => {
      const observation = fleet.observation(nodeId, placementId);
      return observation === null ? [] : [[placementId, observation] as const];
    }),
  );
  return {
    nodes: read.nodes.filter(({ lifecycle }) => lifecycle === "active").map((node) => schedulable(replica, node)),
    goneNodes: new Set(read.nodes.filter(({ lifecycle }) => lifecycle !== "active").map(({ id }) => id)),
    placed,
    observed,
    tasks: read.tasks.map(
      (task): DesiredTask => ({
        ...{ id: task.id, projectId: task.projectId, deploymentId: task.deploymentId, epoch: task.epoch },
        ...{ desired: task.desired, memoryMb: task.memoryMb, nodeId: task.nodeId, refused: task.refused !== null },
        ...{ kind: "serve", channel: "production", specHash: `spec of ${task.deploymentId}` },
        ...{ cpuMillicores: 100, pidsLimit: 64, diskMb: 0, nodeSelector: {}, platform: null },
      }),
    ),
  };
}

export function schedulable(replica: Replica, node: NodeRow): SchedulableNode {
  const { fleet } = replica;
  return {
    id: node.id,
    link: fleet.nodeLink(node.id).link,
    schedulable: node.schedulable,
    draining: node.drain !== "none",
    quarantined: node.quarantinedAt !== null,
    diskFull: node.diskFull,
    engineStalled: false,
    os: "linux",
    architecture: "amd64",
    labels: {},
    zone: "",
    memoryMb: fleet.session(node.id)?.session.memoryMb ?? node.memoryMb,
    cpuMillicores: 100_000,
    pids: 100_000,
    diskMb: 0,
  };
}

/** Asks the node of an attempt to end it, or never to start it. */
export function* cancelRun(replica: Replica, nodeId: string, attemptId: string): Work {
  const { client, world, process } = replica;
  const key = keys.run(nodeId, attemptId);
  const entry = yield* client.get(key);
  if (entry === null) return;
  const run = world.values.of<RunValue>(entry.value);
  if (run.cancel || isRunOver(run.state)) return;
  const next: RunValue = { ...run, cancel: true, changedAt: process.now().toISOString() };
  yield* wait(
    client.txn({
      guards: [{ key, compare: "modRevision", value: entry.modRevision }],
      ops: [{ put: { key, value: world.values.textOf(next) } }],
      writer: { by: "worker", serverId: replica.id },
    }),
  );
}

export type { RouteEntry };
