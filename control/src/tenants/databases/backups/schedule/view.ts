// @pure
import type { BackupSchedule } from "../../../../stores/db/tables.ts";

/** What is told of a schedule; null: there is none. */
export function scheduleView(rows: readonly BackupSchedule[]) {
  const [first] = rows;
  return first === undefined ? null : { channels: rows.map(({ channel }) => channel), keep: first.keep };
}

/** Channels that have no backup of their last night, with the reason. */
export const problemsView = (rows: readonly BackupSchedule[]) =>
  rows.flatMap(({ channel, night, problem }) =>
    problem === null ? [] : [{ channel, night: night.toISOString(), problem }],
  );
