// @pure
import { type Channel, type DeploymentStatus, isOpen } from "@svc/proto";
import type { Refusal } from "../create/admission.ts";

/**
 * Why a deployment cannot be removed; null when it can. What production serves, or would after a start, goes only
 * with a deployment that replaces it or with the project: removing it by accident must not take a site down.
 */
export function removeRefusal({ status, channel }: { status: DeploymentStatus; channel: Channel }): Refusal | null {
  const unavailable = (message: string): Refusal => ({ code: "DELETE_UNAVAILABLE", message });
  if (isOpen(status)) return unavailable(`The deployment is ${status}. Cancel it first.`);
  if (channel === "production" && status === "running")
    return unavailable(
      "Production serves this deployment. Deploy or roll back to another one first, or delete the project.",
    );
  if (channel === "production" && status === "stopped")
    return unavailable(
      "This deployment is what production starts again. Deploy another one first, or delete the project.",
    );
  return null;
}
