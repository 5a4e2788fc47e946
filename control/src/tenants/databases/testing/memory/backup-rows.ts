import { repositories } from "../../../../fleet/artifacts/repositories.ts";
import { taskTopic } from "../../../../fleet/cluster/topics.ts";
import type { MemoryTask, Transact } from "../../../../fleet/testing/tables.ts";
import type { Backup, BackupSchedule, Branch } from "../../../../stores/db/tables.ts";
import type { BackupRow } from "../../backups/facts.ts";
import { type BackupPlace, type BackupRows, taskOf } from "../../backups/rows.ts";
import { isUnderWay } from "../../backups/rules.ts";
import type { NightRows } from "../../backups/schedule/rows.ts";
import { keptOfOwn, nightStep } from "../../backups/schedule/rules.ts";
import { insertBackup } from "./backup-requests.ts";
import { countBackups } from "./backups.ts";
import type { DatabaseTables, Tx } from "./tables.ts";

/** What work on backups asks, answered from memory. */
export function memoryBackupRows(transact: Transact<DatabaseTables>): BackupRows {
  /** As in `rows.ts`. */
  const locked = ({ id }: Backup, act: (tx: Tx, backup: Backup) => void): Promise<boolean> =>
    transact((tx) => {
      const backup = tx.tables.backups.rows.get(id);
      if (backup === undefined || !isUnderWay(backup.status)) return false;
      act(tx, backup);
      return true;
    });
  return {
    find: (id) => transact((tx) => find(tx, id)),
    startTask: async (of, at) => void (await locked(of, (tx, backup) => startTask(tx, backup, at))),
    markRunning: (id) =>
      transact(({ tables: { backups } }) => {
        if (backups.rows.get(id)?.status === "pending") backups.change(id, { status: "running" });
      }),
    complete: (of, { file: { digest, sizeBytes: size_bytes, dumpBytes: dump_bytes } }) =>
      locked(of, (tx) => {
        const repository = repositories.backup(of.project_id);
        const file = { repository, digest, size_bytes, dump_bytes };
        end(tx, of, { ...file, status: "complete" });
      }),
    fail: (of, error) =>
      locked(of, (tx) => {
        end(tx, of, { status: "failed", error });
      }),
    removeTask: (taskId) =>
      transact(({ tables, notify }) => {
        tables.removeTasks([taskId]);
        notify(taskTopic);
      }),
  };
}

/** What is asked for backups that nobody asks for, answered from memory. Every plan has databases. */
export const memoryNightRows = (transact: Transact<DatabaseTables>): NightRows => ({
  due: () =>
    transact((tx) =>
      [...tx.tables.backups.schedules.values()]
        .filter((schedule) => dueBranch(tx, schedule) !== null)
        .map(({ project_id: projectId, channel }) => ({ projectId, channel })),
    ),
  take: ({ projectId, channel }, id) =>
    transact((tx) => {
      const { backups, branches } = tx.tables;
      const key = `${projectId} ${channel}`;
      const schedule = backups.schedules.get(key);
      const branch = schedule === undefined ? null : dueBranch(tx, schedule);
      if (schedule === undefined || branch === null) return null;
      const { keep } = schedule;
      const isOwn = (row: Backup) =>
        row.channel === channel && row.status === "complete" && row.scheduled_keep !== null;
      const own = backups.ofProject(projectId).filter(isOwn).length;
      const { max_backups: maxBackups } = branches.plan;
      const step = nightStep({ maxDatabases: 1, maxBackups, keep, own, ...countBackups(tx, projectId) });
      if (step.do === "wait") return step;
      const { id: database_id, engine } = branch;
      const of = { id, project_id: projectId, database_id, channel, engine, scheduled_keep: keep };
      if (step.do === "begin" && !insertBackup(tx, of)) return null;
      const problem = step.do === "begin" ? null : step.problem;
      backups.schedules.set(key, { ...schedule, night: backups.lastNight, problem });
      return step;
    }),
});

/** The branch of a schedule whose turn is due. */
function dueBranch({ tables }: Tx, { project_id, channel, night }: BackupSchedule): Branch | null {
  const { backups, branches } = tables;
  const branch = branches.ofProject(project_id).find((row) => row.channel === channel);
  const isOff = branches.suspended.has(project_id) || branches.deleting.has(project_id);
  if (branch?.status !== "ready" || isOff || night >= backups.lastNight) return null;
  return branch.created_at < backups.lastNight ? branch : null;
}

function find({ tables, now }: Tx, id: string): BackupRow | null {
  const { backups, branches } = tables;
  const backup = backups.rows.get(id);
  if (backup === undefined) return null;
  const { project_id, database_id, created_at } = backup;
  const isWanted = ({ desired, reapedAt }: MemoryTask) => desired === "running" && reapedAt === null;
  const server = branches.serversOf(database_id).findLast(isWanted);
  const task = backups.tasks.get(id);
  return {
    ...{ backup, ageMs: now.getTime() - created_at.getTime() },
    projectGone: branches.deleting.has(project_id),
    suspended: branches.suspended.has(project_id),
    branch: branches.rows.get(database_id)?.status ?? null,
    server:
      server === undefined || branches.isHeld(database_id)
        ? null
        : { id: server.id, kind: server.kind, node_id: server.nodeId, spec: server.server },
    task: task === undefined ? null : { id: task.id, desired: task.desired, node_id: task.nodeId },
  };
}

function startTask({ tables, now, notify }: Tx, backup: Backup, at: BackupPlace): void {
  const { backups, branches } = tables;
  const branch = branches.rows.get(backup.database_id);
  if (branch?.node_id !== at.nodeId || branches.isHeld(branch.id) || backups.tasks.has(backup.id)) return;
  const { spec, pinnedTo = null, nodeSelector: _, ...resources } = taskOf(backup, at, branches.plan);
  const task = tables.insert({
    ...{ projectId: backup.project_id, channel: backup.channel, ownerKind: "backup", ownerId: backup.id },
    ...{ kind: "backup", replica: 0, cause: null, createdAt: now, specHash: JSON.stringify(spec), ...resources },
    ...{ pinnedTo, backup: spec },
  });
  backups.tasks.set(backup.id, task);
  notify(taskTopic);
}

function end(tx: Tx, of: Backup, how: Partial<Backup>): void {
  const { backups } = tx.tables;
  backups.change(of.id, { ...how, ended_at: tx.now });
  tx.tables.removeTasks([backups.tasks.get(of.id)?.id ?? []].flat());
  tx.notify(taskTopic);
  replaceOlder(tx, of);
}

/** See `replaceOlder` of `backups/schedule/rows.ts`. */
function replaceOlder(tx: Tx, { project_id, channel, scheduled_keep: asked }: Backup): void {
  const { backups, branches } = tx.tables;
  if (asked === null) return;
  const ownOf = (status: Backup["status"]): Backup[] =>
    backups
      .ofProject(project_id)
      .filter((row) => row.channel === channel && row.scheduled_keep !== null && row.status === status)
      .toSorted((a, b) => b.created_at.getTime() - a.created_at.getTime() || (a.id < b.id ? -1 : 1));
  const keep = keptOfOwn({
    ...{ asked, keep: backups.schedules.get(`${project_id} ${channel}`)?.keep ?? null },
    ...{ own: ownOf("complete").length, complete: countBackups(tx, project_id).complete },
    maxBackups: branches.plan.max_backups,
  });
  for (const status of ["complete", "failed"] as const)
    for (const { id } of ownOf(status).slice(keep)) backups.rows.delete(id);
}
