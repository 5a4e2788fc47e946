import type { Change } from "@svc/control/stores/db/tables";
import { isUnderWay } from "@svc/control/tenants/databases/backups/rules";
import type { Tables } from "../../stores/postgres.ts";
import { Check } from "./seen.ts";

/** The numbers of the checks of backups, by what they are about. */
const is = { whole: 52, slot: 53, end: 54 } as const;

export const backupInvariants: Readonly<Record<number, string>> = {
  [is.whole]: "the file of a complete backup is there under its digest, and is all of its database",
  [is.slot]:
    "a project has one backup under way at a time and one a night by itself, and keeps no more than its plan allows",
  [is.end]: "every backup ends, once, and leaves nothing behind",
};

type Backup = NonNullable<ReturnType<Tables["backups"]["rows"]["get"]>>;

/** How long one may take that nothing keeps from its end: a dump, three tries at the registry, and work that looks again. */
const endsWithinMs = 100_000;

/** Looks at backups of databases, at their rows after every transaction, and at what is stored of them. */
export class BackupChecks extends Check {
  /** What dumpers wrote that came to their end. */
  private readonly whole = new Set<string>();
  private readonly known = new Map<string, Backup>();
  /** Nights that had their backup, by project. */
  private readonly nights = new Set<string>();

  private get tables(): Tables {
    return this.world.postgres.tables;
  }

  /** Called when a dumper has written everything and has ended well. */
  onDumped(text: string): void {
    this.whole.add(text);
  }

  /** Called after every transaction. */
  onRows(): void {
    const { rows } = this.tables.backups;
    for (const row of rows.values()) {
      const before = this.known.get(row.id);
      if (before === row) continue;
      this.known.set(row.id, row);
      this.onChange(row, before);
    }
  }

  private onChange(row: Backup, before: Backup | undefined): void {
    const { id, status, project_id: projectId } = row;
    this.world.kernel.note(() => `backup ${id} is ${status}${row.error === null ? "" : `: ${row.error}`}`);
    if (before !== undefined && !isUnderWay(before.status))
      this.fail(is.end, `${id} was ${before.status}, and changes`);
    if (before === undefined && row.scheduled_keep !== null) this.onNight(row);
    if (status === "complete") this.checkFile(row);
    const all = this.tables.backups.ofProject(projectId);
    const open = all.filter((each) => isUnderWay(each.status));
    if (open.length > 1) this.fail(is.slot, `${open.map((each) => each.id).join(" and ")} are under way`);
    const complete = all.filter((each) => each.status === "complete").length;
    const max = this.tables.branches.plan.max_backups;
    if (complete > max) this.fail(is.slot, `${projectId} keeps ${complete} backups, of ${max}`);
  }

  private onNight({ id, project_id: projectId }: Backup): void {
    const night = `${projectId} ${this.tables.backups.lastNight.getTime()}`;
    if (this.nights.has(night)) this.fail(is.slot, `${id} is another backup of one night`);
    this.nights.add(night);
  }

  private checkFile({ id, repository, digest, size_bytes, dump_bytes }: Backup): void {
    const text = this.world.artifacts.find(repository ?? "", digest ?? "");
    if (text === null) this.fail(is.whole, `${id} is complete, and ${digest} is not stored`);
    else if (text.length !== size_bytes || text.length !== dump_bytes)
      this.fail(is.whole, `${id} has ${text.length} bytes, and ${size_bytes} are noted`);
    else if (!this.whole.has(text)) this.fail(is.whole, `${id} is complete, and is not all of its database`);
  }

  /** Two minutes after the last fault, and at the end of all. */
  checkSettled(): void {
    const { world, tables } = this;
    const { postgres, kernel } = world;
    const calmMs = kernel.nowMs - world.calmSinceMs;
    for (const row of tables.backups.rows.values()) {
      if (row.status === "complete") this.checkFile(row);
      const sinceMs = Math.min(calmMs, postgres.nowMs() - row.created_at.getTime());
      if (isUnderWay(row.status) && sinceMs > endsWithinMs) this.checkOpen(row);
    }
    const now = postgres.nowMs();
    for (const { id, ownerId, kind, desired, createdAt } of tables.open.values()) {
      if (kind !== "backup" || desired === "removed" || now - createdAt.getTime() < endsWithinMs) continue;
      const status = tables.backups.rows.get(ownerId)?.status;
      if (status === undefined || !isUnderWay(status))
        this.fail(is.end, `${id} is to run still, and its backup is ${status ?? "no more"}`);
    }
    for (const { machineId, isConnected, docker } of world.nodes) {
      const left = docker.only((each) => each.kind === "dump" && kernel.nowMs - each.startedAtMs > endsWithinMs);
      if (isConnected && left !== undefined) this.fail(is.end, `${machineId} has ${left.name} still`);
    }
  }

  /** One that has not ended, although nothing is in its way. */
  private checkOpen({ id, status, database_id: databaseId, project_id: projectId }: Backup): void {
    const { world, tables } = this;
    const { branches, backups } = tables;
    const branch = branches.rows.get(databaseId);
    if (branch?.status !== "ready" || branches.suspended.has(projectId)) {
      this.fail(is.end, `${id} is ${status}, and its database is ${branch?.status ?? "no more"}`);
      return;
    }
    // It waits for who changes its database, and then for work that looks again.
    const isHeld = ({ database_id, ended_at }: Change): boolean =>
      database_id === databaseId && (ended_at === null || world.postgres.nowMs() - ended_at.getTime() < endsWithinMs);
    if ([...branches.changes.values()].some(isHeld)) return;
    const task = backups.tasks.get(id);
    if (task?.refused) return;
    const nodeId = task?.nodeId ?? branch.node_id;
    const machine = world.nodes.find((each) => each.nodeId === nodeId && each.isConnected);
    if (machine === undefined || world.isCloned(machine.machineId)) return;
    const server = machine.docker.only(
      (each) => each.server?.databaseId === databaseId && machine.docker.isAnswering(each.name),
    );
    if (server !== undefined) this.fail(is.end, `${id} is ${status}, and its server answers`);
  }
}
