import type { Deployment } from "@svc/proto";

/** What to type after a deployment failed: what mends the cause where its code tells, else how to read more. */
export function failureHint({ id, errorCode, artifact }: Deployment): string {
  const whole = `Read the whole log with \`svc logs ${id}\``;
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
      return whole;
  }
}
