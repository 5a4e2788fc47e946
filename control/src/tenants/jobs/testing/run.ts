import type { Insertable } from "kysely";
import type { JobRunTable } from "../../../stores/db/gen/tables.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Job, JobRun } from "../../../stores/db/tables.ts";

/** A run of a job that waits to be begun, unless `values` say otherwise. */
export const newJobRun = (
  db: Db,
  job: Pick<Job, "id" | "project_id" | "deployment_id">,
  values: Partial<Insertable<JobRunTable>> = {},
): Promise<JobRun> =>
  db
    .insertInto("job_run")
    .values({
      ...{ job_id: job.id, project_id: job.project_id, deployment_id: job.deployment_id },
      ...{ trigger: "manual", status: "queued" },
      ...values,
    })
    .returningAll()
    .executeTakeFirstOrThrow();
