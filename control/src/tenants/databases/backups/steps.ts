// @pure
import { type DatabaseStatus, limits } from "@svc/proto";
import type { OneShot } from "../../../fleet/tasks/one-shot.ts";
import type { BackupStatus } from "../../../stores/db/tables.ts";

/** What a node said of the file that it pushed. */
export interface BackupFile {
  digest: string;
  sizeBytes: number;
  dumpBytes: number;
}

/** The task that makes a backup. */
export interface BackupTaskFacts extends OneShot {
  /** Null before it is completed. */
  file: BackupFile | null;
}

/** Everything that decides what is next for a backup. */
export interface BackupFacts {
  status: BackupStatus;
  /** Since it was asked for, by the database's clock. */
  ageMs: number;
  /** The project is being deleted. */
  projectGone: boolean;
  /** The project is off the air. */
  suspended: boolean;
  /** Of the very branch that it was asked for; null: that is no more. */
  branch: DatabaseStatus | null;
  /** Its server, if that takes sessions: on which node, and in which image; null: it does not at present. */
  server: { nodeId: string; image: string } | null;
  /** The newest; null before there was one. */
  task: BackupTaskFacts | null;
}

export type BackupStep =
  /** In the image of the server, which the node has. */
  | { do: "startTask"; nodeId: string; image: string }
  | { do: "markRunning" }
  /** Look in the registry for what the node says that it pushed; if it is there, the backup is complete. */
  | { do: "accept"; taskId: string; file: BackupFile }
  | { do: "fail"; reason: string }
  | { do: "removeTask"; taskId: string }
  | { do: "wait"; for: string }
  | { do: "end" };

const stuckMs = limits.backupStuckSeconds * 1000;
const hours = limits.backupStuckSeconds / 3600;

/**
 * The next thing to do for a backup. Each step may be repeated, and what it writes is written only while the backup is still
 * under way. It is complete once control itself has seen the file; a task that comes to nothing is not tried again, as whoever
 * asked for a backup wants one of now.
 */
export function nextBackupStep(facts: BackupFacts): BackupStep {
  const { status, task } = facts;
  if (status === "complete" || status === "failed") {
    return task?.wanted ? { do: "removeTask", taskId: task.taskId } : { do: "end" };
  }
  const reason = endReason(facts);
  if (reason !== null) return { do: "fail", reason };
  if (task === null) {
    const { server } = facts;
    return server === null ? { do: "wait", for: "the database server to answer" } : { do: "startTask", ...server };
  }
  if (task.file !== null) return { do: "accept", taskId: task.taskId, file: task.file };
  if (status === "pending" && task.state === "running") return { do: "markRunning" };
  return { do: "wait", for: "the node to be done" };
}

/** Why it comes to nothing; null: it may still come to something. */
function endReason({ ageMs, projectGone, suspended, branch, task }: BackupFacts): string | null {
  if (ageMs >= stuckMs) return `The backup was not complete within ${hours} hours.`;
  if (projectGone) return "The project was deleted.";
  if (suspended) return "The project was suspended.";
  if (branch === null || branch === "dropping") return "The database was dropped.";
  if (branch !== "ready") return "The database is not ready any more.";
  if (task === null) return null;
  if (!task.wanted) return "The machine that was to make the backup is taken out of service.";
  if (task.state === "failed") return task.problem ?? "The database could not be read.";
  return task.state === "completed" && task.file === null ? "Nobody knows what the machine has made." : null;
}
