import type { Insertable, Selectable } from "kysely";
import type {
  DatabaseBackupScheduleTable,
  DatabaseBackupTable,
  DatabaseTable,
  DeploymentTable,
  NodeEventTable,
  NodeTable,
  PlanTable,
  ProjectTable,
  RegistryCredentialTable,
  RunTable,
  TaskTable,
  WorkItemTable,
} from "./gen/tables.ts";

export type { Channel, DeploymentStatus, ProjectType, ReleaseStatus } from "@svc/proto";
export type { ArtifactTable, Database, DeploymentTable, ProjectTable } from "./gen/tables.ts";

export type Plan = Selectable<PlanTable>;
export type NewPlan = Insertable<PlanTable>;
export type Project = Selectable<ProjectTable>;
export type Deployment = Selectable<DeploymentTable>;
/** The managed database of a channel. */
export type Branch = Selectable<DatabaseTable>;
/** A backup of a branch. */
export type Backup = Selectable<DatabaseBackupTable>;
export type BackupStatus = Backup["status"];
/** That a channel is backed up every night. */
export type BackupSchedule = Selectable<DatabaseBackupScheduleTable>;
export type Task = Selectable<TaskTable>;
export type Run = Selectable<RunTable>;
export type RegistryCredential = Selectable<RegistryCredentialTable>;
export type Node = Selectable<NodeTable>;
export type NodeEvent = Selectable<NodeEventTable>;
export type WorkItem = Selectable<WorkItemTable>;
