import type { AdminListQuery, AdminUser } from "@svc/proto";
import { sql } from "kysely";
import { bounded } from "../../../stores/db/bounded.ts";
import type { Db } from "../../../stores/db/pool.ts";
import { uuid } from "../../../stores/db/uuid.ts";
import { microsOf, type Place, placeOf, timeOf } from "../place.ts";
import { requests30d } from "../requests-30d.ts";
import { roleOf } from "./rules.ts";

interface ListedUser extends Place {
  email: string;
  name: string;
  role: string | null;
  plan: string;
  emailVerified: boolean;
  banned: boolean;
  banReason: string | null;
  banExpires: Date | null;
  projects: number;
  suspendedProjects: number;
  requests: number;
  bytes: number;
  createdAt: Date;
}

export const userView = (user: ListedUser): AdminUser => ({
  id: user.id,
  email: user.email,
  name: user.name,
  role: roleOf(user.role),
  plan: user.plan,
  emailVerified: user.emailVerified,
  banned: user.banned,
  banReason: user.banned ? user.banReason : null,
  banExpiresAt: user.banned ? (user.banExpires?.toISOString() ?? null) : null,
  projects: user.projects,
  suspendedProjects: user.suspendedProjects,
  requests30d: user.requests,
  diskBytes: user.bytes,
  createdAt: user.createdAt.toISOString(),
});

/**
 * One more than the limit, newest first. Everything is counted for all of them at once, and for nobody else: traffic
 * project by project, because a page must not read what everybody's visitors asked for. Whoever is being deleted is
 * gone for administrators, too.
 */
export async function readUsers(db: Db, { limit, cursor, q }: AdminListQuery): Promise<ListedUser[]> {
  const after = placeOf(cursor, uuid);
  const { rows } = await sql<ListedUser>`
    with listed as materialized (
      select u.id, u.email, u.name, u.role, u."emailVerified", u."banReason", u."banExpires", u."createdAt",
        coalesce(u.banned, false) and (u."banExpires" is null or u."banExpires" > now()) as banned,
        coalesce(account.plan_id, (select id from plan where is_default)) as plan_id
      from auth."user" u left join account on account.user_id = u.id
      where not exists (select from user_deletion where user_id = u.id)
        ${after === null ? sql`` : sql`and (u."createdAt", u.id) < (${timeOf(after)}, ${after.id}::uuid)`}
        ${q === undefined ? sql`` : sql`and (strpos(lower(u.email), lower(${q})) > 0 or strpos(lower(u.name), lower(${q})) > 0)`}
      order by u."createdAt" desc, u.id desc limit ${limit + 1}),
    own as materialized (
      select project.id, project.owner_id, project.suspended_at from project join listed on listed.id = project.owner_id
      where project.deleting_at is null),
    counted as (select owner_id, count(*) as projects, count(suspended_at) as suspended from own group by 1),
    visited as (
      select own.owner_id, ${bounded(sql`sum(${requests30d(sql`own.id`)})`)} as requests from own group by 1),
    content as (
      select own.owner_id, max(artifact.size_bytes) as bytes
      from own join artifact on artifact.project_id = own.id
      where artifact.digest is not null
      group by own.owner_id, own.id, artifact.kind, artifact.repository, artifact.digest),
    stored as (select owner_id, sum(bytes)::bigint as bytes from content group by 1)
    select listed.*, plan.slug as plan, ${microsOf(sql`listed."createdAt"`)} as micros,
      coalesce(projects, 0) as projects, coalesce(suspended, 0) as "suspendedProjects",
      coalesce(requests, 0) as requests, coalesce(bytes, 0) as bytes
    from listed join plan on plan.id = listed.plan_id
      left join counted on counted.owner_id = listed.id
      left join visited on visited.owner_id = listed.id
      left join stored on stored.owner_id = listed.id
    order by listed."createdAt" desc, listed.id desc`.execute(db);
  return rows;
}
