import type { AdminListQuery } from "@svc/proto";
import { sql } from "kysely";
import { bounded } from "../../../stores/db/bounded.ts";
import type { Db } from "../../../stores/db/pool.ts";
import { uuid } from "../../../stores/db/uuid.ts";
import type { ListedProject } from "../../projects/store.ts";
import { microsOf, type Place, placeOf, timeOf } from "../place.ts";
import { requests30d } from "../requests-30d.ts";

interface AdministeredProject extends ListedProject, Place {
  ownerEmail: string;
  requests: number;
}

/** One more than the limit, newest first. */
export async function readProjects(db: Db, { limit, cursor, q }: AdminListQuery): Promise<AdministeredProject[]> {
  const after = placeOf(cursor, uuid);
  const contains = (text: string) =>
    sql`and (strpos(project.slug, lower(${text})) > 0 or strpos(lower(project.name), lower(${text})) > 0
      or strpos(lower(owner.email), lower(${text})) > 0)`;
  const { rows } = await sql<AdministeredProject>`
    with listed as materialized (
      select project.*, owner.email as "ownerEmail"
      from project join auth."user" owner on owner.id = project.owner_id
      where project.deleting_at is null
        ${after === null ? sql`` : sql`and (project.created_at, project.id) < (${timeOf(after)}, ${after.id}::uuid)`}
        ${q === undefined ? sql`` : contains(q)}
      order by project.created_at desc, project.id desc limit ${limit + 1})
    select listed.*, ${microsOf(sql`listed.created_at`)} as micros,
      ${bounded(requests30d(sql`listed.id`))} as requests,
      (select status from deployment where deployment.project_id = listed.id order by number desc limit 1) as status
    from listed
    order by listed.created_at desc, listed.id desc`.execute(db);
  return rows;
}
