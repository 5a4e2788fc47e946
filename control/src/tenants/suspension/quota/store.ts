import { sql } from "kysely";
import { bounded } from "../../../stores/db/bounded.ts";
import type { Db } from "../../../stores/db/pool.ts";
import { monthOf, type OwnedProject, type OwnerFacts } from "./rules.ts";

export type Owner = { userId: string } & OwnerFacts;

interface OwnerRow {
  userId: string;
  monthlyRequests: number | null;
  monthlyBandwidthMb: number | null;
  requests: number;
  bytes: number;
  told: "near" | "over" | null;
  projects: (Omit<OwnedProject, "waivedUntil"> & { waivedUntil: string | null })[];
}

/**
 * Owners of projects whose quota may matter: their plan has one, or a project of theirs is suspended for it. In the
 * order of ids, after `after`, at most `limit`.
 */
export const listOwners = (db: Db, now: Date, { after, limit }: { after: string; limit: number }): Promise<Owner[]> =>
  readOwners(db, now, sql`owner_id > ${after}`, limit);

/** The same of one user, of whom nothing may matter; null without any project. */
export async function findOwner(db: Db, now: Date, userId: string): Promise<Owner | null> {
  const [owner] = await readOwners(db, now, sql`owner_id = ${userId}`, 1);
  return owner ?? null;
}

async function readOwners(db: Db, now: Date, which: ReturnType<typeof sql>, limit: number): Promise<Owner[]> {
  const { rows } = await sql<OwnerRow>`
    select owner.owner_id as "userId", plan.monthly_requests as "monthlyRequests",
      plan.monthly_bandwidth_mb as "monthlyBandwidthMb", ${bounded(sql`coalesce(month.requests, 0)`)} as requests,
      ${bounded(sql`coalesce(month.bytes_in::numeric + month.bytes_out, 0)`)} as bytes, month.told, owner.projects
    from (
      select owner_id, bool_or(suspend_reason = 'quota') as has_suspended, json_agg(json_build_object(
          'id', id, 'suspendReason', suspend_reason, 'isResuming', resuming_at is not null,
          'waivedUntil', quota_waived_until) order by id) as projects
      from project where deleting_at is null and ${which} group by owner_id) owner
    left join account on account.user_id = owner.owner_id
    join plan on plan.id = coalesce(account.plan_id, (select id from plan where is_default))
    left join traffic_month month on month.user_id = owner.owner_id and month.month = ${monthOf(now)}::date
    where plan.monthly_requests is not null or plan.monthly_bandwidth_mb is not null or owner.has_suspended
    order by owner.owner_id limit ${limit}`.execute(db);
  return rows.map(({ userId, monthlyRequests, monthlyBandwidthMb, requests, bytes, told, projects }) => ({
    userId,
    now,
    allowance: { requests: monthlyRequests, bandwidthMb: monthlyBandwidthMb },
    use: { requests, bytes },
    told,
    projects: projects.map((project) => ({
      ...project,
      waivedUntil: project.waivedUntil === null ? null : new Date(project.waivedUntil),
    })),
  }));
}

/** Remembers what the user was told of the month's quota. */
export async function setTold(tx: Db, userId: string, now: Date, told: OwnerFacts["told"]): Promise<void> {
  await tx
    .insertInto("traffic_month")
    .values({ user_id: userId, month: monthOf(now), told })
    .onConflict((conflict) => conflict.columns(["user_id", "month"]).doUpdateSet({ told }))
    .execute();
}
