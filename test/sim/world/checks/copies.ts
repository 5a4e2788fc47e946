import type { DatabaseTables } from "@svc/control/tenants/databases/testing/memory/tables";
import { copyVolume, databaseVolume } from "@svc/proto";
import type { AgentMachine } from "../../machines/agent.ts";
import type { Container } from "../../machines/docker.ts";
import { Check } from "./seen.ts";

/** The numbers of the checks of copies, by what they are about. */
const is = { kept: 55, way: 56, there: 57, left: 58 } as const;

export const copyInvariants: Readonly<Record<number, string>> = {
  [is.kept]:
    "the copy of a database goes neither before its time nor while a change, a server or a keeper may ask for it",
  [is.way]: "no copy gives way to one that does not follow",
  [is.there]: "a database that is ready has a copy that follows, wherever one can be kept",
  [is.left]: "a copy has one keeper at a time, and no server keeps its log for one that has none any more",
};

type Branches = DatabaseTables["branches"];
type Copy = NonNullable<ReturnType<Branches["copies"]["get"]>>;
type Branch = NonNullable<ReturnType<Branches["rows"]["get"]>>;

/** What whoever drops a database may still want of it, and everybody else for longer. */
const keptMs = 71 * 3_600_000;
/** A copy that follows was told of within so long, and may be told of late. */
const freshMs = 300_000;
/** A copy is begun, placed, let in and made whole within so long, where nothing stands against it. */
const beginsMs = 80_000;
/** A keeper that failed is left alone for a minute, and then looked for every five. */
const failedMs = 370_000;
/** By its machine's clock what a copy has may be told so much too early, or too late. */
const aheadMaxMs = 55_000;
const behindMaxMs = 3_500_000;

/** What is looked at of copies of databases, as nobody inside the world could. */
export class CopyChecks extends Check {
  private readonly known = new Map<string, Copy>();

  private get branches(): Branches {
    return this.world.postgres.tables.branches;
  }

  /** Called after every transaction. */
  onRows(): void {
    for (const copy of this.branches.copies.values()) {
      const before = this.known.get(copy.id);
      if (before === copy) continue;
      this.known.set(copy.id, copy);
      if (before !== undefined && before.state !== "ended" && copy.state === "ended") this.onEnded(copy);
    }
  }

  private onEnded(copy: Copy): void {
    const { id, database_id, purpose, bases, ended_at, purge_at } = copy;
    const forMs = Number(purge_at) - Number(ended_at);
    if (bases.length > 0 && forMs < keptMs) this.fail(is.kept, `${id} has something, and is kept for ${forMs} ms`);
    if (purpose !== "keeper" || bases.length === 0 || this.isOver(copy)) return;
    const next = this.branches.copiesOf(database_id).find((each) => each.purpose === "keeper");
    const lagMs = this.world.postgres.nowMs() - Number(next?.covered_at ?? 0);
    if (next?.state !== "following" || next.bases.length === 0 || lagMs > freshMs + 1_000)
      this.fail(is.way, `${id} gives way to ${next === undefined ? "nothing" : `${next.id}, which is ${next.state}`}`);
  }

  /** Whether it cannot go on: its branch has another volume or is to go, or its machine is gone. */
  private isOver({ database_id, generation, node_id }: Copy): boolean {
    const branch = this.branches.rows.get(database_id);
    const isThere = this.world.postgres.tables.nodes.get(node_id ?? "")?.lifecycle === "active";
    return branch === undefined || branch.status === "dropping" || branch.generation !== generation || !isThere;
  }

  onRemoved(copyId: string, machineId: string): void {
    const { tables, now } = this.world.postgres;
    this.world.kernel.note(() => `${machineId}: ${copyVolume(copyId)} is removed`);
    const copy = tables.branches.copies.get(copyId);
    const isUsed =
      [...tables.open.values()].some(
        ({ ownerId, server }) => ownerId === copyId || server?.restore?.copyId === copyId,
      ) ||
      [...tables.branches.changes.values()].some((change) => change.ended_at === null && change.copy_id === copyId);
    const isDue = copy?.purge_at != null && copy.purge_at < now();
    if (copy?.state !== "ended" || !isDue || isUsed)
      this.fail(
        is.kept,
        `${machineId}: ${copyVolume(copyId)} is removed, which is ${copy?.state ?? "known to nobody"}`,
      );
  }

  onKeeperStarts(container: Container, machineId: string): void {
    const { world } = this;
    if (world.isCloned(machineId)) return;
    for (const other of world.nodes) {
      if (world.isCloned(other.machineId)) continue;
      const isOther = (each: Container): boolean =>
        each !== container && each.state === "running" && each.keeper?.copyId === container.keeper?.copyId;
      const second = other.docker.only(isOther);
      const isLost = [second?.id, container.id].some((id) => id !== undefined && this.seen.lostPlacements.has(id));
      if (second !== undefined && !isLost)
        this.fail(is.left, `${machineId}: ${container.id} keeps a copy that ${second.id} keeps`);
    }
  }

  // ------------------------------------------------------------- at the end

  /** Minutes after the last fault: copies are as they should be. */
  checkSettled(): void {
    for (const branch of this.branches.rows.values()) {
      this.checkLog(branch);
      const why = this.lackOf(branch);
      if (why !== null) this.fail(is.there, `${branch.id} has no copy that follows: ${why}`);
    }
  }

  private machineOf(nodeId: string | null): AgentMachine | undefined {
    const { world } = this;
    return world.nodes.find(
      (each) => each.nodeId === nodeId && each.isConnected && each.docker.isUp && !world.isCloned(each.machineId),
    );
  }

  /** Whoever a server was told of as ended is not asked for again. */
  private checkLog({ id, engine, generation, node_id }: Branch): void {
    const volume = this.machineOf(node_id)?.docker.databases.volumes.get(databaseVolume(id, generation));
    for (const copyId of volume?.slots ?? []) {
      const copy = this.branches.copies.get(copyId);
      if (engine === "postgres" && copy?.released_at != null)
        this.fail(is.left, `the server of ${id} keeps its log for ${copyId}, which has ended`);
    }
  }

  /** Why it lacks one although it could have one; null: it has one, or a reason why not is known. */
  private lackOf(branch: Branch): string | null {
    const { world } = this;
    const { tables, nowMs } = world.postgres;
    const { id, status, status_at, project_id, node_id, read_only, keeper_at } = branch;
    if (status !== "ready" || tables.branches.suspended.has(project_id)) return null;
    // A server that nobody writes to lets in whom it let in before.
    if (read_only && keeper_at === null) return null;
    const sinceMs = (date: Date): number => Math.min(nowMs() - date.getTime(), world.kernel.nowMs - world.calmSinceMs);
    const changes = [...tables.branches.changes.values()].filter(({ database_id }) => database_id === id);
    if (sinceMs(status_at) < beginsMs) return null;
    if (changes.some(({ ended_at }) => ended_at === null || sinceMs(ended_at) < beginsMs)) return null;
    const server = tables.branches.serversOf(id).findLast(({ reapedAt }) => reapedAt === null);
    const isOn = server?.desired === "running" && sinceMs(server.createdAt) >= beginsMs;
    const home = this.machineOf(node_id);
    if (!isOn || home === undefined || !home.docker.isAnswering(`svc-p-${server.id}`)) return null;
    const copies = tables.branches.copiesOf(id);
    const keeper = copies.find(({ purpose }) => purpose === "keeper");
    if (keeper === undefined) {
      const free = world.nodes.find((machine) => this.takesOne(machine, copies));
      return free === undefined ? null : `there is none, and ${free.nodeId} could keep it`;
    }
    if (keeper.state === "following" && nowMs() - Number(keeper.covered_at ?? 0) < 150_000) return null;
    if (sinceMs(keeper.created_at) < beginsMs) return null;
    return this.isExcused(keeper) ? null : `${keeper.id} is ${keeper.state} since ${keeper.covered_at?.toISOString()}`;
  }

  /** Whether the machine has room for another one, with some to spare. */
  private takesOne(machine: AgentMachine, copies: readonly Copy[]): boolean {
    const { tables } = this.world.postgres;
    const { nodeId, memoryMb } = machine;
    const row = tables.nodes.get(nodeId);
    const isWell = row?.lifecycle === "active" && row.schedulable && row.drain === "none" && row.quarantinedAt === null;
    if (!isWell || row.diskFull || this.machineOf(nodeId) !== machine) return false;
    if (copies.some(({ node_id }) => node_id === nodeId)) return false;
    const there = [...tables.open.values()].filter((task) => task.nodeId === nodeId);
    const usedMb = there.reduce((sum, { reservedMemoryMb }) => sum + reservedMemoryMb, 0);
    const usedCpu = there.reduce((sum, { reservedCpuMillicores }) => sum + reservedCpuMillicores, 0);
    return usedMb + 300 < memoryMb && usedCpu + 600 < 8_000;
  }

  /** Whether what keeps a copy may well not do so now. */
  private isExcused({ id, node_id, told_at }: Copy): boolean {
    const { world } = this;
    const { tables, nowMs } = world.postgres;
    const row = tables.nodes.get(node_id ?? "");
    const machine = this.machineOf(node_id);
    if (machine === undefined || row?.lifecycle !== "active" || row.drain !== "none" || row.quarantinedAt !== null)
      return true;
    const aheadMs = machine.process.wallMs() - nowMs();
    if (aheadMs > aheadMaxMs || aheadMs < -behindMaxMs) return true;
    // It is believed again once its clock is where it was.
    if (told_at !== null && told_at.getTime() > machine.process.wallMs() - 5_000) return true;
    const keeper = tables.branches.keepersOf(id).at(-1);
    if (keeper === undefined) return false;
    const asked = world.kernel.nowMs - (world.checks.seen.placedAtMs.get(keeper.id) ?? 0);
    if (keeper.refused !== null || asked < 60_000) return true;
    const record = machine.disk.state.placements.get(keeper.id);
    const isBack = (record?.memory.retryAtMs ?? 0) > machine.process.wallMs() - 30_000;
    const runs = machine.docker.only((each) => each.id === keeper.id && each.state === "running");
    const hasFailed = runs === undefined && world.kernel.nowMs - world.calmSinceMs < failedMs;
    return isBack || hasFailed || (runs !== undefined && world.kernel.nowMs - runs.startedAtMs < 60_000);
  }
}
