import { systemRandom } from "@svc/runtime/system";
import type { Insertable } from "kysely";
import type { JobTable } from "../../../stores/db/gen/tables.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Job } from "../../../stores/db/tables.ts";

/** A job of a project's production that fires at 3:00 and is not scheduled yet, unless `values` say otherwise. */
export const newJob = (db: Db, values: { project_id: string } & Partial<Insertable<JobTable>>): Promise<Job> =>
  db
    .insertInto("job")
    .values({
      ...{ channel: "production", name: `job-${systemRandom.uuid()}`, deployment_id: systemRandom.uuid() },
      ...{ schedule: "0 3 * * *", timezone: "UTC", timeout_seconds: 900, retries: 0, overlap: "skip" },
      source_enabled: true,
      ...values,
    })
    .returningAll()
    .executeTakeFirstOrThrow();
