import { labels } from "@svc/agent/engine/engine";
import { openTenantPassword } from "@svc/control/fleet/databases/secrets";
import { verifierOf } from "@svc/control/fleet/databases/verifier";
import { pauseMs } from "@svc/control/tenants/databases/steps";
import { volumeKey } from "@svc/control/tenants/databases/testing/memory/tables";
import { databaseVolume } from "@svc/proto";
import type { DatabaseProxyTable } from "@svc/proto/database-proxy";
import { type Assign, Observed } from "@svc/proto/node";
import { virtualSecrets } from "../../control/database-admin.ts";
import type { AgentMachine } from "../../machines/agent.ts";
import type { Container } from "../../machines/docker.ts";
import type { Role, ServerWitness, Volume } from "../../machines/servers.ts";
import type { Tables } from "../../stores/postgres.ts";
import { Check } from "./seen.ts";

/** The numbers of the checks of databases, by what they are about. */
const is = { admitted: 42, second: 43, kept: 44, madeAgain: 45, granted: 46, password: 47, end: 48 } as const;

export const databaseInvariants: Readonly<Record<number, string>> = {
  [is.admitted]: "gates let connections in to one instance of a database at most, and never to an older one again",
  [is.second]: "no server begins over data that another one has",
  [is.kept]: "the volume of a database goes neither before its time nor while a server may ask for it",
  [is.madeAgain]: "data is never made anew for a database that somebody was let in to",
  [is.granted]: "no server begins after a reboot of its machine before control has named it again",
  [is.password]: "the password that is kept of a database is one that its server takes, or will again",
  [is.end]: "every database is ready, absent, or says why it is neither",
};

type Branch = NonNullable<ReturnType<Tables["branches"]["rows"]["get"]>>;

/** What is looked at of databases, as nobody inside the world could. */
export class DatabaseChecks extends Check implements ServerWitness {
  /** Databases that somebody was let in to once. */
  private readonly letIn = new Set<string>();
  /** In which boot of a machine control last named a placement there. */
  private readonly namedIn = new Map<string, number>();
  /** The highest epoch that was in force at a gate, by machine and database. */
  private readonly gated = new Map<string, bigint>();
  /** Volumes that went with the rest of an engine's data. */
  readonly lost = new Set<string>();

  /** Called after every transaction. */
  onRows(): void {
    for (const { id, status } of this.world.postgres.tables.branches.rows.values())
      if (status === "ready") this.letIn.add(id);
  }

  /** Called when an agent has accepted an assignment. */
  onNamed(nodeId: string, { upserts }: Assign): void {
    if (upserts.length === 0) return;
    for (const machine of this.world.nodes) {
      if (machine.nodeId !== nodeId) continue;
      for (const { placementId } of upserts) this.namedIn.set(`${machine.machineId} ${placementId}`, machine.bootId);
    }
  }

  onServerBegins(container: Container, machineId: string): void {
    const { id, server } = container;
    const { world } = this;
    const machine = world.machineOf(machineId);
    if (server === undefined || machine === undefined || world.isCloned(machineId)) return;
    world.kernel.note(() => `${machineId}: a server of ${server.databaseId} begins over ${server.volume}`);
    const namedIn = this.namedIn.get(`${machineId} ${id}`);
    if (namedIn !== machine.bootId)
      this.fail(is.granted, `${machineId}: ${id} begins in boot ${machine.bootId}, and was named in ${namedIn}`);
    for (const other of world.nodes) {
      if (world.isCloned(other.machineId)) continue;
      for (const each of other.docker.containers.values()) {
        if (each === container || each.state !== "running" || each.server?.volume !== server.volume) continue;
        const isLost = this.seen.lostPlacements.has(each.id) || this.seen.lostPlacements.has(id);
        if (!isLost) this.fail(is.second, `${machineId}: ${id} begins over ${server.volume}, which ${each.id} has`);
      }
    }
  }

  onDataMade({ databaseId, name }: Volume, machineId: string): void {
    this.world.kernel.note(() => `${machineId}: data is made in ${name}`);
    if (this.letIn.has(databaseId) && !this.world.isCloned(machineId))
      this.fail(is.madeAgain, `${machineId}: data of ${databaseId} is made again`);
  }

  onRestored(volume: Volume, machineId: string): void {
    this.world.checks.changes.onRestored(volume, machineId);
  }

  onCopyRemoved(copyId: string, machineId: string): void {
    this.world.checks.copies.onRemoved(copyId, machineId);
  }

  onServes = ({ server }: Container): void => {
    if (server !== undefined) this.checkAdmitted(server.databaseId);
  };

  onDumped = (text: string): void => this.world.checks.backups.onDumped(text);

  onVolumesLost(names: Iterable<string>, machineId: string): void {
    for (const name of names) this.lost.add(`${machineId} ${name}`);
  }

  onVolumeRemoved({ databaseId, generation, name }: Volume, machineId: string): void {
    const { tables, now } = this.world.postgres;
    this.world.kernel.note(() => `${machineId}: ${name} is removed`);
    this.world.checks.changes.onRemoved(databaseId, `${machineId}: ${name}`);
    const known = tables.branches.volumes.get(volumeKey(databaseId, generation));
    const isDue = known?.purgeAt != null && known.purgeAt < now();
    const isUsed = [...tables.open.values()].some(
      ({ ownerId, server }) => ownerId === databaseId && server?.generation === generation,
    );
    if (known === undefined || known.state === "current" || !isDue || isUsed)
      this.fail(is.kept, `${machineId}: ${name} is removed, which is ${known?.state ?? "known to nobody"}`);
  }

  /** Another table is in force at the gate of a machine. */
  onTable(machine: AgentMachine, _before: DatabaseProxyTable | null, { entries }: DatabaseProxyTable): void {
    for (const { databaseId, epoch } of entries) {
      const key = `${machine.machineId} ${databaseId}`;
      const newest = this.gated.get(key) ?? 0n;
      if (BigInt(epoch) < newest)
        this.fail(is.admitted, `${machine.machineId} lets in to instance ${epoch} of ${databaseId} after ${newest}`);
      this.gated.set(key, BigInt(epoch));
      this.checkAdmitted(databaseId);
    }
  }

  private checkAdmitted(databaseId: string): void {
    const { world } = this;
    const admitted = world.nodes.flatMap((machine) => {
      const { machineId, docker, gate } = machine;
      const entry = gate.entryOf(databaseId);
      if (world.isCloned(machineId) || entry?.at == null || !("socket" in entry.at) || entry.state === "closed")
        return [];
      const { socket } = entry.at;
      const server = docker.only(({ server: own, name }) => own?.socketPath === socket && docker.isAnswering(name));
      return server === undefined || this.seen.lostPlacements.has(server.id) ? [] : [{ machineId, server }];
    });
    if (admitted.length > 1)
      this.fail(
        is.admitted,
        `instances of ${databaseId} that are reached: ${admitted.map(({ machineId, server }) => `${server.labels[labels.epoch]} on ${machineId}`).join(", ")}`,
      );
  }

  // ------------------------------------------------------------- at the end

  /** Two minutes after the last fault: databases are as they should be. */
  checkSettled(): void {
    for (const row of this.world.postgres.tables.branches.rows.values()) this.checkBranch(row);
  }

  private checkBranch(row: Branch): void {
    const { world } = this;
    const { tables, nowMs } = world.postgres;
    const { id, status, status_at, node_id: nodeId } = row;
    // By the database's clock, from the end of all faults on at the earliest.
    const sinceMs = Math.min(nowMs() - status_at.getTime(), world.kernel.nowMs - world.calmSinceMs);
    if (status === "dropping" && sinceMs > 100_000) this.fail(is.end, `${id} is being dropped for ${sinceMs} ms`);
    if (status === "dropping" || status === "error" || tables.branches.suspended.has(row.project_id)) return;
    // Of one that a change has in its hands, that is asked: see `changes.ts`.
    if (tables.branches.isHeld(id)) return;
    const server = tables.branches.serversOf(id).findLast(({ reapedAt }) => reapedAt === null);
    const isGone = nodeId !== null && tables.nodes.get(nodeId)?.lifecycle !== "active";
    if (isGone) {
      if (sinceMs > 60_000) this.fail(is.end, `${id} is ${status}, and ${nodeId} is lost`);
      return;
    }
    const machine = world.nodes.find((each) => each.nodeId === (nodeId ?? server?.nodeId) && each.isConnected);
    if (machine === undefined || world.isCloned(machine.machineId)) return;
    const volume = databaseVolume(id, row.generation);
    if (this.lost.has(`${machine.machineId} ${volume}`) && this.letIn.has(id)) {
      // Nobody but its owner or an operator can do anything, and has to be told.
      const isKnown = machine.disk.state.placements.get(server?.id ?? "")?.status.observed === Observed.FAILED;
      if (status === "ready" && isKnown && world.kernel.nowMs - world.calmSinceMs > 90_000)
        this.fail(is.end, `${id} is ready, and its data is gone`);
      return;
    }
    const reason = this.reasonOf(row, machine, server);
    if (reason !== null) return;
    const isServing =
      server?.desired === "running" && world.nodes.some(({ docker }) => docker.isAnswering(`svc-p-${server.id}`));
    if (!isServing) this.fail(is.end, `${id} is ${status}, and its server ${server?.id} does not answer`);
    else if (status !== "ready" && sinceMs > 60_000) this.fail(is.end, `${id} is ${status}, and its server answers`);
    else if (status === "ready") this.checkPassword(row, machine.docker.databases.volumes.get(volume));
  }

  /** Why a server may well not serve; null: no reason is known. */
  private reasonOf(
    { server_failures: failures }: Branch,
    machine: AgentMachine,
    server: ReturnType<Tables["tasks"]["get"]>,
  ): string | null {
    const { postgres, kernel, checks } = this.world;
    if (server === undefined) return null;
    if (server.nodeId === null) return server.refused === null ? null : "no room";
    if (server.desired !== "running") return "it is to be followed by another";
    if (postgres.nowMs() - server.createdAt.getTime() < pauseMs(failures) + 30_000)
      return "it was asked for a moment ago";
    if (kernel.nowMs - (checks.seen.placedAtMs.get(server.id) ?? 0) < 60_000) return "it was placed a moment ago";
    const record = machine.disk.state.placements.get(server.id);
    if (record !== undefined && record.memory.retryAtMs > machine.process.wallMs()) return "it waits after a failure";
    return null;
  }

  private checkPassword(row: Branch, volume: Volume | undefined): void {
    const { id, engine, pending_secret, tenant_at, read_only } = row;
    const role = volume?.role ?? null;
    if (role === null) {
      this.fail(is.password, `${id} is ready, and its server knows nobody`);
      return;
    }
    // A full one may be on its way to a server that takes it.
    if ((pending_secret !== null || tenant_at === null) && !read_only)
      this.fail(is.password, `${id} is ready, and its password was not brought to its server`);
    const isTaken = !role.isLocked && role.verifier === verifierOf(engine, id, openTenantPassword(virtualSecrets, row));
    if (!isTaken && !this.isOrphaned(role) && pending_secret === null && tenant_at !== null)
      this.fail(is.password, `${id}: its server does not take the password that is kept`);
  }

  /** Whoever changed it has ended before it could look again: only comparing what the server has finds that. */
  isOrphaned({ by, atMs }: Role): boolean {
    const { endedAtMs } = this.world.replicas.find(({ process }) => process === by) ?? { endedAtMs: 0 };
    return endedAtMs >= atMs && endedAtMs - atMs < 30_000;
  }
}
