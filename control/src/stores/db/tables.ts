import type { Insertable, Selectable, Updateable } from "kysely";
import type {
  CustomDomainTable,
  DatabaseBackupScheduleTable,
  DatabaseBackupTable,
  DatabaseChangeTable,
  DatabaseCopyTable,
  DatabaseTable,
  DeploymentTable,
  DroppedDatabaseTable,
  JobRunTable,
  JobTable,
  NodeEventTable,
  NodeTable,
  OffsiteCopyTable,
  OffsiteFileTable,
  PlanTable,
  ProjectTable,
  RegistryCredentialTable,
  RestoreProofTable,
  RunTable,
  ScreenshotTable,
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
/** What is known of a branch that was dropped: see `tenants/databases/dropped`. */
export type DroppedBranch = Selectable<DroppedDatabaseTable>;
/** A scheduled job of a channel: see `tenants/jobs`. */
export type Job = Selectable<JobTable>;
/** One run of it, over all its attempts. */
export type JobRun = Selectable<JobRunTable>;
/** A picture of what a deployment shows. */
export type Screenshot = Selectable<ScreenshotTable>;
/** A backup of a branch. */
export type Backup = Selectable<DatabaseBackupTable>;
export type BackupStatus = Backup["status"];
/** A backup's file in a bucket outside of this site: see `tenants/databases/backups/offsite`. */
export type OffsiteFile = Selectable<OffsiteFileTable>;
/** What is in a bucket of a copy: see `tenants/databases/copies/offsite`. */
export type OffsiteCopy = Selectable<OffsiteCopyTable>;
/** A copy of a branch: see `tenants/databases/copies`. */
export type Copy = Selectable<DatabaseCopyTable>;
/** A branch on its way to another volume or server: see `tenants/databases/changes`. */
export type Change = Selectable<DatabaseChangeTable>;
export type RestoreProof = Selectable<RestoreProofTable>;
/** That a channel is backed up every night. */
export type BackupSchedule = Selectable<DatabaseBackupScheduleTable>;
/** A name of a tenant's own that is attached to a project: see `tenants/domains`. */
export type Domain = Selectable<CustomDomainTable>;
export type NewDomain = Insertable<CustomDomainTable>;
/** What an owner decides of it. */
export type DomainChange = Updateable<
  Pick<
    CustomDomainTable,
    "routing_target" | "redirect_domain_id" | "redirects_home" | "hsts_max_age_seconds" | "hsts_include_subdomains"
  >
>;
export type Task = Selectable<TaskTable>;
export type Run = Selectable<RunTable>;
export type RegistryCredential = Selectable<RegistryCredentialTable>;
export type Node = Selectable<NodeTable>;
export type NodeEvent = Selectable<NodeEventTable>;
export type WorkItem = Selectable<WorkItemTable>;
