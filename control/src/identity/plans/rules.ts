// @pure
import type { UpdatePlanInput } from "@svc/proto";
import type { NewPlan, Plan } from "../../stores/db/tables.ts";

const columns = {
  slug: "slug",
  name: "name",
  isDefault: "is_default",
  memoryMb: "memory_mb",
  cpuMillicores: "cpu_millicores",
  pidsLimit: "pids_limit",
  reservedMemoryMb: "reserved_memory_mb",
  reservedCpuMillicores: "reserved_cpu_millicores",
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
  maxDrainSeconds: "max_drain_seconds",
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

type Reserving = Pick<Plan, "memory_mb" | "cpu_millicores" | "reserved_memory_mb" | "reserved_cpu_millicores">;
type Room = Reserving & Pick<Plan, "pids_limit" | "storage_mb">;

/** Unless the plan says otherwise so much of its limits is set aside: what an idle small server takes, and some more. */
const reservedPart = { memory: 1 / 8, cpu: 1 / 40 } as const;
const reservedMin = { memoryMb: 32, cpuMillicores: 10 } as const;

/** What is set aside on its node for one container. More than its limits it never is. */
export function reservationOf(plan: Reserving): { reservedMemoryMb: number; reservedCpuMillicores: number } {
  const memoryMb = Math.max(Math.ceil(plan.memory_mb * reservedPart.memory), reservedMin.memoryMb);
  const cpuMillicores = Math.max(Math.ceil(plan.cpu_millicores * reservedPart.cpu), reservedMin.cpuMillicores);
  return {
    reservedMemoryMb: Math.min(plan.reserved_memory_mb ?? memoryMb, plan.memory_mb),
    reservedCpuMillicores: Math.min(plan.reserved_cpu_millicores ?? cpuMillicores, plan.cpu_millicores),
  };
}

/** Whether containers get the same under both plans. */
export const givesSameRoom = (a: Room, b: Room): boolean =>
  a.memory_mb === b.memory_mb &&
  a.cpu_millicores === b.cpu_millicores &&
  a.pids_limit === b.pids_limit &&
  a.storage_mb === b.storage_mb &&
  reservationOf(a).reservedMemoryMb === reservationOf(b).reservedMemoryMb &&
  reservationOf(a).reservedCpuMillicores === reservationOf(b).reservedCpuMillicores;
