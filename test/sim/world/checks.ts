import type { Chain, PlacementRecord, RunState } from "@svc/agent/journal/records";
import { startWithinMs } from "@svc/control/fleet/agents/node-session";
import {
  isRunOver,
  keys,
  type NodeSessionValue,
  type ObservationValue,
  observedStates,
  type PlacementValue,
  prefix,
  type RoutesMetaValue,
  type RunValue,
} from "@svc/control/fleet/cluster/keys";
import type { RouteEntry } from "@svc/control/fleet/cluster/route-entry";
import { isOpen } from "@svc/proto";
import { type Assign, Desired, Observed, type PlacementStatus, RunPhase, type RunStatus } from "@svc/proto/node";
import type { Table } from "@svc/router/table";
import { nodeAt } from "../machines/addresses.ts";
import type { AgentMachine } from "../machines/agent.ts";
import type { Container, ContainerWitness } from "../machines/docker.ts";
import type { Commit, Writer } from "../stores/etcd.ts";
import type { DeploymentRow, SiteRow } from "../stores/postgres.ts";
import { releaseAttemptId } from "../stores/postgres.ts";
import { jobInvariants } from "./checks-jobs.ts";
import type { World } from "./world.ts";

/** An invariant that did not hold. */
export class Violation extends Error {
  override readonly name = "Violation";
  readonly invariant: number;
  constructor(invariant: number, text: string) {
    super(`invariant ${invariant}: ${text}`);
    this.invariant = invariant;
  }
}

/** What every check is about, by its number. */
export const invariants: Readonly<Record<number, string>> = {
  1: "an attempt starts at most once in the whole world",
  2: "nothing starts later than its window after the acceptance",
  3: "another attempt only after evidence that the last one never started",
  4: "an attempt has one record, on one node",
  5: "a release command starts once per deployment, and before its route moves",
  6: "accepted epochs of leaders never decrease",
  7: "nothing is accepted from a superseded session, an older placement epoch or a fenced node",
  8: "observed, desired, sequence numbers, generations and what an agent has persisted never go back",
  9: "observations are written by the owner of the node's session only",
  10: "a placement never runs again after its end, and never on two nodes",
  11: "a route gets only upstreams of its own deployment that answered, never of a lost node",
  12: "no container stops without an order that somebody gave",
  13: "no mass stop without a bulk token",
  14: "a container stops only when no edge in rotation sends it visitors",
  15: "reservations never exceed the capacity of a node",
  16: "nothing new is placed on a node that is not to have it",
  17: "whoever holds a lease gives it up before it ends",
  18: "a bootstrap token admits one node",
  19: "nothing moves away while many nodes are lost at once",
  20: "every queue stays within its bound",
  21: "an agent does and says only what is on its disk",
  22: "every replica that is wanted serves and is routed, or there is a reason",
  23: "every edge has the newest table",
  24: "no container is left over",
  25: "every attempt on a node that is back is over",
  26: "drains end, and leave nothing behind",
  27: "agents and edges do not ask to begin again for ever",
  28: "a system at rest is quiet",
  29: "what is open in a replaced container stays so until its drain is up or is ended",
  30: "what a stop covers serves nothing before a start",
  31: "nothing drains for ever",
  32: "no program ends by a failure that nobody caught",
  33: "a node that is well is connected",
  34: "an edge begins with no older table than it has said that it serves",
  35: "what an edge says that it serves is what its Caddy serves",
  36: "whoever publishes by what it is told publishes what a look at everything would",
  ...jobInvariants,
};

/** What may be said of an attempt whose journal says so. */
const phaseOf: Readonly<Partial<Record<RunState, RunPhase>>> = {
  "start-sent": RunPhase.STARTED,
  exit: RunPhase.EXITED,
  tombstone: RunPhase.NOT_STARTED,
  indeterminate: RunPhase.INDETERMINATE,
};

/** How long a decision may rest on what was true before: a watch that stands still unnoticed, a late write, and some air. */
const lagMs = 45_000;
const rank = new Map<string, number>(observedStates.map((state, index) => [state, index]));
const order = { running: 0, stopped: 1, removed: 2 } as const;

/** Looks at everything that happens, as nobody inside the world could. */
export class Checks implements ContainerWitness {
  found: Violation | null = null;
  readonly starts = new Map<string, number>();
  readonly ranToEnd = new Set<string>();
  private readonly startsOfDeployment = new Map<string, number>();
  private readonly acceptedAtMs = new Map<string, number>();
  private readonly neverStarted = new Set<string>();
  private readonly runNode = new Map<string, string>();
  private readonly startedOn = new Map<string, string>();
  private readonly endedPlacements = new Set<string>();
  private readonly placementNode = new Map<string, string>();
  /**
   * Placed a moment before etcd was restored, and Postgres had not heard of it: nobody knows any more where they may run,
   * and they are placed anew.
   */
  readonly lostPlacements = new Set<string>();
  /** When a placement was made, in true time. */
  readonly placedAtMs = new Map<string, number>();
  /** When a machine last told its engine to stop a container. */
  readonly stopOrderedAtMs = new Map<string, number>();
  private readonly sessionOwner = new Map<string, bigint>();
  private readonly taken = new Map<string, bigint>();
  private readonly notWellSinceMs = new Map<string, number>();
  private readonly healthyAtMs = new Map<string, number>();
  readonly goneSinceMs = new Map<string, number>();
  private lastLeader = 0n;
  private readonly admitted = new Map<string, string>();
  resyncs = new Map<string, number>();
  lastAssignMs = 0;
  assignsSent = 0;

  private readonly world: World;

  constructor(world: World) {
    this.world = world;
  }

  fail(invariant: number, text: string): void {
    if (this.found === null) this.found = new Violation(invariant, text);
  }

  private get nowMs(): number {
    return this.world.kernel.nowMs;
  }

  /** The store was put back to what it was: numbers begin anew under another cluster epoch. */
  onRestore(): void {
    this.lastLeader = 0n;
    this.sessionOwner.clear();
    const { etcd, nodes, postgres } = this.world;
    for (const [id, nodeId] of this.placementNode) {
      if (etcd.get(keys.placement(nodeId, id)) === null && postgres.tables.tasks.get(id)?.nodeId === null)
        this.lostPlacements.add(id);
    }
    for (const nodeId of new Set(nodes.map((machine) => machine.nodeId))) {
      const session = etcd.get(keys.nodeSession(nodeId));
      this.noteSession(nodeId, session === null ? null : this.world.values.of<NodeSessionValue>(session.value));
    }
  }

  // --------------------------------------------------------------------- etcd

  onCommit = (commits: readonly Commit[], revision: bigint): void => {
    for (const commit of commits) {
      const { key, writer } = commit;
      if (writer?.by === "leader") {
        if (writer.epoch < this.lastLeader)
          this.fail(6, `a write of epoch ${writer.epoch} after one of ${this.lastLeader}`);
        this.lastLeader = writer.epoch;
      }
      if (key.startsWith(prefix.nodes)) this.onSession(commit, revision);
      else if (key.startsWith(prefix.placements)) this.onPlacement(commit, commits);
      else if (key.startsWith(prefix.observations)) this.onObservation(commit);
      else if (key.startsWith(prefix.runs)) this.onRun(commit);
      else if (key === keys.leader || key.startsWith(prefix.servers)) this.onHeld(commit);
      else if (key.startsWith("/svc/routes/")) this.onRoute(commit);
      else if (key.startsWith(prefix.edges) && key.endsWith("/session")) this.onSession(commit, revision);
      else if (key.startsWith(prefix.edges) && writer?.by === "session") this.ownsSession(writer, key);
    }
  };

  /** The newest session of a daemon that a replica has taken. */
  readonly sessionOf = (serverId: string, daemonId: string): bigint => this.taken.get(`${serverId} ${daemonId}`) ?? 0n;

  private ownsSession(writer: Writer, key: string): void {
    if (writer.by !== "session") return;
    const owner = this.sessionOwner.get(writer.daemonId);
    if (owner !== writer.epoch)
      this.fail(7, `${key} written under session ${writer.epoch}, while ${owner ?? "none"} is in force`);
  }

  private onSession({ key, after, writer }: Commit, revision: bigint): void {
    const id = key.split("/")[3] ?? "";
    if (writer?.by === "session") this.ownsSession(writer, key);
    if (after === null) this.sessionOwner.delete(id);
    else if (writer?.by === "server") {
      const before = this.sessionOwner.get(id) ?? 0n;
      if (revision <= before) this.fail(8, `session epoch of ${id} goes from ${before} to ${revision}`);
      this.sessionOwner.set(id, revision);
      this.taken.set(`${writer.serverId} ${id}`, revision);
    }
    this.noteSession(id, after === null ? null : this.world.values.of<NodeSessionValue>(after.value));
  }

  private noteSession(id: string, value: NodeSessionValue | null): void {
    if (value !== null) this.absentSinceMs.delete(id);
    else if (!this.absentSinceMs.has(id)) this.absentSinceMs.set(id, this.nowMs);
    const isWell = value?.reconciled === true && !value.suspect && !value.detached;
    if (isWell) this.notWellSinceMs.delete(id);
    else if (!this.notWellSinceMs.has(id)) this.notWellSinceMs.set(id, this.nowMs);
  }

  private onPlacement({ key, before, after, writer }: Commit, all: readonly Commit[]): void {
    const { values, postgres, etcd } = this.world;
    const [nodeId = "", id = ""] = key.slice(prefix.placements.length).split("/");
    // What an operator writes after a restore was decided before it.
    const isAgain = writer?.by === "operator";
    if (writer?.by !== "leader" && !isAgain) this.fail(6, `${key} written by ${writer?.by ?? "nobody"}`);
    const node = postgres.tables.nodes.get(nodeId);
    if (after === null) {
      if (isAgain) return;
      const said = all.find((each) => each.key === `${prefix.observations}${nodeId}/${id}`)?.before ?? null;
      const observed = said === null ? null : values.of<ObservationValue>(said.value).observed;
      if (observed !== "removed" && node?.lifecycle === "active") {
        this.fail(10, `placement ${id} was forgotten while ${nodeId} says ${observed ?? "nothing"}`);
      }
      return;
    }
    const value = values.of<PlacementValue>(after.value);
    if (before !== null) {
      const old = values.of<PlacementValue>(before.value);
      if (order[value.desired] < order[old.desired]) this.fail(8, `${id} goes from ${old.desired} to ${value.desired}`);
      return;
    }
    const other = this.lostPlacements.has(id) ? undefined : this.placementNode.get(id);
    if (other !== undefined && other !== nodeId) this.fail(10, `placement ${id} on ${other} and on ${nodeId}`);
    this.placedAtMs.set(id, this.nowMs);
    if (isAgain) return;
    if (other !== undefined && this.endedPlacements.has(id)) this.fail(10, `placement ${id} comes back after its end`);
    this.placementNode.set(id, nodeId);
    let memoryMb = 0;
    for (const entry of etcd.range(`${prefix.placements}${nodeId}/`)) {
      const each = values.of<PlacementValue>(entry.value);
      const said = etcd.get(`${prefix.observations}${nodeId}/${each.placementId}`);
      const observed = said === null ? "assigned" : values.of<ObservationValue>(said.value).observed;
      if ((rank.get(observed) ?? 0) < (rank.get("completed") ?? 0)) memoryMb += each.reservedMemoryMb ?? each.memoryMb;
    }
    if (memoryMb > (node?.memoryMb ?? 0))
      this.fail(15, `${nodeId} has ${node?.memoryMb} MB, and ${memoryMb} are set aside`);
    const shutMs = this.nowMs - (node?.unschedulableSinceMs ?? this.nowMs);
    if (shutMs > lagMs)
      this.fail(16, `${id} placed on ${nodeId}, which has taken nothing new for ${Math.round(shutMs)} ms`);
    const illMs = this.nowMs - Math.max(this.notWellSinceMs.get(nodeId) ?? this.nowMs, this.heardSinceMs(writer));
    if (illMs > lagMs) this.fail(16, `${id} placed on ${nodeId}, not well connected for ${Math.round(illMs)} ms`);
  }

  /** Since when the replica that writes may have heard anything from etcd: before that it could not know better. */
  private heardSinceMs(writer: Writer | null): number {
    const { etcd, replicas } = this.world;
    const replica = replicas.find(({ id }) => writer?.by === "leader" && id === writer.serverId);
    return Math.max(etcd.upSinceMs, replica?.path.cutUntilMs ?? 0, replica?.process.frozenUntilMs ?? 0);
  }

  private onObservation({ key, before, after, writer }: Commit): void {
    const { values, etcd } = this.world;
    const [nodeId = "", id = ""] = key.slice(prefix.observations.length).split("/");
    if (after === null) return;
    if (writer?.by !== "session" || writer.daemonId !== nodeId) {
      this.fail(9, `${key} written by ${writer?.by ?? "nobody"}`);
      return;
    }
    this.ownsSession(writer, key);
    const value = values.of<ObservationValue>(after.value);
    const placed = etcd.get(`${prefix.placements}${nodeId}/${id}`);
    if (placed === null) this.fail(7, `${key} says something of what is not placed`);
    else if (values.of<PlacementValue>(placed.value).epoch !== value.epoch)
      this.fail(7, `${key} of another placement epoch`);
    if (before !== null) {
      const old = values.of<ObservationValue>(before.value);
      if (value.statusSeq <= old.statusSeq) this.fail(8, `${key}: sequence ${old.statusSeq} to ${value.statusSeq}`);
      if ((rank.get(value.observed) ?? 0) < (rank.get(old.observed) ?? 0))
        this.fail(8, `${key}: ${old.observed} to ${value.observed}`);
    }
    if (value.observed === "running" && value.health === "healthy" && value.upstream !== null && placed !== null) {
      const { ownerId: deploymentId } = values.of<PlacementValue>(placed.value);
      this.healthyAtMs.set(`${deploymentId} ${value.upstream}`, Number.POSITIVE_INFINITY);
    } else if (before !== null && placed !== null) {
      const old = values.of<ObservationValue>(before.value);
      const { ownerId: deploymentId } = values.of<PlacementValue>(placed.value);
      const at = `${deploymentId} ${old.upstream ?? ""}`;
      if (this.healthyAtMs.get(at) === Number.POSITIVE_INFINITY) this.healthyAtMs.set(at, this.nowMs);
    }
  }

  private onRun({ key, before, after, writer }: Commit): void {
    const { values } = this.world;
    const [nodeId = "", id = ""] = key.slice(prefix.runs.length).split("/");
    if (after === null) return;
    if (writer?.by === "session") this.ownsSession(writer, key);
    const other = this.runNode.get(id);
    if (other !== undefined && other !== nodeId) this.fail(4, `attempt ${id} on ${other} and on ${nodeId}`);
    this.runNode.set(id, nodeId);
    const { state } = values.of<RunValue>(after.value);
    const was = before === null ? null : values.of<RunValue>(before.value).state;
    this.world.kernel.note(() => `etcd: ${id} ${was ?? "none"} -> ${state}`);
    if (was !== null && was !== state && isRunOver(was)) this.fail(3, `attempt ${id} goes on from ${was} to ${state}`);
    // An offer that came late, of an attempt of which the end is written down: nobody grants it, and it is taken back.
    if (this.world.jobs.isConcluded(id)) return;
    if (state === "not_started" || state === "refused") {
      this.neverStarted.add(id);
      if ((this.starts.get(id) ?? 0) > 0) this.fail(3, `attempt ${id} is ${state}, and it has started`);
    }
  }

  private onRoute({ key, before, after, writer }: Commit): void {
    const { values, postgres } = this.world;
    if (after === null) return;
    if (key === keys.routesMeta) {
      const from = before === null ? 0 : values.of<RoutesMetaValue>(before.value).generation;
      const { generation } = values.of<RoutesMetaValue>(after.value);
      if (generation <= from) this.fail(8, `route generation ${from} to ${generation}`);
      return;
    }
    const entry = values.of<RouteEntry>(after.value);
    const old = before === null ? null : values.of<RouteEntry>(before.value);
    this.world.kernel.note(
      () => `etcd: ${key} -> ${JSON.stringify(entry.proxy?.upstreams ?? entry.page)} of ${entry.deploymentId}`,
    );
    const had = new Set(old?.deploymentId === entry.deploymentId ? old?.proxy?.upstreams : []);
    if (entry.proxy !== undefined && had.size === 0 && this.stopped.has(entry.deploymentId ?? ""))
      this.fail(30, `${key} names containers of ${entry.deploymentId}, which is stopped`);
    for (const upstream of entry.proxy?.upstreams ?? []) {
      if (had.has(upstream)) continue;
      const healthyMs = this.healthyAtMs.get(`${entry.deploymentId ?? ""} ${upstream}`);
      if (healthyMs === undefined)
        this.fail(11, `${key} names ${upstream}, which never answered for ${entry.deploymentId}`);
      else if (this.nowMs - Math.max(healthyMs, this.heardSinceMs(writer)) > lagMs)
        this.fail(11, `${key} names ${upstream}, which is long down`);
      const nodeId = nodeAt(upstream);
      const goneMs = this.nowMs - (this.goneSinceMs.get(nodeId) ?? this.nowMs);
      if (postgres.tables.nodes.get(nodeId)?.lifecycle !== "active" && goneMs > lagMs)
        this.fail(11, `${key} names ${upstream} of a lost node`);
    }
  }

  private onHeld({ key, after }: Commit): void {
    const holder = this.world.replicas.find((replica) => replica.countsOn(key));
    if (after === null && holder !== undefined) this.fail(17, `${key} is gone while ${holder.id} counts on it`);
  }

  // ----------------------------------------------------------------- postgres

  private fence = 0n;

  onTransaction = (): void => {
    const { leaderFence } = this.world.postgres.tables;
    // After a restore numbers begin anew.
    if (leaderFence < this.fence && !this.world.isRestoring)
      this.fail(6, `epoch ${leaderFence} accepted by Postgres after ${this.fence}`);
    this.fence = leaderFence;
  };

  onReplace = (cause: string): void => {
    if (cause !== "node lost" && cause !== "node quarantined") return;
    const { tables } = this.world.postgres;
    const active = [...tables.nodes.values()].filter(
      ({ role, lifecycle, seenAt }) => role === "node" && lifecycle === "active" && seenAt !== null,
    );
    const lost = active.flatMap(({ id }) => {
      const absentMs = this.absentSinceMs.get(id);
      return absentMs === undefined || this.nowMs - absentMs < lagMs ? [] : [absentMs];
    });
    for (const first of lost) {
      const together = lost.filter((at) => at >= first && at - first <= 50_000).length;
      if (together >= 3 && together > active.length / 3) {
        this.fail(19, `a replica moves because of ${cause}, while ${together} of ${active.length} nodes are lost`);
      }
    }
  };

  /** Since when a node has had no session key, which is when its lease was over. */
  private readonly absentSinceMs = new Map<string, number>();

  private onActivate(row: DeploymentRow): void {
    if (this.stopped.has(row.id)) this.fail(30, `${row.id} takes the traffic, and is stopped`);
    if (!row.hasRelease) return;
    const attemptId = releaseAttemptId(row.id, row.releaseAttempt);
    if (row.releaseStatus !== "succeeded")
      this.fail(5, `the route of ${row.id} moves, and its release is ${row.releaseStatus}`);
    if (!this.ranToEnd.has(attemptId))
      this.fail(5, `the route of ${row.id} moves, and ${attemptId} did not run to its end`);
  }

  // -------------------------------------------------------------------- stops

  /** Deployments that a stop covers, and those of them that must not come to serve any more before a start. */
  private readonly toStop = new Set<string>();
  private readonly stopped = new Set<string>();

  /** A stop covers everything that was accepted before it. What serves may go on until the stop is carried out. */
  onStopAsked({ projectId, deploymentId }: SiteRow): void {
    for (const { id, status, ...row } of this.world.postgres.tables.deployments.values()) {
      if (row.projectId !== projectId || (status !== "running" && !isOpen(status))) continue;
      this.toStop.add(id);
      if (status !== "running" && id !== deploymentId) this.stopped.add(id);
    }
  }

  /** What is known of deployments, and of what sites lead to. */
  private readonly known = new Map<string, Pick<DeploymentRow, "status" | "releaseAttempt">>();
  private readonly activated = new Map<string, string | null>();

  /** Called after every transaction. */
  onRows = (): void => {
    const { deployments, sites } = this.world.postgres.tables;
    for (const row of deployments.values()) {
      const { id, status, releaseAttempt } = row;
      const before = this.known.get(id);
      if (before?.status === status && before.releaseAttempt === releaseAttempt) continue;
      this.known.set(id, { status, releaseAttempt });
      if (before?.status !== status && status === "stopped") this.stopped.add(id);
      if (before !== undefined && before.releaseAttempt !== releaseAttempt)
        this.onAttempt(
          id,
          releaseAttemptId(id, releaseAttempt),
          releaseAttempt === 1 ? null : releaseAttemptId(id, releaseAttempt - 1),
        );
    }
    for (const { host, deploymentId, stopped } of sites.values()) {
      if (this.activated.get(host) === deploymentId) continue;
      this.activated.set(host, deploymentId);
      const row = deployments.get(deploymentId ?? "");
      if (row?.status === "deploying" && !stopped) this.onActivate(row);
    }
  };

  onStartAsked(projectId: string): void {
    for (const { id, ...row } of this.world.postgres.tables.deployments.values()) {
      if (row.projectId !== projectId) continue;
      this.toStop.delete(id);
      this.stopped.delete(id);
    }
  }

  isToStop(deploymentId: string): boolean {
    return this.toStop.has(deploymentId);
  }

  onAttempt(deploymentId: string, attemptId: string, previous: string | null): void {
    if (previous === null) return;
    const isSure = this.neverStarted.has(previous) && (this.starts.get(previous) ?? 0) === 0;
    if (!isSure) this.fail(3, `${deploymentId}: ${attemptId} begins, and nobody knows that ${previous} never started`);
  }

  onAdmitted(tokenId: string, nodeId: string): void {
    const other = this.admitted.get(tokenId);
    if (other !== undefined && other !== nodeId) this.fail(18, `token ${tokenId} admitted ${other} and ${nodeId}`);
    this.admitted.set(tokenId, nodeId);
  }

  // -------------------------------------------------------------------- agent

  onAssignSent(): void {
    this.assignsSent += 1;
    this.lastAssignMs = this.nowMs;
  }

  /** Called when an agent is about to journal an assignment that it has accepted. */
  onAssign(nodeId: string, chain: Chain, placements: ReadonlyMap<string, PlacementRecord>, assign: Assign): void {
    if (assign.clusterEpoch === chain.clusterEpoch) {
      const isBack = chain.resultsIn !== "" && BigInt(assign.resultsIn) < BigInt(chain.resultsIn);
      if (isBack) this.fail(8, `${nodeId} goes back from revision ${chain.resultsIn} to ${assign.resultsIn}`);
      if (assign.leaderEpoch < chain.leaderEpoch) this.fail(8, `${nodeId} takes orders of an older leader`);
    } else if (assign.clusterEpoch < chain.clusterEpoch) this.fail(8, `${nodeId} goes back to an older cluster epoch`);
    const running = [...placements].filter(
      ([, { status, placement }]) => status.observed === Observed.RUNNING && placement.desired < Desired.STOPPED,
    );
    const stopped = new Set([
      ...assign.upserts.filter(({ desired }) => desired >= Desired.STOPPED).map(({ placementId }) => placementId),
      ...assign.removes.map(({ placementId }) => placementId),
    ]);
    const stops = running.filter(([id]) => stopped.has(id)).length;
    if (stops > Math.max(3, running.length * 0.3) && assign.bulkToken === "")
      this.fail(13, `${nodeId} stops ${stops} of ${running.length} without a token`);
  }

  onResync(nodeId: string, why: string): void {
    this.resyncs.set(nodeId, (this.resyncs.get(nodeId) ?? 0) + 1);
    this.world.kernel.note(() => `${nodeId} asks to begin again: ${why}`);
  }

  onRunAccept(machineId: string, attemptId: string): void {
    this.acceptedAtMs.set(`${machineId} ${attemptId}`, this.nowMs);
  }

  onTold({ machineId, disk }: AgentMachine, { placementId, statusSeq }: PlacementStatus): void {
    const known = disk.durable.placements.get(placementId)?.status.statusSeq ?? statusSeq;
    if (known < statusSeq) this.fail(21, `${machineId} tells of ${placementId} what its journal does not know yet`);
  }

  onRunTold({ machineId, disk }: AgentMachine, status: RunStatus): void {
    const { attemptId, phase } = status;
    const record = disk.durable.runs.get(attemptId);
    if (record === undefined || phaseOf[record.state] !== phase)
      this.fail(
        21,
        `${machineId} says that ${attemptId} is in phase ${phase}, and its journal that it is ${record?.state}`,
      );
  }

  onUncaught(processId: string, error: unknown): void {
    this.fail(32, `${processId}: ${error instanceof Error ? error.stack : error}`);
  }

  // ------------------------------------------------------------------- engine

  onOrder(kind: "create" | "start" | "stop" | "remove" | "kill", name: string, machineId: string): void {
    const machine = this.world.machineOf(machineId);
    if (machine === undefined) return;
    this.world.kernel.note(() => `${machineId}: docker ${kind} ${name}`);
    const isRun = name.startsWith("svc-r-");
    const id = name.slice("svc-p-".length);
    const { durable } = machine.disk;
    if (kind === "create" || kind === "start") {
      if (isRun) {
        const state = durable.runs.get(id)?.state;
        const isKnown = kind === "create" ? state === "intent" : state === "start-sent";
        if (!isKnown) this.fail(21, `${machineId}: ${kind} of ${id}, and its journal says ${state ?? "nothing"}`);
        const acceptedMs = this.acceptedAtMs.get(`${machineId} ${id}`) ?? 0;
        const lateMs = this.nowMs - acceptedMs - startWithinMs * 1.02;
        if (kind === "start" && lateMs > 50)
          this.fail(2, `${machineId}: start of ${id} is ${Math.round(lateMs)} ms late`);
      } else if (!durable.placements.has(id)) {
        this.fail(21, `${machineId}: ${kind} of ${id}, which its journal does not know`);
      } else if (kind === "start" && this.endedPlacements.has(id) && !this.mayBeTwice(id, machineId)) {
        // An order of before that a slow engine carries out late is taken back, and nobody can do more.
        this.fail(10, `placement ${id} is started again after its end`);
      }
      return;
    }
    if (isRun) return;
    this.stopOrderedAtMs.set(`${machineId} ${id}`, this.nowMs);
    const container = machine.docker.containers.get(name);
    if (container?.state !== "running") return;
    const task = this.world.postgres.tables.tasks.get(id);
    const node = this.world.postgres.tables.nodes.get(machine.nodeId);
    const isFenced = node?.lifecycle !== "active" || (node?.incarnation ?? 0) > machine.incarnation;
    const observed = machine.disk.state.placements.get(id)?.status.observed ?? Observed.UNSPECIFIED;
    const isOver = observed >= Observed.COMPLETED;
    const isElsewhere = this.lostPlacements.has(id) && task?.nodeId !== machine.nodeId;
    if (task?.desired === "running" && task.reapedAt === null && !isFenced && !isOver && !isElsewhere) {
      this.fail(12, `${machineId}: ${kind} of ${id}, which is to run`);
    }
    // Of a node that there is twice, nobody knows which one an address belongs to, until it is quarantined.
    if (isFenced || isOver || this.world.isCloned(machineId)) return;
    if (task !== undefined && machine.docker.isOpen(name) && !isElsewhere) {
      const drainedMs = this.nowMs - (this.world.postgres.tables.removedAtMs.get(id) ?? this.nowMs);
      // A clock that was set forward ends it early, and nobody can tell.
      const isEarly = drainedMs < task.drainSeconds * 1_000 * 0.98 && !this.clockWasSet(machineId, id);
      if (isEarly)
        this.fail(
          29,
          `${machineId}: ${kind} of ${id} with open connections, ${Math.round(drainedMs)} ms after its removal was asked for, and it has ${task.drainSeconds} s`,
        );
    }
    const upstream = `${machine.address}:${container.port}`;
    for (const edge of this.world.edges) {
      const row = this.world.postgres.tables.nodes.get(edge.id);
      if (row?.lifecycle !== "active" || !row.schedulable || row.seenAt === null) continue;
      const host = edge.caddy.hostOf(upstream);
      if (host !== null) this.fail(14, `${machineId}: ${kind} of ${id}, to which ${edge.id} sends visitors of ${host}`);
    }
  }

  private readonly clockSetAtMs = new Map<string, number>();

  onClockSet(machineId: string): void {
    this.clockSetAtMs.set(machineId, this.nowMs);
  }

  private clockWasSet(machineId: string, taskId: string): boolean {
    const removedAtMs = this.world.postgres.tables.removedAtMs.get(taskId);
    return (this.clockSetAtMs.get(machineId) ?? Number.NEGATIVE_INFINITY) >= (removedAtMs ?? 0);
  }

  private mayBeTwice(placementId: string, machineId: string): boolean {
    return this.world.isCloned(machineId) || this.lostPlacements.has(placementId);
  }

  onStart(container: Container, machineId: string): void {
    const { id, kind } = container;
    this.world.kernel.note(() => `${machineId}: ${kind} ${id} starts on port ${container.port}`);
    if (kind === "run") {
      const count = (this.starts.get(id) ?? 0) + 1;
      this.starts.set(id, count);
      if (this.world.jobs.isOfJob(id)) this.world.jobs.onStart(id);
      if (count > 1) this.fail(1, `attempt ${id} started ${count} times`);
      if (this.neverStarted.has(id)) this.fail(3, `attempt ${id} starts after it was said that it never would`);
      const deploymentId = id.split(".")[0] ?? "";
      const total = (this.startsOfDeployment.get(deploymentId) ?? 0) + 1;
      this.startsOfDeployment.set(deploymentId, total);
      if (total > 1) this.fail(5, `the release command of ${deploymentId} started ${total} times`);
      return;
    }
    const other = this.startedOn.get(id);
    if (other !== undefined && other !== machineId && !this.mayBeTwice(id, machineId))
      this.fail(10, `placement ${id} runs on ${other} and on ${machineId}`);
    this.startedOn.set(id, machineId);
  }

  onStop(container: Container, machineId: string, why: "ordered" | "exited" | "engine"): void {
    this.world.kernel.note(() => `${machineId}: ${container.id} stops: ${why}`);
    if (container.kind === "run" && why === "exited") this.ranToEnd.add(container.id);
  }

  /** Called after an agent has journaled the end of a placement. */
  onEnded(placementId: string): void {
    this.endedPlacements.add(placementId);
  }

  onTableBack(edgeId: string, before: Table, after: Table): void {
    this.fail(8, `${edgeId} goes back from table ${before.generation} to ${after.generation}`);
  }

  onTableLost(edgeId: string, found: Table, reported: Table): void {
    this.fail(
      34,
      `${edgeId} begins with table ${found.generation}, and has said that it serves ${reported.generation}`,
    );
  }

  onOtherServed(edgeId: string, what: string, is: string | null, wanted: string | null): void {
    this.fail(35, `${edgeId} sends visitors of ${what}, to ${is}, and says that it is ${wanted}`);
  }

  onServed(edgeId: string, generation: bigint): void {
    this.world.kernel.note(() => `${edgeId} serves table ${generation}`);
  }
}
