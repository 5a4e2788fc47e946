/**
 * Why a deployment failed: codes recorded on the deployment (`errorCode`), never an HTTP error.
 * Each message is what the person who deployed reads when nothing more exact is known.
 */

/** Failures of `ociimage` deployments, and of base images that a build starts from. Nothing that a registry answered is copied into them. */
export const ociFailures = {
  OCI_PLAN_UNAVAILABLE: "The plan does not include container images.",
  OCI_REGISTRY_BLOCKED: "The registry's address is not a public one.",
  OCI_CREDENTIAL_INVALID: "The stored registry credential could not be read. Set it again.",
  OCI_AUTH_FAILED: "The registry wants a credential, or refused the stored one.",
  OCI_PULL_FAILED: "The image could not be pulled. Check that the reference exists.",
  OCI_PULL_TIMEOUT: "Pulling the image took longer than 15 minutes.",
  OCI_IMAGE_TOO_LARGE: "The image is larger than the plan allows.",
  OCI_DIGEST_MISMATCH: "The registry delivered something else than the digest that was asked for.",
  OCI_PLATFORM_UNSUPPORTED: "The image is not built for Linux on this installation's architecture.",
  OCI_ENTRYPOINT_MISSING: "The image has neither an entrypoint nor a command.",
  OCI_INSPECT_FAILED: "The image's metadata or size could not be verified.",
  OCI_DEPLOY_FAILED: "The container could not be created or activated.",
  OCI_HEALTH_CHECK_FAILED: "The container did not answer its health path with a success in time.",
} as const;

/** Failures of the fleet, safe to show: they name no node and no address. */
export const portableFailures = {
  NODE_CAPACITY_UNAVAILABLE:
    "There is no room for this deployment now. Remove what you no longer need, or ask the administrator for more.",
  NODE_UNAVAILABLE: "No machine of the platform can take this work now. Try again later.",
  NODE_FENCE_REQUIRED:
    "The machine of the platform that has this work does not answer. Its administrator has to give it up first.",
  STALE_NODE_OBSERVATION: "A machine of the platform that this deployment is on does not answer just now.",
  NODE_TASK_FAILED: "The platform failed at its part of the work. Deploy again.",
  ROUTE_DIVERGED: "Not every edge took the new route in time. The previous deployment keeps serving where it did not.",
  ARTIFACT_NOT_FOUND: "The artifact is not in the registry any more. Deploy again.",
  ARTIFACT_DIGEST_MISMATCH: "The artifact does not match its digest. Deploy again.",
  ARTIFACT_REGISTRY_UNAVAILABLE: "The artifact registry does not answer. Try again when it is back.",
} as const;

/** Failures of building, releasing and starting source projects, and of the wait for them. */
export const deployFailures = {
  SOURCE_INVALID: "The uploaded archive could not be unpacked safely. Pack the project again.",
  SOURCE_TOO_LARGE:
    "The uploaded archive unpacks to more than is allowed. Leave out files that the build does not need.",
  BUILD_FAILED: "The build failed. The build log says why.",
  BUILD_TIMEOUT: "The build took longer than 15 minutes.",
  BUILD_OUTPUT_MISSING: "The build made no output directory. Check build.output in the manifest.",
  IMAGE_TOO_LARGE: "The built image is larger than the plan allows.",
  ARTIFACT_TOO_LARGE: "The artifact is larger than is allowed.",
  RELEASE_FAILED: "The release command failed. The previous deployment keeps serving; the log says why.",
  RELEASE_TIMEOUT: "The release command ran longer than release.timeoutSeconds.",
  RELEASE_INDETERMINATE:
    "It is not known whether the release command ran to its end. Check the data, then deploy again.",
  START_FAILED: "The container did not start. The log says why.",
  CRASH_LOOP: "The container kept exiting.",
  OUT_OF_MEMORY: "The container ran out of memory.",
  HEALTH_CHECK_FAILED: "The app did not answer its health path with a success in time. Check app.port and health.path.",
  DATABASE_NOT_READY: "The database of this channel is not ready.",
  PROJECT_SUSPENDED: "The project was suspended.",
  DEPLOY_FAILED: "The deployment failed.",
} as const;

/** Why a database's server does not run, said by its node. None of them is ever answered by making the data anew. */
export const databaseFailures = {
  DATABASE_HELD: "Another server still has the data of this database.",
  DATABASE_VERSION_MISMATCH: "The data is of another version of the engine, or of another engine, than the server.",
  DATABASE_DATA_MISSING: "The data of this database is not on its machine.",
  DATABASE_SPEC_INVALID: "The server was told too little, or something that it does not understand.",
  DATABASE_NOT_ANSWERING: "The database server took no sessions in time.",
  DATABASE_COPY_MISSING: "The copy that this database was to be restored from is not on its machine.",
  DATABASE_COPY_UNCOVERED: "The copy does not reach to that moment.",
  DATABASE_RESTORE_FAILED: "The copy could not be restored.",
} as const;

/** Why it is not known whether a copy can be restored, said by its node. What is found wrong with it is a failure of a database. */
export const proofFailures = {
  PROOF_FAILED: "The copy was restored, but could not be read to its end.",
  PROOF_TIMEOUT: "Restoring the copy took longer than it may.",
} as const;

/** Why a backup was not made, said by the node of its database. */
export const backupFailures = {
  BACKUP_FAILED: "The database could not be read to its end.",
  BACKUP_INCOMPLETE: "What the database wrote out was not whole.",
  BACKUP_TOO_LARGE: "The backup is larger than is allowed.",
  BACKUP_TIMEOUT: "The backup took longer than two hours.",
} as const;

/** Why there is no picture of a site, said by the node that tried. */
export const captureFailures = {
  CAPTURE_FAILED: "The browser came to no picture of the site.",
  CAPTURE_SITE_FAILED: "The site did not answer with a page.",
  CAPTURE_TOO_LARGE: "The picture of the site is larger than is allowed.",
  CAPTURE_TIMEOUT: "The site was not shown in time.",
} as const;

const allFailures = {
  ...{ ...ociFailures, ...portableFailures, ...deployFailures },
  ...{ ...databaseFailures, ...backupFailures, ...proofFailures, ...captureFailures },
};

export type OciFailureCode = keyof typeof ociFailures;
export type PortableFailureCode = keyof typeof portableFailures;
export type DeployFailureCode = keyof typeof deployFailures;
export type DatabaseFailureCode = keyof typeof databaseFailures;
export type FailureCode = keyof typeof allFailures;

export const isFailureCode = (value: unknown): value is FailureCode =>
  typeof value === "string" && Object.hasOwn(allFailures, value);

export const isOciFailureCode = (value: unknown): value is OciFailureCode =>
  typeof value === "string" && Object.hasOwn(ociFailures, value);

/** The public sentence of `code`; that of DEPLOY_FAILED for a code that is not ours. */
export const failureMessage = (code: string): string =>
  isFailureCode(code) ? allFailures[code] : allFailures.DEPLOY_FAILED;
