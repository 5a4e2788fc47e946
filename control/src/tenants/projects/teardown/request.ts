import { sql } from "kysely";
import { routeTopic } from "../../../fleet/cluster/topics.ts";
import { endDrains } from "../../../fleet/tasks/change.ts";
import { notify } from "../../../stores/db/notify.ts";
import type { Db } from "../../../stores/db/pool.ts";
import { enqueueAll } from "../../../stores/work/queue.ts";
import { dropBranches } from "../../databases/store.ts";
import { lockNamesOf, releaseDomains } from "../../domains/store.ts";
import { retireProjectJobs } from "../../jobs/definitions/change.ts";

/** What the work knows of the project that it takes down. */
export interface Teardown {
  projectId: string;
  /** Names at which edges may still send visitors to it, whoever has them by now. */
  hosts: string[];
}

/**
 * Begins the end of projects whose rows the caller has locked: nobody sees them any more, anybody may have their slugs
 * and hosts, and the work of kind `teardown` does the rest.
 */
export async function requestTeardown(tx: Db, projectIds: readonly string[]): Promise<void> {
  if (projectIds.length === 0) return;
  const names = await lockNamesOf(tx, projectIds);
  await tx
    .updateTable("project")
    .set({
      deleting_at: sql<Date>`now()`,
      // Longer than any slug that somebody could choose, and as unique.
      slug: sql<string>`id::text`,
      next_slug: null,
      next_slug_at: null,
    })
    .where("id", "in", projectIds)
    .execute();
  await retireProjectJobs(tx, projectIds);
  // Before everything else of them: apps lose what they could still write to, and nothing waits for the edges.
  await dropBranches(tx, projectIds);
  const freed = await tx
    .deleteFrom("site_host")
    .where("project_id", "in", projectIds)
    .returning(["project_id", "host"])
    .execute();
  await releaseDomains(tx, projectIds, names);
  const hostsOf = Map.groupBy(freed, ({ project_id }) => project_id);
  await enqueueAll(
    tx,
    "teardown",
    projectIds.map((projectId) => {
      const payload: Teardown = { projectId, hosts: (hostsOf.get(projectId) ?? []).map(({ host }) => host) };
      return { key: projectId, payload };
    }),
  );
  await endDrains(tx, { projectIds });
  await notify(tx, routeTopic);
}
