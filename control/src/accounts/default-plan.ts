import type { Db } from "../db/pool.ts";
import type { NewPlan } from "../db/tables.ts";

/** What an installation starts with: generous, because whoever installs it owns the machines. */
const standardPlan: NewPlan = {
  slug: "standard",
  name: "Standard",
  is_default: true,
  memory_mb: 512,
  cpu_millicores: 1000,
  pids_limit: 256,
  max_projects: 100,
  max_deploys_per_hour: 120,
  max_upload_mb: 256,
  max_image_mb: 4096,
  max_env_vars: 200,
  rate_limit_per_minute: null,
  monthly_requests: null,
  monthly_bandwidth_mb: null,
  storage_mb: 4096,
  db_size_mb: 2048,
  db_connection_limit: 20,
  max_databases: 20,
  max_backups: 20,
  max_sse_connections: 200,
  max_scheduled_jobs: 20,
  max_custom_domains: 20,
  dev_sync_enabled: true,
  previews_enabled: true,
};

/** Adds the standard plan to an installation that has no default one. Safe to run on every start, by every replica. */
export async function ensureDefaultPlan(db: Db): Promise<void> {
  await db
    .insertInto("plan")
    .columns(Object.keys(standardPlan) as (keyof NewPlan)[])
    .values(standardPlan)
    .onConflict((conflict) => conflict.doNothing())
    .execute();
}
