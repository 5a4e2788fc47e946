import { sql } from "kysely";
import type { Db } from "../../../../stores/db/pool.ts";
import type { DomainHealth } from "./rules.ts";

/** Enough to see what is wrong. */
const namedMax = 100;

/** Of all projects that are not going. */
export async function readDomainHealth(db: Db): Promise<DomainHealth> {
  const { rows } = await sql<Record<keyof DomainHealth, unknown>>`
    with known as (
      select d.*, format('%s (%s)', d.domain, project.slug) as name
      from custom_domain d join project on project.id = d.project_id where project.deleting_at is null)
    select
      (select count(*)::int from known where status = 'verified') as verified,
      (select count(*)::int from known where status = 'pending') as pending,
      array(select name from known where status = 'verified' and failing_since is not null
        order by failing_since limit ${namedMax}) as failing,
      array(select name from known where status = 'verified' and failing_since is null and routing_target <> 'disabled'
        and dns_status in ('unresolved', 'not-pointing') order by domain limit ${namedMax}) as elsewhere`.execute(db);
  const [row] = rows;
  if (row === undefined) throw new Error("domains cannot be counted");
  return row as unknown as DomainHealth;
}
