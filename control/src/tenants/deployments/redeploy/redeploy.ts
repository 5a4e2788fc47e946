import {
  type Channel,
  type DeploymentMetadata,
  type DeploymentStatus,
  deploymentActionApplies,
  deploymentActions,
  type Manifest,
  type ProjectType,
} from "@svc/proto";
import type { HostAddress } from "../../hosts/address.ts";
import type { Refusal } from "../create/admission.ts";

/** What makes a new deployment of an earlier one's artifact. */
export type RedeployAction = "rollback" | "promote";

export const skippedByRollback = "a rollback does not run the release command";

export interface RedeploySource {
  type: ProjectType;
  channel: Channel;
  status: DeploymentStatus;
  /** Somebody removes it. */
  removing: boolean;
  /** Whether the registry still has what it ran; unknown when nobody could tell. */
  artifact: "there" | "gone" | "unknown";
}

/**
 * Why `source` cannot be rolled back to, or promoted. 400 for a channel from which the action never works, whatever
 * happens to the deployment: the request is the mistake. 409 for a state of the deployment that rules it out.
 */
export function sourceRefusal(action: RedeployAction, source: RedeploySource): Refusal | null {
  const { channel, status, artifact } = source;
  if (!takesChannel(action, source)) {
    return { code: "ROLLBACK_UNAVAILABLE", status: 400, message: wrongChannel(action, source) };
  }
  const unavailable = (message: string): Refusal => ({
    code: action === "rollback" ? "ROLLBACK_UNAVAILABLE" : "PROMOTE_UNAVAILABLE",
    status: 409,
    message,
  });
  if (source.removing) return unavailable("This deployment is being removed. Choose another one.");
  if (!deploymentActionApplies(action, status, channel)) {
    const wanted =
      action === "rollback" ? "superseded deployment can be rolled back to" : "running preview can be promoted";
    return unavailable(`Only a ${wanted}, and this one is ${status}.`);
  }
  if (artifact === "gone") return unavailable("The artifact of this deployment is gone. Deploy its source again.");
  if (artifact === "unknown") {
    return { code: "UNAVAILABLE", message: "The artifact registry does not answer. Try again in a moment." };
  }
  return null;
}

/** Image projects have no dev channel, so for them only production is rolled back. */
const takesChannel = (action: RedeployAction, { type, channel }: RedeploySource): boolean =>
  deploymentActions[action].some((status) => deploymentActionApplies(action, status, channel)) &&
  !(type === "ociimage" && channel === "dev");

function wrongChannel(action: RedeployAction, { type, channel }: RedeploySource): string {
  if (action === "promote") return `Only previews are promoted, and this deployment is of the channel ${channel}.`;
  return channel === "preview"
    ? "Previews are not rolled back. Promote one that runs, or deploy to the preview again."
    : `Projects of type ${type} roll back production only.`;
}

/** Where the new deployment goes: back to where its source was, or to production. */
export const addressOf = (action: RedeployAction, source: HostAddress): HostAddress =>
  action === "promote" ? { channel: "production", prNumber: null } : source;

/** The source's manifest where it is deployed to: one that forces a channel must not name another. */
export const manifestFor = (action: RedeployAction, manifest: Manifest): Manifest =>
  action === "promote" && manifest.channel !== undefined ? { ...manifest, channel: "production" } : manifest;

/** What the new deployment says of where it comes from: its source's facts, and what made it. */
export const attributionOf = (
  action: RedeployAction,
  source: {
    git_sha: string | null;
    git_ref: string | null;
    git_repository: string | null;
    git_pr_number: number | null;
  },
): DeploymentMetadata => ({
  trigger: action,
  gitSha: source.git_sha,
  gitRef: source.git_ref,
  gitRepository: source.git_repository,
  gitPrNumber: source.git_pr_number,
});
