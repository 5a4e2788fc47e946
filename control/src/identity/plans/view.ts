import type { AdminPlan, Plan as PlanView } from "@svc/proto";
import type { Plan } from "../../stores/db/tables.ts";
import { reservationOf } from "./rules.ts";
import type { CountedPlan } from "./store.ts";

/** A plan as its users see it: the whole row without its internal id. */
export const planView = (plan: Plan): PlanView => ({
  slug: plan.slug,
  name: plan.name,
  isDefault: plan.is_default,
  memoryMb: plan.memory_mb,
  cpuMillicores: plan.cpu_millicores,
  pidsLimit: plan.pids_limit,
  ...reservationOf(plan),
  maxProjects: plan.max_projects,
  maxDeploysPerHour: plan.max_deploys_per_hour,
  maxUploadMb: plan.max_upload_mb,
  maxImageMb: plan.max_image_mb,
  maxEnvVars: plan.max_env_vars,
  rateLimitPerMinute: plan.rate_limit_per_minute,
  monthlyRequests: plan.monthly_requests,
  monthlyBandwidthMb: plan.monthly_bandwidth_mb,
  storageMb: plan.storage_mb,
  dbSizeMb: plan.db_size_mb,
  dbConnectionLimit: plan.db_connection_limit,
  maxDatabases: plan.max_databases,
  maxBackups: plan.max_backups,
  maxSseConnections: plan.max_sse_connections,
  maxScheduledJobs: plan.max_scheduled_jobs,
  maxCustomDomains: plan.max_custom_domains,
  maxReplicas: plan.max_replicas,
  maxDrainSeconds: plan.max_drain_seconds,
  nodeSelector: plan.node_selector,
  devSyncEnabled: plan.dev_sync_enabled,
  previewsEnabled: plan.previews_enabled,
  databaseEnabled: plan.max_databases > 0,
  createdAt: plan.created_at.toISOString(),
  updatedAt: plan.updated_at.toISOString(),
});

/** A plan as administrators see it. */
export const adminPlanView = (plan: CountedPlan): AdminPlan => ({
  id: plan.id,
  ...planView(plan),
  userCount: plan.user_count,
});
