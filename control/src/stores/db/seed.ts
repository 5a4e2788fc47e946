import type { Db } from "./pool.ts";
import type { NewPlan } from "./tables.ts";

/** The plan of a fresh installation: generous, because its users are the operator's own. */
export const standardPlan = {
  slug: "standard",
  name: "Standard",
  is_default: true,
  memory_mb: 512,
  cpu_millicores: 1000,
  pids_limit: 256,
  max_projects: 50,
  max_deploys_per_hour: 120,
  max_upload_mb: 200,
  max_image_mb: 2048,
  max_env_vars: 200,
  rate_limit_per_minute: null,
  monthly_requests: null,
  monthly_bandwidth_mb: null,
  storage_mb: 2048,
  db_size_mb: 1024,
  db_connection_limit: 20,
  max_databases: 10,
  max_backups: 10,
  max_sse_connections: 100,
  max_scheduled_jobs: 20,
  max_custom_domains: 10,
  dev_sync_enabled: true,
  previews_enabled: true,
} as const satisfies NewPlan;

/** Gives an installation without any plan the standard one. Safe to repeat and to race. */
export async function seedPlans(db: Db): Promise<void> {
  const { count } = await db
    .selectFrom("plan")
    .select((select) => select.fn.countAll<number>().as("count"))
    .executeTakeFirstOrThrow();
  if (count > 0) return;
  await db
    .insertInto("plan")
    .values(standardPlan)
    .onConflict((conflict) => conflict.column("slug").doNothing())
    .execute();
}
