import type { Deployment } from "@svc/proto";

/** Codes of an app that was built and then did not come up: its build log knows nothing of it. */
const startFailures: readonly string[] = [
  "START_FAILED",
  "CRASH_LOOP",
  "HEALTH_CHECK_FAILED",
  "OCI_DEPLOY_FAILED",
  "OCI_HEALTH_CHECK_FAILED",
];

/** Whether a deployment failed over an app that did not come up. */
export function startFailed({ errorCode, portableArtifact }: Deployment): boolean {
  if (startFailures.includes(errorCode ?? "")) return true;
  // Builds run out of memory, too, and leave no artifact.
  return errorCode === "OUT_OF_MEMORY" && portableArtifact?.state === "ready";
}

/** What to type after a deployment failed: what mends the cause where its code tells, else how to read more. */
export function failureHint(deployment: Deployment): string {
  const { id, errorCode, artifact } = deployment;
  if (startFailed(deployment)) return `Read what the app printed with \`svc logs --runtime --deployment ${id}\``;
  switch (errorCode) {
    case "OCI_AUTH_FAILED":
    case "OCI_CREDENTIAL_INVALID": {
      const host = artifact?.requestedReference.split("/")[0] ?? "<host>";
      return `Store a credential for the registry with \`svc registry set ${host} --username <name>\`, then deploy again`;
    }
    case "OCI_PULL_FAILED":
    case "OCI_PLATFORM_UNSUPPORTED":
    case "OCI_IMAGE_TOO_LARGE":
      return "Mend image.reference in the manifest, then run `svc deploy` again";
    default:
      return `Read the whole log with \`svc logs ${id}\``;
  }
}
