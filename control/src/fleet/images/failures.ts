import type { FailureCode } from "@svc/proto";
import { EgressBlocked, MalformedManifest, RegistryError } from "@svc/registry";
import type { Refusal } from "./rules.ts";
import { BadLayer } from "./tar-size.ts";

/** An image cannot be had. Everything else that is thrown is trouble of ours, and worth another try. */
export class ImageRefused extends Error {
  override readonly name = "ImageRefused";
  readonly refusal: Refusal;
  /** Another try may help. */
  readonly temporary: boolean;

  constructor(refusal: Refusal, { temporary = false, cause }: { temporary?: boolean; cause?: unknown } = {}) {
    super(`${refusal.code}: ${refusal.message}`, { cause });
    this.refusal = refusal;
    this.temporary = temporary;
  }
}

/**
 * What an error of the registry that an image comes from means for the deployment. Nothing that the registry said is
 * passed on. Errors that are not the registry's stay what they are.
 */
export function upstreamFailure(error: unknown, { host, hasCredential }: { host: string; hasCredential: boolean }) {
  if (error instanceof BadLayer)
    return new ImageRefused({ code: "OCI_INSPECT_FAILED", message: error.message }, { cause: error });
  if (!(error instanceof RegistryError)) return error;
  const { temporary } = error;
  return new ImageRefused(refusalOf(error, host, hasCredential), { temporary, cause: error });
}

function refusalOf(error: RegistryError, host: string, hasCredential: boolean): Refusal {
  if (error instanceof EgressBlocked) return { code: "OCI_REGISTRY_BLOCKED", message: "" };
  if (error instanceof MalformedManifest) return { code: "OCI_INSPECT_FAILED", message: "" };
  if (error.code === "ARTIFACT_DIGEST_MISMATCH") return { code: "OCI_DIGEST_MISMATCH", message: "" };
  if (error.code === "ARTIFACT_TOO_LARGE") return { code: "OCI_INSPECT_FAILED", message: "" };
  if (error.status === 401 || error.status === 403) {
    const message = hasCredential
      ? `${host} refused the stored credential, or has no such image.`
      : `${host} wants a credential for this image, or has no such image. Set one for the project.`;
    return { code: "OCI_AUTH_FAILED", message };
  }
  if (error.status === 429)
    return {
      code: "OCI_PULL_FAILED",
      message: `${host} limits how much may be pulled. Try again later, or set a credential for it.`,
    };
  if (error.code === "ARTIFACT_NOT_FOUND") return { code: "OCI_PULL_FAILED", message: "" };
  return { code: "OCI_PULL_FAILED", message: `${host} does not answer as a registry should. Try again later.` };
}

/** Failures of nodes that have names of their own where images are deployed. */
const ofNodes: ReadonlyMap<string, FailureCode> = new Map<FailureCode, FailureCode>([
  ["HEALTH_CHECK_FAILED", "OCI_HEALTH_CHECK_FAILED"],
  ["IMAGE_TOO_LARGE", "OCI_IMAGE_TOO_LARGE"],
  ["START_FAILED", "OCI_DEPLOY_FAILED"],
  ["CRASH_LOOP", "OCI_DEPLOY_FAILED"],
  ["OUT_OF_MEMORY", "OCI_DEPLOY_FAILED"],
  ["NODE_TASK_FAILED", "OCI_DEPLOY_FAILED"],
  ["DEPLOY_FAILED", "OCI_DEPLOY_FAILED"],
]);

/** The code under which a failure is recorded on a deployment of an image; codes without a name there stay. */
export const ociFailure = (code: string): string => ofNodes.get(code) ?? code;
