import type { ColumnType, Generated, GeneratedAlways, Insertable, JSONColumnType, Selectable } from "kysely";
import type { CrashingValue } from "../cluster/keys.ts";

/** A column that is read as a Date and written as one, and may be left to its default. */
type At = ColumnType<Date, Date | undefined, Date>;
type Labels = ColumnType<Record<string, string>, Record<string, string> | undefined, Record<string, string>>;
/** jsonb: read as a value, written as JSON text (a bare array would become a Postgres array). */
type Json<T> = ColumnType<T, string, string>;
type JsonOrNull<T> = ColumnType<T | null, string | null | undefined, string | null>;
type Nullable<T> = ColumnType<T | null, T | null | undefined, T | null>;

export type Channel = "production" | "preview" | "dev";
export type ProjectType = "static" | "ssr" | "ociimage";
export type DeploymentStatus =
  | "queued"
  | "building"
  | "deploying"
  | "running"
  | "failed"
  | "superseded"
  | "canceled"
  | "stopped";
export type ReleaseStatus = "not_configured" | "pending" | "running" | "succeeded" | "failed" | "skipped";

export interface PlanTable {
  id: Generated<string>;
  slug: string;
  name: string;
  is_default: Generated<boolean>;
  memory_mb: number;
  cpu_millicores: number;
  reserved_memory_mb: Nullable<number>;
  reserved_cpu_millicores: Nullable<number>;
  pids_limit: number;
  max_projects: number;
  max_deploys_per_hour: number;
  max_upload_mb: number;
  max_image_mb: number;
  max_env_vars: number;
  rate_limit_per_minute: Nullable<number>;
  monthly_requests: Nullable<number>;
  monthly_bandwidth_mb: Nullable<number>;
  storage_mb: number;
  db_size_mb: number;
  db_connection_limit: number;
  max_databases: number;
  max_backups: number;
  max_sse_connections: number;
  max_scheduled_jobs: number;
  max_custom_domains: number;
  dev_sync_enabled: boolean;
  previews_enabled: boolean;
  max_replicas: Generated<number>;
  max_drain_seconds: Generated<number>;
  node_selector: Labels;
  created_at: At;
  updated_at: At;
}

export interface AccountTable {
  user_id: string;
  plan_id: string;
}

export interface ApiTokenTable {
  id: Generated<string>;
  user_id: string;
  name: string;
  start: string;
  hash: Buffer;
  scopes: JsonOrNull<unknown>;
  project_ids: Nullable<string[]>;
  expires_at: Nullable<Date>;
  last_used_at: Nullable<Date>;
  created_at: At;
}

export interface ProjectTable {
  id: Generated<string>;
  owner_id: string;
  name: string;
  slug: string;
  type: ProjectType;
  framework: Nullable<string>;
  repo_url: Nullable<string>;
  repo_id: Nullable<string>;
  production_branch: Generated<string>;
  deploy_mode: Generated<"auto" | "preview">;
  suspended_at: Nullable<Date>;
  suspend_reason: Nullable<"quota" | "admin">;
  suspension_number: Generated<number>;
  resuming_at: Nullable<Date>;
  unrouted_at: Nullable<Date>;
  quota_waived_until: Nullable<Date>;
  password_hash: Nullable<string>;
  deleting_at: Nullable<Date>;
  next_slug: Nullable<string>;
  next_slug_at: Nullable<Date>;
  created_at: At;
  updated_at: At;
}

export interface EnvVarTable {
  project_id: string;
  key: string;
  value: Buffer;
}

export interface EnvOverlayTable {
  project_id: string;
  channel: Channel;
  key: string;
  value: Buffer;
}

export interface DeploymentTable {
  id: Generated<string>;
  project_id: string;
  status: Generated<DeploymentStatus>;
  channel: Channel;
  pr_number: Nullable<number>;
  url: string;
  error: Nullable<string>;
  error_code: Nullable<string>;
  trigger: Nullable<string>;
  git_sha: Nullable<string>;
  git_ref: Nullable<string>;
  git_repository: Nullable<string>;
  git_pr_number: Nullable<number>;
  manifest: Json<unknown>;
  root_directory: Nullable<string>;
  manifest_path: Nullable<string>;
  watch_paths: Nullable<string[]>;
  source_size: Nullable<number>;
  source_repository: Nullable<string>;
  source_digest: Nullable<string>;
  artifact_kind: Nullable<"image" | "bundle">;
  artifact_repository: Nullable<string>;
  artifact_digest: Nullable<string>;
  artifact_size: Nullable<number>;
  artifact_os: Nullable<string>;
  artifact_architecture: Nullable<string>;
  requested_reference: Nullable<string>;
  image_registry: Nullable<string>;
  env: Nullable<Buffer>;
  file_env: Nullable<Buffer>;
  origin: Nullable<"rollback" | "promote">;
  origin_deployment_id: Nullable<string>;
  cancel_requested_at: Nullable<Date>;
  held_at: Nullable<Date>;
  removing_at: Nullable<Date>;
  artifact_removed_at: Nullable<Date>;
  build_key: Nullable<string>;
  force_build: Generated<boolean>;
  release_status: Generated<ReleaseStatus>;
  release_attempt: Generated<number>;
  release_node_id: Nullable<string>;
  release_started_at: Nullable<Date>;
  release_finished_at: Nullable<Date>;
  release_exit_code: Nullable<number>;
  release_error: Nullable<string>;
  release_skipped_reason: Nullable<string>;
  number: GeneratedAlways<number>;
  created_by_token: Nullable<string>;
  phase_started_at: Nullable<Date>;
  created_at: At;
  started_at: Nullable<Date>;
  finished_at: Nullable<Date>;
}

export interface AcceptedDeployTable {
  deployment_id: string;
  user_id: string;
  at: At;
}

export interface DeploymentEventTable {
  id: GeneratedAlways<number>;
  deployment_id: string;
  at: At;
  phase: string;
  from_status: Nullable<string>;
  to_status: Nullable<string>;
  detail: Nullable<string>;
}

export interface SiteHostTable {
  host: string;
  project_id: string;
  channel: Channel;
  pr_number: Nullable<number>;
  slug: Nullable<string>;
  redirect_to: Nullable<string>;
  redirect_until: Nullable<Date>;
  for_next_slug: Generated<boolean>;
  redirected_until: Nullable<Date>;
}

export interface ChannelStateTable {
  project_id: string;
  channel: Channel;
  pr_number: Generated<number>;
  deployment_id: Nullable<string>;
  stopped: Generated<boolean>;
  changed_at: At;
}

export interface TaskTable {
  id: Generated<string>;
  project_id: string;
  deployment_id: string;
  kind: "build" | "serve";
  channel: Channel;
  pr_number: Generated<number>;
  replica: Generated<number>;
  epoch: GeneratedAlways<number>;
  desired: Generated<"running" | "stopped" | "removed">;
  spec: Json<unknown>;
  spec_hash: string;
  memory_mb: number;
  cpu_millicores: number;
  reserved_memory_mb: Nullable<number>;
  reserved_cpu_millicores: Nullable<number>;
  pids_limit: number;
  storage_mb: Generated<number>;
  node_id: Nullable<string>;
  node_selector: Labels;
  retiring_at: Nullable<Date>;
  drain_seconds: Generated<number>;
  served_at: Nullable<Date>;
  cause: Nullable<string>;
  refused: JsonOrNull<Record<string, number>>;
  trouble: Nullable<"crashed" | "ended">;
  noted_restarts: Generated<number>;
  notes: Generated<number>;
  crashing: JsonOrNull<CrashingValue>;
  created_at: At;
  reaped_at: Nullable<Date>;
}

export interface LogChunkTable {
  stream_id: string;
  offset: number;
  data: Buffer;
  created_at: At;
}

export interface ArtifactTable {
  id: string;
  project_id: string;
  repository: string;
  kind: "source" | "image" | "bundle";
  digest: Nullable<string>;
  size_bytes: Nullable<number>;
  created_at: At;
  ended_at: Nullable<Date>;
}

export interface RegistryCredentialTable {
  project_id: string;
  host: string;
  sealed: Buffer;
  created_at: At;
  updated_at: At;
}

export interface ImageLayerTable {
  project_id: string;
  digest: string;
  unpacked_bytes: number;
  origin: string | null;
  used_at: At;
}

export interface AccountRepositoryTable {
  user_id: string;
  name: string;
  created_at: At;
  push_until: Date;
  cleaning_until: Nullable<Date>;
  looked_at: Nullable<Date>;
}

export interface AccountManifestTable {
  user_id: string;
  name: string;
  digest: string;
  bytes: number;
  is_index: boolean;
  /** Digests that it names; null: no blob there. */
  parts: JsonOrNull<Record<string, number | null>>;
}

export interface AccountPushTable {
  user_id: string;
  name: string;
  digest: string;
}

export interface BaseImageTable {
  repository: string;
  digest: string;
  size_bytes: number;
  owner_id: Nullable<string>;
  copied_at: Nullable<Date>;
  used_at: At;
}

export interface ClusterTable {
  only: Generated<boolean>;
  id: string;
  epoch: Generated<number>;
  ca_certificate: string;
  ca_key: Buffer;
  previous_ca_certificate: Nullable<string>;
  cross_certificate: Nullable<string>;
  rotation_started_at: Nullable<Date>;
  rotation_finished_at: Nullable<Date>;
  created_at: At;
}

export interface LeaderFenceTable {
  only: Generated<boolean>;
  epoch: number;
}

export interface NodeTable {
  id: Generated<string>;
  role: "node" | "edge";
  name: string;
  incarnation: Generated<number>;
  lifecycle: Generated<"active" | "fenced" | "removed">;
  schedulable: Generated<boolean>;
  disk_full: Generated<boolean>;
  memory_short: Generated<boolean>;
  engine_stalled: Generated<boolean>;
  dockerfile_problem: string | null;
  drain: Generated<"none" | "draining" | "drained" | "deadline">;
  drain_generation: Generated<number>;
  drain_started_at: Nullable<Date>;
  drain_deadline: Nullable<Date>;
  reason: Nullable<string>;
  quarantined_at: Nullable<Date>;
  version: Nullable<string>;
  /** Where its agent said last that it is reached. */
  address: Nullable<string>;
  /** Where it may be reached. */
  addresses: JsonOrNull<string[]>;
  refusal: Nullable<string>;
  labels: JSONColumnType<Record<string, string>, string | undefined, string>;
  operator_labels: JSONColumnType<Record<string, string>, string | undefined, string>;
  capacity: JsonOrNull<{ memoryMb: number; cpuMillicores: number; pids: number; diskMb: number }>;
  platform: JsonOrNull<{ os: string; architecture: string }>;
  last_seen_at: Nullable<Date>;
  certificate_expires_at: Nullable<Date>;
  certificate_trust: Nullable<string>;
  created_at: At;
}

export interface NodeEventTable {
  id: GeneratedAlways<number>;
  node_id: string;
  at: At;
  kind: string;
  detail: Nullable<string>;
}

export interface BootstrapTokenTable {
  id: string;
  hash: Buffer;
  role: "node" | "edge";
  created_by: Nullable<string>;
  created_at: At;
  expires_at: Date;
  revoked_at: Nullable<Date>;
  used_at: Nullable<Date>;
  used_key_hash: Nullable<Buffer>;
  node_id: Nullable<string>;
  reused_at: Nullable<Date>;
  addresses: JsonOrNull<string[]>;
}

export interface LogQueryTable {
  request_id: string;
  node_id: string;
  asked_at: At;
}

export interface LogReplyTable {
  request_id: string;
  text: string;
  lines: number;
  error: Nullable<string>;
  state: Nullable<"running" | "exited" | "absent">;
  exit: JsonOrNull<{ code: number | null; oomKilled: boolean; reason: string; at: string }>;
  created_at: At;
}

export interface ResourceSampleTable {
  task_id: string;
  project_id: string;
  at: Date;
  cpu_percent: number;
  memory_bytes: number;
  pids: number;
}

export interface WorkItemTable {
  id: GeneratedAlways<number>;
  kind: string;
  key: string;
  payload: Json<unknown>;
  state: Generated<"queued" | "running" | "done" | "failed">;
  run_at: At;
  attempt: Generated<number>;
  max_attempts: Generated<number>;
  lease_owner: Nullable<string>;
  lease_until: Nullable<Date>;
  error: Nullable<string>;
  created_at: At;
  finished_at: Nullable<Date>;
}

export interface AuditTable {
  id: GeneratedAlways<number>;
  at: At;
  user_id: Nullable<string>;
  user_email: Nullable<string>;
  credential: Nullable<"session" | "key">;
  token_id: Nullable<string>;
  request_id: Nullable<string>;
  action: string;
  target: Nullable<string>;
  address: Nullable<string>;
  detail: Json<unknown>;
}

export interface UserDeletionTable {
  user_id: string;
  requested_by: Nullable<string>;
  requested_at: At;
}

export interface IdempotencyTable {
  user_id: string;
  key: string;
  request_hash: Buffer;
  status: number;
  body: Json<unknown>;
  created_at: At;
}

export interface TrafficHourTable {
  project_id: string;
  channel: Channel;
  hour: Date;
  requests: Generated<number>;
  bytes_in: Generated<number>;
  bytes_out: Generated<number>;
  s2xx: Generated<number>;
  s3xx: Generated<number>;
  s4xx: Generated<number>;
  s5xx: Generated<number>;
}

export interface TrafficMonthTable {
  user_id: string;
  /** First day of the month (UTC), as YYYY-MM-DD. */
  month: string;
  requests: Generated<number>;
  bytes_in: Generated<number>;
  bytes_out: Generated<number>;
  told: Nullable<"near" | "over">;
}

export interface TrafficBatchTable {
  edge_id: string;
  series: string;
  number: number;
}

export interface InviteTable {
  id: string;
  email: string;
  hash: Buffer;
  created_by: Nullable<string>;
  created_at: At;
  expires_at: Date;
  claimed_at: Nullable<Date>;
  used_at: Nullable<Date>;
  user_id: Nullable<string>;
}

export interface WaitlistEntryTable {
  email: string;
  created_at: At;
  invited_at: Nullable<Date>;
}

export interface ClaimLinkTable {
  only: Generated<boolean>;
  hash: Buffer;
  created_at: At;
  expires_at: Date;
}

/** better-auth's user, as far as svc reads it. Columns are its own, camelCase and quoted. */
export interface AuthUserTable {
  id: string;
  name: string;
  email: string;
  emailVerified: boolean;
  role: Nullable<string>;
  banned: Nullable<boolean>;
  banReason: Nullable<string>;
  banExpires: Nullable<Date>;
  createdAt: At;
  updatedAt: At;
}

export interface AuthSessionTable {
  id: string;
  token: string;
  userId: string;
  expiresAt: Date;
  ipAddress: Nullable<string>;
  userAgent: Nullable<string>;
  createdAt: At;
  updatedAt: At;
}

export interface AuthAccountTable {
  id: string;
  userId: string;
  providerId: string;
  accountId: string;
  password: Nullable<string>;
  accessToken: Nullable<string>;
  refreshToken: Nullable<string>;
  accessTokenExpiresAt: Nullable<Date>;
  createdAt: At;
  updatedAt: At;
}

export interface Database {
  plan: PlanTable;
  account: AccountTable;
  api_token: ApiTokenTable;
  project: ProjectTable;
  env_var: EnvVarTable;
  env_overlay: EnvOverlayTable;
  deployment: DeploymentTable;
  accepted_deploy: AcceptedDeployTable;
  deployment_event: DeploymentEventTable;
  site_host: SiteHostTable;
  channel_state: ChannelStateTable;
  task: TaskTable;
  log_chunk: LogChunkTable;
  registry_credential: RegistryCredentialTable;
  image_layer: ImageLayerTable;
  account_repository: AccountRepositoryTable;
  account_manifest: AccountManifestTable;
  account_push: AccountPushTable;
  artifact: ArtifactTable;
  base_image: BaseImageTable;
  cluster: ClusterTable;
  leader_fence: LeaderFenceTable;
  node: NodeTable;
  node_event: NodeEventTable;
  bootstrap_token: BootstrapTokenTable;
  log_query: LogQueryTable;
  log_reply: LogReplyTable;
  resource_sample: ResourceSampleTable;
  work_item: WorkItemTable;
  audit: AuditTable;
  user_deletion: UserDeletionTable;
  idempotency: IdempotencyTable;
  traffic_hour: TrafficHourTable;
  traffic_month: TrafficMonthTable;
  traffic_batch: TrafficBatchTable;
  invite: InviteTable;
  waitlist_entry: WaitlistEntryTable;
  claim_link: ClaimLinkTable;
  "auth.user": AuthUserTable;
  "auth.session": AuthSessionTable;
  "auth.account": AuthAccountTable;
}

export type Plan = Selectable<PlanTable>;
export type NewPlan = Insertable<PlanTable>;
export type Project = Selectable<ProjectTable>;
export type Deployment = Selectable<DeploymentTable>;
export type Task = Selectable<TaskTable>;
export type RegistryCredential = Selectable<RegistryCredentialTable>;
export type Node = Selectable<NodeTable>;
export type NodeEvent = Selectable<NodeEventTable>;
export type WorkItem = Selectable<WorkItemTable>;
