import type { Channel } from "@svc/proto";
import type { Branch, Plan, Project } from "../../stores/db/tables.ts";
import { type Durability, durabilityOf } from "./copies/durability.ts";

/** What is told of the branch of a channel; null: there is none. Never its address or a password. */
export const branchView = (
  channel: Channel,
  branch: Branch | null,
  {
    project,
    plan,
    durability,
  }: {
    project: Pick<Project, "db_engine">;
    plan: Pick<Plan, "db_size_mb" | "db_connection_limit">;
    durability: ReadonlyMap<string, Durability>;
  },
) => ({
  channel,
  engine: branch?.engine ?? project.db_engine,
  enabled: branch !== null,
  status: branch?.status ?? null,
  sizeBytes: branch?.size_bytes ?? 0,
  sizeLimitMb: plan.db_size_mb,
  connectionLimit: plan.db_connection_limit,
  reason: branch?.reason ?? null,
  readOnly: branch?.read_only ?? false,
  protection: branch === null ? null : durabilityOf(durability, branch.id).protection,
  lastProvenRestore: branch === null ? null : durabilityOf(durability, branch.id).lastProvenRestore,
});
