import type { UpdatePlanInput } from "@svc/proto";
import type { NewPlan, Plan } from "../db/tables.ts";

const columns = {
  slug: "slug",
  name: "name",
  isDefault: "is_default",
  memoryMb: "memory_mb",
  cpuMillicores: "cpu_millicores",
  pidsLimit: "pids_limit",
  maxProjects: "max_projects",
  maxDeploysPerHour: "max_deploys_per_hour",
  maxUploadMb: "max_upload_mb",
  maxImageMb: "max_image_mb",
  maxEnvVars: "max_env_vars",
  rateLimitPerMinute: "rate_limit_per_minute",
  monthlyRequests: "monthly_requests",
  monthlyBandwidthMb: "monthly_bandwidth_mb",
  storageMb: "storage_mb",
  dbSizeMb: "db_size_mb",
  dbConnectionLimit: "db_connection_limit",
  maxDatabases: "max_databases",
  maxBackups: "max_backups",
  maxSseConnections: "max_sse_connections",
  maxScheduledJobs: "max_scheduled_jobs",
  maxCustomDomains: "max_custom_domains",
  maxReplicas: "max_replicas",
  nodeSelector: "node_selector",
  devSyncEnabled: "dev_sync_enabled",
  previewsEnabled: "previews_enabled",
} as const satisfies Record<keyof UpdatePlanInput, keyof NewPlan>;

/** The fields of a request as columns; what it leaves out is left out. */
export const planColumns = (fields: UpdatePlanInput): Partial<NewPlan> =>
  Object.fromEntries(
    Object.entries(columns).flatMap(([field, column]) => {
      const value = fields[field as keyof UpdatePlanInput];
      return value === undefined ? [] : [[column, value]];
    }),
  );

type Room = Pick<Plan, "memory_mb" | "cpu_millicores" | "pids_limit" | "storage_mb">;

/** Whether containers get the same under both plans. */
export const givesSameRoom = (a: Room, b: Room): boolean =>
  a.memory_mb === b.memory_mb &&
  a.cpu_millicores === b.cpu_millicores &&
  a.pids_limit === b.pids_limit &&
  a.storage_mb === b.storage_mb;
