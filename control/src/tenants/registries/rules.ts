// @pure
import { limits, type ProjectType } from "@svc/proto";

/** A refusal as the API tells it. */
export interface CredentialRefusal {
  code: "VALIDATION" | "QUOTA_EXCEEDED" | "DESTRUCTIVE_CONFIRMATION_REQUIRED";
  /** Without one the catalogue's sentence says it. */
  message?: string;
}

/** Projects that build their own images pull none. */
export const projectRefusal = (type: ProjectType): CredentialRefusal | null =>
  type === "ociimage"
    ? null
    : {
        code: "VALIDATION",
        message: `Projects of type ${type} have no registry credentials; those of type ociimage do.`,
      };

/** Whether a credential for `host` takes the place of another one, or why it may not be added to `hosts`. */
export function admitCredential(hosts: readonly string[], host: string): { rotates: boolean } | CredentialRefusal {
  if (hosts.includes(host)) return { rotates: true };
  if (hosts.length < limits.registryCredentialsPerProject) return { rotates: false };
  return {
    code: "QUOTA_EXCEEDED",
    message: `A project has credentials for at most ${limits.registryCredentialsPerProject} registries. Delete one first.`,
  };
}

/** Only the very word counts. */
export const confirmationRefusal = (confirm: unknown): CredentialRefusal | null =>
  confirm === true ? null : { code: "DESTRUCTIVE_CONFIRMATION_REQUIRED" };
