import type { Tx } from "@svc/control/tenants/databases/testing/memory/tables";
import { copyVolume, databaseVolume } from "@svc/proto";
import type { AgentMachine } from "../../machines/agent.ts";
import type { Container } from "../../machines/docker.ts";
import type { Volume, Write } from "../../machines/servers.ts";
import { Check } from "./seen.ts";

/** The numbers of the checks of changes, by what they are about. */
const is = { lost: 49, astray: 50, end: 51 } as const;

export const changeInvariants: Readonly<Record<number, string>> = {
  [is.lost]:
    "what a database has acknowledged is in the volume that comes after, but for what a restore said that it lacks",
  [is.astray]: "nothing is acknowledged in a volume that is not the database's own any more",
  [is.end]: "every change of a database comes to its end, and the volume that it may go back to is there until then",
};

type Change = NonNullable<ReturnType<Tx["tables"]["branches"]["changes"]["get"]>>;

/** What is looked at of moves, restores and upgrades, as nobody inside the world could. */
export class ChangeChecks extends Check {
  /** The newest that was acknowledged by each database and is to last. */
  private readonly acknowledged = new Map<string, Write>();

  private get branches() {
    return this.world.postgres.tables.branches;
  }

  /** An app was told that it is written. */
  onWrite(
    { databaseId, generation, last, name }: Volume,
    { id }: Container,
    { nodeId, machineId }: AgentMachine,
  ): void {
    const { world } = this;
    const row = this.branches.rows.get(databaseId);
    const isLost = world.postgres.tables.nodes.get(nodeId)?.lifecycle !== "active" || this.seen.lostPlacements.has(id);
    if (row === undefined || last === null || isLost || world.isCloned(machineId)) return;
    if (row.generation !== generation)
      this.fail(is.astray, `${machineId}: a write is acknowledged in ${name}, and the database has ${row.generation}`);
    this.acknowledged.set(databaseId, last);
  }

  /** A volume was filled from a copy. */
  onRestored({ databaseId, last, name }: Volume, machineId: string): void {
    const { world } = this;
    world.kernel.note(() => `${machineId}: ${name} is filled, up to ${last?.number ?? 0}`);
    const change = this.branches.openChange(databaseId);
    if (change === null || world.isCloned(machineId)) return;
    let least = this.acknowledged.get(databaseId) ?? null;
    const coveredMs = change.covered_at?.getTime() ?? Number.NEGATIVE_INFINITY;
    while (change.kind === "restore" && least !== null && least.atMs > coveredMs) least = least.before;
    if (least !== null && !has(last, least))
      this.fail(
        is.lost,
        `${machineId}: a ${change.kind} of ${databaseId} has ${last?.number ?? 0}, and lacks ${least.number}`,
      );
    if (last === null) this.acknowledged.delete(databaseId);
    else this.acknowledged.set(databaseId, last);
  }

  /** A volume of a database is removed. */
  onRemoved(databaseId: string, what: string): void {
    if (this.branches.openChange(databaseId) !== null)
      this.fail(is.end, `${what} is removed while a change is under way`);
  }

  /** Two minutes after the last fault. */
  checkSettled(): void {
    for (const change of this.branches.changes.values()) {
      const { kernel, postgres, calmSinceMs } = this.world;
      const sinceMs = Math.min(postgres.nowMs() - change.state_at.getTime(), kernel.nowMs - calmSinceMs);
      const isLate = change.ended_at === null && sinceMs > 100_000 && !this.mayWait(change);
      if (isLate) this.fail(is.end, `a ${change.kind} of ${change.database_id} is ${change.state} for ${sinceMs} ms`);
    }
  }

  /** At the end: what was asked to end has, and nobody is kept out any more. */
  checkRest(): void {
    for (const { ended_at, state, kind, database_id } of this.branches.changes.values())
      if (ended_at === null)
        this.fail(is.end, `a ${kind} of ${database_id} is ${state} although its end was asked for`);
    for (const { id, status, node_id, generation, tenant_at, pending_secret } of this.branches.rows.values()) {
      if (status !== "ready" || tenant_at === null || pending_secret !== null || this.branches.isHeld(id)) continue;
      const machine = this.world.nodes.find(({ nodeId, isConnected }) => nodeId === node_id && isConnected);
      const role = machine?.docker.databases.volumes.get(databaseVolume(id, generation))?.role;
      if (role?.isLocked === true && !this.world.checks.databases.isOrphaned(role))
        this.fail(is.end, `${id} is ready, and its tenant is kept out still`);
    }
  }

  /** Whether what it waits for may be long in coming. */
  private mayWait({ state, database_id, copy_id, to_node, freezes }: Change): boolean {
    const { world } = this;
    const { nodes, branches } = world.postgres.tables;
    const copy = branches.copies.get(copy_id ?? "");
    const branch = branches.rows.get(database_id);
    if (state === "freezing" || state === "draining") return false;
    // For minutes at most, and a day where nobody makes the copy.
    if (state === "copying" && (freezes > 0 || copy?.state !== "following" || branch?.status !== "ready")) return true;
    const ids = [
      branch?.node_id,
      copy?.node_id,
      to_node,
      ...branches.serversOf(database_id).map(({ nodeId }) => nodeId),
    ];
    const isAway = (id: string): boolean =>
      nodes.get(id)?.lifecycle !== "active" ||
      !world.nodes.some(
        ({ nodeId, isConnected, machineId }) => nodeId === id && isConnected && !world.isCloned(machineId),
      );
    if (ids.some((id) => id != null && isAway(id))) return true;
    const server = branches.serversOf(database_id).findLast(({ reapedAt }) => reapedAt === null);
    if (server?.refused != null || state === "copying") return true;
    return state === "restoring" && world.checks.databases.lost.has(`${to_node} ${copyVolume(copy_id ?? "")}`);
  }
}

/** Whether one is the other, or comes after it. */
function has(last: Write | null, least: Write): boolean {
  for (let each = last; each !== null && each.number >= least.number; each = each.before)
    if (each === least) return true;
  return false;
}
