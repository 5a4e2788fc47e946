import type { Job, JobRun, Run } from "../../../../stores/db/tables.ts";
import type { Tx } from "../../../deployments/testing/memory/tables.ts";
import type { Definition } from "../../definitions/rules.ts";

/** Scheduled jobs of productions with their runs and the attempts at these, as their rows are. Of alerts there are none. */
export class JobTables {
  readonly jobs = new Map<string, Job>();
  readonly runs = new Map<string, JobRun>();
  /** Those of the runs that are not over, oldest first. */
  readonly open = new Map<string, JobRun>();
  readonly attempts = new Map<string, Run>();
  /** The same by their runs, oldest first. */
  readonly attemptsOf = new Map<string, Run[]>();
  /** What deployments have their channel do by schedule, by their ids. */
  readonly definitions = new Map<string, readonly Definition[]>();
  /** What every plan has room for in one project. */
  maxScheduledJobs = 100;
  private number = 0;

  /** Those of a project that are not retired. */
  live(projectId: string): Job[] {
    return [...this.jobs.values()].filter((job) => job.project_id === projectId && job.retired_at === null);
  }

  openOf(jobId: string): JobRun[] {
    return [...this.open.values()].filter(({ job_id }) => job_id === jobId);
  }

  insertRun(run: Omit<JobRun, "number">): JobRun {
    const row = { ...run, number: ++this.number };
    this.runs.set(row.id, row);
    if (row.finished_at === null) this.open.set(row.id, row);
    return row;
  }

  insertAttempt(row: Run): Run {
    this.attempts.set(row.id, row);
    const own = this.attemptsOf.get(row.owner_id);
    if (own === undefined) this.attemptsOf.set(row.owner_id, [row]);
    else own.push(row);
    return row;
  }
}

/** The row of a run in one of these states. */
export function runIn({ tables }: Tx, id: string, from: readonly JobRun["status"][]): JobRun | null {
  const run = tables.jobs.runs.get(id);
  return run !== undefined && from.includes(run.status) ? run : null;
}

/** Whether what a deployment runs in is there. */
export const hasImage = ({ tables }: Tx, deploymentId: string): boolean => tables.deployments.has(deploymentId);
