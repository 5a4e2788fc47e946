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
import { nodeAt } from "../../machines/addresses.ts";
import type { Commit, Writer } from "../../stores/etcd.ts";
import { Check, lagMs } from "./seen.ts";

const rank = new Map<string, number>(observedStates.map((state, index) => [state, index]));
const order = { running: 0, stopped: 1, removed: 2 } as const;

/** What is written to etcd: by whom, and what it says. */
export class EtcdChecks extends Check {
  private readonly runNode = new Map<string, string>();
  private readonly sessionOwner = new Map<string, bigint>();
  private readonly taken = new Map<string, bigint>();
  private readonly notWellSinceMs = new Map<string, number>();
  private readonly healthyAtMs = new Map<string, number>();
  private lastLeader = 0n;

  /** The store was put back to what it was: numbers begin anew under another cluster epoch. */
  onRestore(): void {
    this.lastLeader = 0n;
    this.sessionOwner.clear();
    const {
      etcd,
      nodes,
      postgres,
      checks: { jobs },
    } = this.world;
    for (const [id, nodeId] of this.seen.placementNode) {
      if (etcd.get(keys.placement(nodeId, id)) === null && postgres.tables.tasks.get(id)?.nodeId === null)
        this.seen.lostPlacements.add(id);
    }
    // The word that it never started may be lost. Postgres has not heard of it, and never granted it: it is offered again.
    for (const id of this.seen.neverStarted)
      if (jobs.isOfJob(id) && !jobs.isConcluded(id)) this.seen.neverStarted.delete(id);
    for (const nodeId of new Set(nodes.map((machine) => machine.nodeId))) {
      const session = etcd.get(keys.nodeSession(nodeId));
      this.noteSession(nodeId, session === null ? null : this.world.values.of<NodeSessionValue>(session.value));
    }
  }

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
    if (value !== null) this.seen.absentSinceMs.delete(id);
    else if (!this.seen.absentSinceMs.has(id)) this.seen.absentSinceMs.set(id, this.nowMs);
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
    const other = this.seen.lostPlacements.has(id) ? undefined : this.seen.placementNode.get(id);
    if (other !== undefined && other !== nodeId) this.fail(10, `placement ${id} on ${other} and on ${nodeId}`);
    this.seen.placedAtMs.set(id, this.nowMs);
    if (isAgain) return;
    if (other !== undefined && this.seen.endedPlacements.has(id))
      this.fail(10, `placement ${id} comes back after its end`);
    this.seen.placementNode.set(id, nodeId);
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
    const { state, ownerId } = values.of<RunValue>(after.value);
    const was = before === null ? null : values.of<RunValue>(before.value).state;
    this.world.kernel.note(() => `etcd: ${id} ${was ?? "none"} -> ${state}`);
    if (was !== null && was !== state && isRunOver(was)) this.fail(3, `attempt ${id} goes on from ${was} to ${state}`);
    // An offer that came late, of what is over by what is written down: nobody grants it, and it is taken back.
    const deployment = this.world.postgres.tables.deployments.get(ownerId);
    if (this.world.checks.jobs.isConcluded(id) || (deployment !== undefined && deployment.status !== "deploying"))
      return;
    if (state === "not_started" || state === "refused") {
      this.seen.neverStarted.add(id);
      if ((this.seen.starts.get(id) ?? 0) > 0) this.fail(3, `attempt ${id} is ${state}, and it has started`);
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
    if (entry.proxy !== undefined && had.size === 0 && this.seen.stopped.has(entry.deploymentId ?? ""))
      this.fail(30, `${key} names containers of ${entry.deploymentId}, which is stopped`);
    for (const upstream of entry.proxy?.upstreams ?? []) {
      if (had.has(upstream)) continue;
      const healthyMs = this.healthyAtMs.get(`${entry.deploymentId ?? ""} ${upstream}`);
      if (healthyMs === undefined)
        this.fail(11, `${key} names ${upstream}, which never answered for ${entry.deploymentId}`);
      else if (this.nowMs - Math.max(healthyMs, this.heardSinceMs(writer)) > lagMs)
        this.fail(11, `${key} names ${upstream}, which is long down`);
      const nodeId = nodeAt(upstream);
      const goneMs = this.nowMs - (this.seen.goneSinceMs.get(nodeId) ?? this.nowMs);
      if (postgres.tables.nodes.get(nodeId)?.lifecycle !== "active" && goneMs > lagMs)
        this.fail(11, `${key} names ${upstream} of a lost node`);
    }
  }

  private onHeld({ key, after }: Commit): void {
    const holder = this.world.replicas.find((replica) => replica.countsOn(key));
    if (after === null && holder !== undefined) this.fail(17, `${key} is gone while ${holder.id} counts on it`);
  }
}
