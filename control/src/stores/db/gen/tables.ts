// Written by `npm run generate` from what the migrations make; never edited.
import type { Generated, GeneratedAlways } from "kysely";
import type { ColumnValues, GeneratedJson, Json, Nullable, NullableJson } from "../columns.ts";

export interface AcceptedDeployTable {
  deployment_id: string;
  user_id: string;
  at: Generated<Date>;
}

export interface AccountTable {
  user_id: string;
  plan_id: string;
}

export interface AccountManifestTable {
  user_id: string;
  name: string;
  digest: string;
  bytes: number;
  is_index: boolean;
  parts: NullableJson<ColumnValues["account_manifest.parts"]>;
}

export interface AccountPushTable {
  user_id: string;
  name: string;
  digest: string;
}

export interface AccountRepositoryTable {
  user_id: string;
  name: string;
  created_at: Generated<Date>;
  push_until: Date;
  cleaning_until: Nullable<Date>;
  looked_at: Nullable<Date>;
}

export interface AcmeAccountTable {
  directory: string;
  key: Buffer;
  url: Nullable<string>;
  created_at: Date;
}

export interface AcmeChallengeTable {
  token: string;
  name: string;
  kind: "http-01" | "dns-01";
  answer: string;
  remove_after: Nullable<Date>;
}

export interface AcmeOrderTable {
  id: GeneratedAlways<number>;
  directory: string;
  name: string;
  registered_domain: string;
  is_renewal: boolean;
  at: Date;
  issued_at: Nullable<Date>;
}

export interface AlertTable {
  project_id: string;
  event: string;
  subject: string;
  is_on: boolean;
  changed_at: Date;
  detail: string;
  told_since: Nullable<Date>;
  word_id: number;
  begins: Generated<number>;
  begins_since: Nullable<Date>;
}

export interface AlertDeliveryTable {
  id: Generated<string>;
  webhook_id: string;
  body: string;
  tries: Generated<number>;
  created_at: Generated<Date>;
  ended_at: Nullable<Date>;
  ok: Nullable<boolean>;
}

export interface AlertSettingTable {
  project_id: string;
  enabled: Generated<boolean>;
  choices: GeneratedJson<ColumnValues["alert_setting.choices"]>;
  hour_at: Nullable<Date>;
  hour_messages: Generated<number>;
  waiting: GeneratedJson<ColumnValues["alert_setting.waiting"]>;
  waiting_more: Generated<number>;
  look_at: Nullable<Date>;
}

export interface AlertWebhookTable {
  id: Generated<string>;
  project_id: string;
  url: string;
  secret: Buffer;
  previous_secret: Nullable<Buffer>;
  previous_until: Nullable<Date>;
  created_at: Generated<Date>;
  rotated_at: Nullable<Date>;
  last_at: Nullable<Date>;
  last_ok: Nullable<boolean>;
  last_status: Nullable<number>;
  last_problem: Nullable<string>;
  failing_since: Nullable<Date>;
  disabled_at: Nullable<Date>;
}

export interface AnalyticsDayTable {
  project_id: string;
  channel: "production" | "preview" | "dev";
  day: string;
  data: Json<ColumnValues["analytics_day.data"]>;
  visitors: number;
}

export interface AnalyticsHourTable {
  project_id: string;
  channel: "production" | "preview" | "dev";
  hour: Date;
  edge_id: string;
  series: string;
  seq: number;
  data: Json<ColumnValues["analytics_hour.data"]>;
  visitors: Buffer;
}

export interface AnalyticsMonthTable {
  project_id: string;
  channel: "production" | "preview" | "dev";
  month: string;
  data: Json<ColumnValues["analytics_month.data"]>;
  visitors: Json<ColumnValues["analytics_month.visitors"]>;
}

export interface AnalyticsSaltTable {
  day: string;
  salt: Buffer;
}

export interface AnalyticsUnfoldedTable {
  project_id: string;
  channel: "production" | "preview" | "dev";
  day: string;
  touched_at: Generated<Date>;
}

export interface AnalyticsUnfoldedMonthTable {
  project_id: string;
  channel: "production" | "preview" | "dev";
  month: string;
  touched_at: Generated<Date>;
}

export interface ApiTokenTable {
  id: Generated<string>;
  user_id: string;
  name: string;
  start: string;
  hash: Buffer;
  scopes: NullableJson<ColumnValues["api_token.scopes"]>;
  project_ids: Nullable<string[]>;
  expires_at: Nullable<Date>;
  last_used_at: Nullable<Date>;
  created_at: Generated<Date>;
}

export interface ArtifactTable {
  id: string;
  project_id: string;
  repository: string;
  kind: "source" | "image" | "bundle" | "backup" | "screenshot";
  digest: Nullable<string>;
  size_bytes: Nullable<number>;
  created_at: Generated<Date>;
  ended_at: Nullable<Date>;
}

export interface AttemptBucketTable {
  key: string;
  tokens: number;
  at: Date;
}

export interface AuditTable {
  id: GeneratedAlways<number>;
  at: Generated<Date>;
  user_id: Nullable<string>;
  token_id: Nullable<string>;
  action: string;
  target: Nullable<string>;
  address: Nullable<string>;
  detail: GeneratedJson<ColumnValues["audit.detail"]>;
  user_email: Nullable<string>;
  credential: Nullable<"session" | "key">;
  request_id: Nullable<string>;
}

export interface BaseImageTable {
  repository: string;
  digest: string;
  size_bytes: number;
  owner_id: Nullable<string>;
  copied_at: Nullable<Date>;
  used_at: Generated<Date>;
}

export interface BootstrapTokenTable {
  id: string;
  hash: Buffer;
  role: "node" | "edge";
  created_by: Nullable<string>;
  created_at: Generated<Date>;
  expires_at: Date;
  revoked_at: Nullable<Date>;
  used_at: Nullable<Date>;
  used_key_hash: Nullable<Buffer>;
  node_id: Nullable<string>;
  reused_at: Nullable<Date>;
  addresses: NullableJson<ColumnValues["bootstrap_token.addresses"]>;
}

export interface CertificateTable {
  name: string;
  registered_domain: string;
  state: "none" | "ordered" | "challenge_published" | "validating" | "issued" | "failed";
  chain: Nullable<string>;
  key: Nullable<Buffer>;
  fingerprint: Nullable<string>;
  not_before: Nullable<Date>;
  not_after: Nullable<Date>;
  issuer: Nullable<string>;
  ari_id: Nullable<string>;
  renew_at: Nullable<Date>;
  ask_at: Nullable<Date>;
  directory: Nullable<string>;
  order_url: Nullable<string>;
  order_key: Nullable<Buffer>;
  ordered_at: Nullable<Date>;
  since: Nullable<Date>;
  failures: Generated<number>;
  ca_failures: Generated<number>;
  failure_code: Nullable<string>;
  failure: Nullable<string>;
  next_at: Date;
}

export interface ChannelStateTable {
  project_id: string;
  channel: ColumnValues["channel_state.channel"];
  pr_number: Generated<number>;
  deployment_id: Nullable<string>;
  stopped: Generated<boolean>;
  changed_at: Generated<Date>;
}

export interface ClaimLinkTable {
  only: Generated<boolean>;
  hash: Buffer;
  created_at: Generated<Date>;
  expires_at: Date;
}

export interface ClusterTable {
  only: Generated<boolean>;
  id: string;
  epoch: Generated<number>;
  ca_certificate: string;
  ca_key: Buffer;
  created_at: Generated<Date>;
  previous_ca_certificate: Nullable<string>;
  cross_certificate: Nullable<string>;
  rotation_started_at: Nullable<Date>;
  rotation_finished_at: Nullable<Date>;
}

export interface CustomDomainTable {
  id: string;
  project_id: string;
  domain: string;
  status: "pending" | "verified" | "failed";
  routing_target: "production" | "preview" | "dev" | "disabled";
  txt_token: string;
  reason: Nullable<string>;
  dns_status: Nullable<"direct" | "proxied" | "unresolved" | "not-pointing">;
  created_at: Date;
  verify_until: Nullable<Date>;
  verified_at: Nullable<Date>;
  last_checked_at: Nullable<Date>;
  failing_since: Nullable<Date>;
  warnings: Generated<number>;
  warned_at: Nullable<Date>;
  hsts_max_age_seconds: Nullable<number>;
  hsts_include_subdomains: Generated<boolean>;
  redirect_domain_id: Nullable<string>;
  redirects_home: Generated<boolean>;
}

export interface DatabaseTable {
  id: string;
  project_id: string;
  channel: "production" | "preview" | "dev";
  engine: "postgres" | "mariadb";
  status: Generated<"provisioning" | "ready" | "dropping" | "error">;
  status_at: Generated<Date>;
  reason: Nullable<string>;
  admin_secret: Buffer;
  secret: Buffer;
  pending_secret: Nullable<Buffer>;
  node_id: Nullable<string>;
  tenant_at: Nullable<Date>;
  tenant_doubts: Generated<number>;
  role_connection_limit: Nullable<number>;
  read_only: Generated<boolean>;
  size_bytes: Nullable<number>;
  connections: Nullable<number>;
  measured_at: Nullable<Date>;
  created_at: Generated<Date>;
  volume_bytes: Nullable<number>;
  sized_volume_bytes: Nullable<number>;
  read_only_soft: Nullable<boolean>;
  generation: Generated<number>;
  keeper_secret: Nullable<Buffer>;
  keeper_at: Nullable<Date>;
  copies_looked_at: Nullable<Date>;
  server_failures: Generated<number>;
}

export interface DatabaseBackupTable {
  id: string;
  project_id: string;
  database_id: string;
  channel: "production" | "preview" | "dev";
  engine: "postgres" | "mariadb";
  status: Generated<"pending" | "running" | "complete" | "failed">;
  error: Nullable<string>;
  repository: Nullable<string>;
  digest: Nullable<string>;
  size_bytes: Nullable<number>;
  dump_bytes: Nullable<number>;
  created_at: Generated<Date>;
  ended_at: Nullable<Date>;
  scheduled_keep: Nullable<number>;
  offsite_secret: Nullable<Buffer>;
}

export interface DatabaseBackupScheduleTable {
  project_id: string;
  channel: "production" | "preview" | "dev";
  keep: number;
  night: Date;
  problem: Nullable<string>;
}

export interface DatabaseChangeTable {
  id: string;
  database_id: string;
  kind: "restore" | "move" | "upgrade";
  state: "copying" | "freezing" | "draining" | "stopping" | "restoring" | "done" | "failed";
  copy_id: Nullable<string>;
  until: Nullable<Date>;
  to_node: Nullable<string>;
  from_node: Nullable<string>;
  from_generation: number;
  frozen_position: Nullable<string>;
  problem: Nullable<string>;
  covered_at: Nullable<Date>;
  requested_by: string;
  created_at: Generated<Date>;
  state_at: Generated<Date>;
  ended_at: Nullable<Date>;
  freezes: Generated<number>;
  frozen_at: Nullable<Date>;
  undoing: Nullable<string>;
  cancelled: Generated<boolean>;
  image: Nullable<string>;
  volume_generation: Nullable<number>;
}

export interface DatabaseCopyTable {
  id: string;
  database_id: string;
  engine: "postgres" | "mariadb";
  project_id: string;
  channel: "production" | "preview" | "dev";
  generation: number;
  node_id: Nullable<string>;
  purpose: Generated<"keeper" | "move" | "successor">;
  state: Generated<"basing" | "following" | "broken" | "ended">;
  problem: Nullable<string>;
  covered_at: Nullable<Date>;
  position: Nullable<string>;
  bytes: Nullable<number>;
  bases: GeneratedJson<ColumnValues["database_copy.bases"]>;
  seen_at: Nullable<Date>;
  created_at: Generated<Date>;
  ended_at: Nullable<Date>;
  purge_at: Nullable<Date>;
  gone_at: Nullable<Date>;
  told_at: Nullable<Date>;
  released_at: Nullable<Date>;
  kept: Generated<boolean>;
  fetched_from: Nullable<string>;
}

export interface DatabaseLoginFailuresTable {
  database_id: string;
  node_id: string;
  failed: number;
}

export interface DatabaseSampleTable {
  database_id: string;
  sampled_at: Generated<Date>;
  size_bytes: number;
}

export interface DatabaseVolumeTable {
  database_id: string;
  generation: number;
  node_id: Nullable<string>;
  state: Generated<"current" | "salvage" | "dropped">;
  purge_at: Nullable<Date>;
  gone_at: Nullable<Date>;
  created_at: Generated<Date>;
  kept: Generated<boolean>;
  bytes: Nullable<number>;
}

export interface DeploymentTable {
  id: Generated<string>;
  project_id: string;
  status: Generated<"queued" | "building" | "deploying" | "running" | "failed" | "superseded" | "canceled" | "stopped">;
  channel: "production" | "preview" | "dev";
  pr_number: Nullable<number>;
  url: string;
  error: Nullable<string>;
  error_code: Nullable<string>;
  trigger: Nullable<string>;
  git_sha: Nullable<string>;
  git_ref: Nullable<string>;
  git_repository: Nullable<string>;
  git_pr_number: Nullable<number>;
  manifest: Json<ColumnValues["deployment.manifest"]>;
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
  release_status: Generated<"not_configured" | "pending" | "running" | "succeeded" | "failed" | "skipped">;
  release_error: Nullable<string>;
  release_skipped_reason: Nullable<string>;
  number: GeneratedAlways<number>;
  created_by_token: Nullable<string>;
  phase_started_at: Nullable<Date>;
  created_at: Generated<Date>;
  started_at: Nullable<Date>;
  finished_at: Nullable<Date>;
  cancel_requested_at: Nullable<Date>;
  origin: Nullable<"rollback" | "promote">;
  origin_deployment_id: Nullable<string>;
  file_env: Nullable<Buffer>;
  removing_at: Nullable<Date>;
  artifact_removed_at: Nullable<Date>;
  held_at: Nullable<Date>;
  build_key: Nullable<string>;
  force_build: Generated<boolean>;
}

export interface DeploymentEventTable {
  id: GeneratedAlways<number>;
  deployment_id: string;
  at: Generated<Date>;
  phase: string;
  from_status: Nullable<string>;
  to_status: Nullable<string>;
  detail: Nullable<string>;
}

export interface DroppedDatabaseTable {
  id: string;
  project_id: string;
  owner_id: string;
  channel: "production" | "preview" | "dev";
  engine: "postgres" | "mariadb";
  node_id: Nullable<string>;
  dropped_at: Generated<Date>;
  purge_at: Date;
  admin_secret: Nullable<Buffer>;
  secret: Nullable<Buffer>;
  keeper_secret: Nullable<Buffer>;
  generation: Generated<number>;
  role_connection_limit: Nullable<number>;
  pending_secret: Nullable<Buffer>;
  read_only: Generated<boolean>;
  read_only_soft: Nullable<boolean>;
  created_at: Nullable<Date>;
}

export interface EnvOverlayTable {
  project_id: string;
  channel: "production" | "preview" | "dev";
  key: string;
  value: Buffer;
}

export interface EnvVarTable {
  project_id: string;
  key: string;
  value: Buffer;
}

export interface IdempotencyTable {
  user_id: string;
  key: string;
  request_hash: Buffer;
  status: number;
  body: Json<ColumnValues["idempotency.body"]>;
  created_at: Generated<Date>;
}

export interface ImageLayerTable {
  project_id: string;
  digest: string;
  unpacked_bytes: number;
  used_at: Generated<Date>;
  origin: Nullable<string>;
}

export interface InviteTable {
  id: string;
  email: string;
  hash: Buffer;
  created_by: Nullable<string>;
  created_at: Generated<Date>;
  expires_at: Date;
  claimed_at: Nullable<Date>;
  used_at: Nullable<Date>;
  user_id: Nullable<string>;
}

export interface JobTable {
  id: Generated<string>;
  project_id: string;
  channel: "production" | "preview" | "dev";
  pr_number: Generated<number>;
  name: string;
  deployment_id: string;
  schedule: string;
  timezone: string;
  timeout_seconds: number;
  retries: number;
  overlap: "skip" | "queue";
  source_enabled: boolean;
  user_enabled: Nullable<boolean>;
  pause_reason: Nullable<"stopped" | "suspended" | "plan">;
  next_fire_at: Nullable<Date>;
  last_fire_at: Nullable<Date>;
  last_success_at: Nullable<Date>;
  retired_at: Nullable<Date>;
  created_at: Generated<Date>;
  updated_at: Generated<Date>;
}

export interface JobRunTable {
  id: Generated<string>;
  job_id: string;
  project_id: string;
  deployment_id: string;
  fire_at: Nullable<Date>;
  trigger: "schedule" | "manual";
  status: "queued" | "waiting" | "running" | "cancel_requested" | "succeeded" | "failed" | "timed_out" | "canceled" | "skipped";
  reason: Nullable<string>;
  message: Nullable<string>;
  missed: Generated<number>;
  attempt_count: Generated<number>;
  retry_at: Nullable<Date>;
  requested_by_token: Nullable<string>;
  requested_by: Nullable<string>;
  cancel_requested_at: Nullable<Date>;
  number: GeneratedAlways<number>;
  created_at: Generated<Date>;
  started_at: Nullable<Date>;
  finished_at: Nullable<Date>;
}

export interface LeaderFenceTable {
  only: Generated<boolean>;
  epoch: number;
}

export interface LogChunkTable {
  stream_id: string;
  offset: number;
  data: Buffer;
  created_at: Generated<Date>;
}

export interface LogQueryTable {
  request_id: string;
  node_id: string;
  asked_at: Generated<Date>;
}

export interface LogReplyTable {
  request_id: string;
  text: string;
  lines: number;
  error: Nullable<string>;
  created_at: Generated<Date>;
  state: Nullable<"running" | "exited" | "absent">;
  exit: NullableJson<ColumnValues["log_reply.exit"]>;
}

export interface NodeTable {
  id: Generated<string>;
  role: "node" | "edge";
  name: string;
  incarnation: Generated<number>;
  lifecycle: Generated<"active" | "fenced" | "removed">;
  schedulable: Generated<boolean>;
  version: Nullable<string>;
  address: Nullable<string>;
  labels: GeneratedJson<ColumnValues["node.labels"]>;
  capacity: NullableJson<ColumnValues["node.capacity"]>;
  platform: NullableJson<ColumnValues["node.platform"]>;
  last_seen_at: Nullable<Date>;
  certificate_expires_at: Nullable<Date>;
  created_at: Generated<Date>;
  disk_full: Generated<boolean>;
  drain: Generated<"none" | "draining" | "drained" | "deadline">;
  drain_generation: Generated<number>;
  drain_started_at: Nullable<Date>;
  drain_deadline: Nullable<Date>;
  reason: Nullable<string>;
  quarantined_at: Nullable<Date>;
  certificate_trust: Nullable<string>;
  engine_stalled: Generated<boolean>;
  operator_labels: GeneratedJson<ColumnValues["node.operator_labels"]>;
  addresses: NullableJson<ColumnValues["node.addresses"]>;
  refusal: Nullable<string>;
  dockerfile_problem: Nullable<string>;
  memory_short: Generated<boolean>;
  drain_moves_databases: Generated<boolean>;
  entering: Generated<boolean>;
}

export interface NodeEventTable {
  id: GeneratedAlways<number>;
  node_id: string;
  at: Generated<Date>;
  kind: string;
  detail: Nullable<string>;
}

export interface OffsiteCopyTable {
  id: string;
  copy_id: string;
  database_id: string;
  place: string;
  covered_at: Nullable<Date>;
  manifest_at: Nullable<Date>;
  position: Nullable<string>;
  bases: GeneratedJson<ColumnValues["offsite_copy.bases"]>;
  problem: Nullable<string>;
  touched_at: Generated<Date>;
}

export interface OffsiteFileTable {
  id: string;
  backup_id: Nullable<string>;
  place: string;
  piece_bytes: number;
  pieces: Generated<number>;
  digest: Nullable<string>;
  complete_at: Nullable<Date>;
  problem: Nullable<string>;
  touched_at: Generated<Date>;
}

export interface OffsiteKeyTable {
  database_id: string;
  secret: Buffer;
}

export interface OffsiteObjectTable {
  id: string;
  offsite_copy_id: string;
  parts: Json<ColumnValues["offsite_object.parts"]>;
  created_at: Generated<Date>;
  put_at: Nullable<Date>;
  useless_at: Nullable<Date>;
}

export interface PlanTable {
  id: Generated<string>;
  slug: string;
  name: string;
  is_default: Generated<boolean>;
  memory_mb: number;
  cpu_millicores: number;
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
  created_at: Generated<Date>;
  updated_at: Generated<Date>;
  max_replicas: Generated<number>;
  node_selector: GeneratedJson<ColumnValues["plan.node_selector"]>;
  max_drain_seconds: Generated<number>;
  reserved_memory_mb: Nullable<number>;
  reserved_cpu_millicores: Nullable<number>;
}

export interface ProjectTable {
  id: Generated<string>;
  owner_id: string;
  name: string;
  slug: string;
  type: "static" | "ssr" | "ociimage";
  framework: Nullable<string>;
  repo_url: Nullable<string>;
  repo_id: Nullable<string>;
  production_branch: Generated<string>;
  deploy_mode: Generated<"auto" | "preview">;
  suspended_at: Nullable<Date>;
  suspend_reason: Nullable<"quota" | "admin">;
  password_hash: Nullable<string>;
  deleting_at: Nullable<Date>;
  created_at: Generated<Date>;
  updated_at: Generated<Date>;
  next_slug: Nullable<string>;
  next_slug_at: Nullable<Date>;
  suspension_number: Generated<number>;
  resuming_at: Nullable<Date>;
  unrouted_at: Nullable<Date>;
  quota_waived_until: Nullable<Date>;
  db_engine: Nullable<"postgres" | "mariadb">;
}

export interface RegistryCredentialTable {
  project_id: string;
  host: string;
  sealed: Buffer;
  created_at: Generated<Date>;
  updated_at: Generated<Date>;
}

export interface RequestWindowTable {
  user_id: string;
  minute: number;
  requests: number;
}

export interface ResourceDayTable {
  project_id: string;
  channel: "production" | "preview" | "dev" | "all";
  day: string;
  moments: number;
  samples: number;
  cpu_sum: number;
  cpu_max: number;
  memory_sum: number;
  memory_max: number;
}

export interface ResourceHourTable {
  project_id: string;
  channel: "production" | "preview" | "dev" | "all";
  hour: Date;
  moments: number;
  samples: number;
  cpu_sum: number;
  cpu_max: number;
  memory_sum: number;
  memory_max: number;
}

export interface ResourceSampleTable {
  task_id: string;
  project_id: string;
  at: Date;
  cpu_percent: number;
  memory_bytes: number;
  pids: number;
}

export interface RestoreProofTable {
  id: string;
  database_id: string;
  copy_id: string;
  verdict: Generated<"pending" | "proven" | "failed">;
  problem: Nullable<string>;
  covered_at: Nullable<Date>;
  took_ms: Nullable<number>;
  bytes: Nullable<number>;
  created_at: Generated<Date>;
  ended_at: Nullable<Date>;
  base: Nullable<number>;
  source: NullableJson<ColumnValues["restore_proof.source"]>;
  looked_at: Nullable<Date>;
}

export interface RunTable {
  id: Generated<string>;
  project_id: string;
  owner_kind: "deployment" | "job";
  owner_id: string;
  kind: "release" | "job";
  number: number;
  node_id: string;
  started_at: Nullable<Date>;
  finished_at: Nullable<Date>;
  exit_code: Nullable<number>;
  outcome: Nullable<string>;
  message: Nullable<string>;
}

export interface SavedQueryTable {
  id: string;
  project_id: string;
  name: string;
  sql: string;
  created_at: Generated<Date>;
  updated_at: Generated<Date>;
}

export interface SchemaMigrationTable {
  name: string;
  hash: string;
  at: Generated<Date>;
}

export interface ScreenshotTable {
  id: Generated<string>;
  deployment_id: string;
  project_id: string;
  asked_at: Generated<Date>;
  pending: Generated<boolean>;
  failures: Generated<number>;
  error: Nullable<string>;
  repository: Nullable<string>;
  digest: Nullable<string>;
  size_bytes: Nullable<number>;
  captured_at: Nullable<Date>;
}

export interface SiteHostTable {
  host: string;
  project_id: string;
  channel: "production" | "preview" | "dev";
  pr_number: Nullable<number>;
  slug: Nullable<string>;
  redirect_to: Nullable<string>;
  redirect_until: Nullable<Date>;
  for_next_slug: Generated<boolean>;
  redirected_until: Nullable<Date>;
  domain_id: Nullable<string>;
}

export interface TaskTable {
  id: Generated<string>;
  project_id: string;
  owner_kind: "deployment" | "database" | "backup" | "copy" | "screenshot";
  owner_id: string;
  kind: "build" | "serve" | "database" | "backup" | "keeper" | "proof" | "capture";
  channel: ColumnValues["task.channel"];
  pr_number: Generated<number>;
  replica: Generated<number>;
  epoch: GeneratedAlways<number>;
  desired: Generated<"running" | "stopped" | "removed">;
  spec: Json<ColumnValues["task.spec"]>;
  spec_hash: string;
  memory_mb: number;
  cpu_millicores: number;
  pids_limit: number;
  node_id: Nullable<string>;
  refused: NullableJson<ColumnValues["task.refused"]>;
  created_at: Generated<Date>;
  reaped_at: Nullable<Date>;
  trouble: Nullable<"crashed" | "ended">;
  noted_restarts: Generated<number>;
  notes: Generated<number>;
  retiring_at: Nullable<Date>;
  cause: Nullable<string>;
  node_selector: GeneratedJson<ColumnValues["task.node_selector"]>;
  served_at: Nullable<Date>;
  storage_mb: Generated<number>;
  drain_seconds: Generated<number>;
  reserved_memory_mb: Nullable<number>;
  reserved_cpu_millicores: Nullable<number>;
  crashing: NullableJson<ColumnValues["task.crashing"]>;
  pinned_to: Nullable<string>;
}

export interface TrafficBatchTable {
  edge_id: string;
  series: string;
  number: number;
}

export interface TrafficDayTable {
  project_id: string;
  channel: "production" | "preview" | "dev";
  day: string;
  requests: Generated<number>;
  bytes_in: Generated<number>;
  bytes_out: Generated<number>;
  s2xx: Generated<number>;
  s3xx: Generated<number>;
  s4xx: Generated<number>;
  s5xx: Generated<number>;
}

export interface TrafficHourTable {
  project_id: string;
  channel: "production" | "preview" | "dev";
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
  month: string;
  requests: Generated<number>;
  bytes_in: Generated<number>;
  bytes_out: Generated<number>;
  told: Nullable<"near" | "over">;
}

export interface TrafficTotalHourTable {
  hour: Date;
  requests: Generated<number>;
  bytes_in: Generated<number>;
  bytes_out: Generated<number>;
}

export interface UnknownVolumeTable {
  node_id: string;
  name: string;
  since: Generated<Date>;
}

export interface UserDeletionTable {
  user_id: string;
  requested_by: Nullable<string>;
  requested_at: Generated<Date>;
}

export interface WaitlistEntryTable {
  email: string;
  created_at: Generated<Date>;
  invited_at: Nullable<Date>;
}

export interface WorkItemTable {
  id: GeneratedAlways<number>;
  kind: string;
  key: string;
  payload: Json<ColumnValues["work_item.payload"]>;
  state: Generated<"queued" | "running" | "done" | "failed">;
  run_at: Generated<Date>;
  attempt: Generated<number>;
  max_attempts: Generated<number>;
  lease_owner: Nullable<string>;
  lease_until: Nullable<Date>;
  error: Nullable<string>;
  created_at: Generated<Date>;
  finished_at: Nullable<Date>;
}

export interface AuthAccountTable {
  id: Generated<string>;
  accountId: string;
  providerId: string;
  userId: string;
  accessToken: Nullable<string>;
  refreshToken: Nullable<string>;
  idToken: Nullable<string>;
  accessTokenExpiresAt: Nullable<Date>;
  refreshTokenExpiresAt: Nullable<Date>;
  scope: Nullable<string>;
  password: Nullable<string>;
  createdAt: Generated<Date>;
  updatedAt: Date;
}

export interface AuthDeviceCodeTable {
  id: Generated<string>;
  deviceCode: string;
  userCode: string;
  userId: Nullable<string>;
  expiresAt: Date;
  status: string;
  lastPolledAt: Nullable<Date>;
  pollingInterval: Nullable<number>;
  clientId: Nullable<string>;
  scope: Nullable<string>;
}

export interface AuthRateLimitTable {
  id: Generated<string>;
  key: string;
  count: number;
  lastRequest: number;
}

export interface AuthSessionTable {
  id: Generated<string>;
  expiresAt: Date;
  token: string;
  createdAt: Generated<Date>;
  updatedAt: Date;
  ipAddress: Nullable<string>;
  userAgent: Nullable<string>;
  userId: string;
  impersonatedBy: Nullable<string>;
}

export interface AuthUserTable {
  id: Generated<string>;
  name: string;
  email: string;
  emailVerified: boolean;
  image: Nullable<string>;
  createdAt: Generated<Date>;
  updatedAt: Generated<Date>;
  role: Nullable<string>;
  banned: Nullable<boolean>;
  banReason: Nullable<string>;
  banExpires: Nullable<Date>;
}

export interface AuthVerificationTable {
  id: Generated<string>;
  identifier: string;
  value: string;
  expiresAt: Date;
  createdAt: Generated<Date>;
  updatedAt: Generated<Date>;
}

export interface Database {
  accepted_deploy: AcceptedDeployTable;
  account: AccountTable;
  account_manifest: AccountManifestTable;
  account_push: AccountPushTable;
  account_repository: AccountRepositoryTable;
  acme_account: AcmeAccountTable;
  acme_challenge: AcmeChallengeTable;
  acme_order: AcmeOrderTable;
  alert: AlertTable;
  alert_delivery: AlertDeliveryTable;
  alert_setting: AlertSettingTable;
  alert_webhook: AlertWebhookTable;
  analytics_day: AnalyticsDayTable;
  analytics_hour: AnalyticsHourTable;
  analytics_month: AnalyticsMonthTable;
  analytics_salt: AnalyticsSaltTable;
  analytics_unfolded: AnalyticsUnfoldedTable;
  analytics_unfolded_month: AnalyticsUnfoldedMonthTable;
  api_token: ApiTokenTable;
  artifact: ArtifactTable;
  attempt_bucket: AttemptBucketTable;
  audit: AuditTable;
  base_image: BaseImageTable;
  bootstrap_token: BootstrapTokenTable;
  certificate: CertificateTable;
  channel_state: ChannelStateTable;
  claim_link: ClaimLinkTable;
  cluster: ClusterTable;
  custom_domain: CustomDomainTable;
  database: DatabaseTable;
  database_backup: DatabaseBackupTable;
  database_backup_schedule: DatabaseBackupScheduleTable;
  database_change: DatabaseChangeTable;
  database_copy: DatabaseCopyTable;
  database_login_failures: DatabaseLoginFailuresTable;
  database_sample: DatabaseSampleTable;
  database_volume: DatabaseVolumeTable;
  deployment: DeploymentTable;
  deployment_event: DeploymentEventTable;
  dropped_database: DroppedDatabaseTable;
  env_overlay: EnvOverlayTable;
  env_var: EnvVarTable;
  idempotency: IdempotencyTable;
  image_layer: ImageLayerTable;
  invite: InviteTable;
  job: JobTable;
  job_run: JobRunTable;
  leader_fence: LeaderFenceTable;
  log_chunk: LogChunkTable;
  log_query: LogQueryTable;
  log_reply: LogReplyTable;
  node: NodeTable;
  node_event: NodeEventTable;
  offsite_copy: OffsiteCopyTable;
  offsite_file: OffsiteFileTable;
  offsite_key: OffsiteKeyTable;
  offsite_object: OffsiteObjectTable;
  plan: PlanTable;
  project: ProjectTable;
  registry_credential: RegistryCredentialTable;
  request_window: RequestWindowTable;
  resource_day: ResourceDayTable;
  resource_hour: ResourceHourTable;
  resource_sample: ResourceSampleTable;
  restore_proof: RestoreProofTable;
  run: RunTable;
  saved_query: SavedQueryTable;
  schema_migration: SchemaMigrationTable;
  screenshot: ScreenshotTable;
  site_host: SiteHostTable;
  task: TaskTable;
  traffic_batch: TrafficBatchTable;
  traffic_day: TrafficDayTable;
  traffic_hour: TrafficHourTable;
  traffic_month: TrafficMonthTable;
  traffic_total_hour: TrafficTotalHourTable;
  unknown_volume: UnknownVolumeTable;
  user_deletion: UserDeletionTable;
  waitlist_entry: WaitlistEntryTable;
  work_item: WorkItemTable;
  "auth.account": AuthAccountTable;
  "auth.deviceCode": AuthDeviceCodeTable;
  "auth.rateLimit": AuthRateLimitTable;
  "auth.session": AuthSessionTable;
  "auth.user": AuthUserTable;
  "auth.verification": AuthVerificationTable;
}
