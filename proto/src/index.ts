/** What programs agree on besides protobuf messages: names, limits, states, errors, and the HTTP API's shapes. */
export * from "./api/admin.ts";
export * from "./api/alert.ts";
export * from "./api/analytics.ts";
export * from "./api/authority.ts";
export * from "./api/database.ts";
export * from "./api/database-change.ts";
export * from "./api/database-volume.ts";
export * from "./api/deployment.ts";
export * from "./api/doctor.ts";
export * from "./api/domain.ts";
export * from "./api/env.ts";
export {
  channel as channelSchema,
  count as countSchema,
  type ErrorReply,
  errorReply,
  id as idSchema,
  idParams,
  queuedReply,
  replyObject,
  success,
  timestamp as timestampSchema,
  validationCode,
  validationMessage,
  versionHeader,
} from "./api/envelope.ts";
export * from "./api/githost.ts";
export * from "./api/invite.ts";
export * from "./api/job.ts";
export * from "./api/me.ts";
export * from "./api/metrics.ts";
export * from "./api/node.ts";
export * from "./api/node-label.ts";
export * from "./api/placement.ts";
export * from "./api/plan.ts";
export * from "./api/project.ts";
export * from "./api/registry-credential.ts";
export * from "./api/registry-login.ts";
export * from "./api/runtime.ts";
export * from "./api/span.ts";
export * from "./api/token.ts";
export * from "./archive.ts";
export * from "./archive-entries.ts";
export { RefusedArchiveError } from "./archive-refusal.ts";
export * from "./capture-image.ts";
export * from "./copy-files.ts";
export * from "./database.ts";
export * from "./database-images.ts";
export * from "./database-proxy.ts";
export * from "./dotenv.ts";
export { editDistance } from "./edit-distance.ts";
export * from "./email.ts";
export * from "./errors.ts";
export * from "./failures.ts";
export * from "./hosts.ts";
export * from "./image.ts";
export * from "./last-lines.ts";
export * from "./lifecycle.ts";
export * from "./limits.ts";
export * from "./manifest.ts";
export * from "./manifest-yaml.ts";
export * from "./names.ts";
export * from "./node-images.ts";
export * from "./paths.ts";
export * from "./schedule.ts";
export * from "./scopes.ts";
export * from "./served-site.ts";
export { createTarReader, type TarHeader, type TarType } from "./tar.ts";
export * from "./text.ts";
