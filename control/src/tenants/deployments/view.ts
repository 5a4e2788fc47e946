import {
  type DeploymentListItem,
  type Deployment as DeploymentView,
  failureMessage,
  isOciManifest,
  isOpen,
  type Manifest,
  manifestSnapshot,
  type OciArtifact,
  type PlacementSummary,
  type PortableArtifact,
  type ReleaseSummary,
  splitLastLines,
  storedManifestSchema,
} from "@svc/proto";
import type { FleetView } from "../../fleet/cluster/facts.ts";
import type { Caller } from "../../http/caller.ts";
import type { Config } from "../../settings/settings.ts";
import type { Deployment } from "../../stores/db/tables.ts";
import type { ListedDeployment } from "./listing.ts";

const iso = (at: Date | null) => at?.toISOString() ?? null;
/** Of a time as Postgres writes it into JSON. */
const isoOf = (at: string | null | undefined) => iso(at ? new Date(at) : null);

/** A rollback skips the release command, also one that there is none of: only the manifest tells. */
const hasRelease = (manifest: unknown): boolean =>
  typeof manifest === "object" && manifest !== null && "release" in manifest;

const releaseView = (deployment: ListedDeployment): ReleaseSummary => ({
  configured: deployment.release_status !== "not_configured" && hasRelease(deployment.manifest),
  status: deployment.release_status,
  startedAt: isoOf(deployment.release?.startedAt),
  // One that no node took was over with its deployment.
  finishedAt:
    deployment.release_status === "failed" && deployment.release === null
      ? iso(deployment.finished_at)
      : isoOf(deployment.release?.finishedAt),
  exitCode: deployment.release?.exitCode ?? null,
  error: deployment.release_error,
  skippedReason: deployment.release_skipped_reason,
});

const ociArtifactView = (deployment: Deployment): OciArtifact => ({
  kind: "oci",
  requestedReference: deployment.requested_reference ?? "",
  digest: deployment.artifact_digest,
  os: deployment.artifact_os,
  architecture: deployment.artifact_architecture,
});

/** The image by digest as people name it; null until it is known, and for static sites. Says nothing of where our registry is. */
function imageRef({ artifact_kind, image_registry, artifact_repository, artifact_digest }: Deployment): string | null {
  if (artifact_kind !== "image" || artifact_repository === null || artifact_digest === null) return null;
  const host = image_registry === null ? "" : `${image_registry}/`;
  return `${host}${artifact_repository}@${artifact_digest}`;
}

const staticPath = ({ artifact_kind, artifact_repository, artifact_digest }: Deployment): string | null =>
  artifact_kind === "bundle" && artifact_repository !== null && artifact_digest !== null
    ? `${artifact_repository}@${artifact_digest}`
    : null;

function portableArtifactView(deployment: ListedDeployment): PortableArtifact {
  const { artifact_digest: digest, artifact_os: os, artifact_architecture: architecture } = deployment;
  const over = deployment.status === "failed" || deployment.status === "canceled";
  return {
    kind: deployment.type === "static" ? "bundle" : "image",
    state: digest !== null ? "ready" : over ? "failed" : "pending",
    digest,
    sizeBytes: deployment.artifact_size,
    platform: os !== null && architecture !== null ? `${os}/${architecture}` : null,
  };
}

function placementState({ status, awaitsNode, trouble, suspended }: ListedDeployment): PlacementSummary["state"] {
  switch (status) {
    case "queued":
    case "building":
      return "pending";
    case "deploying":
      return awaitsNode ? "placing" : "starting";
    case "running":
      if (suspended) return "stopped";
      return trouble === null ? "running" : trouble === "crashed" ? "crashing" : "failed";
    case "stopped":
    case "superseded":
      return "stopped";
    case "failed":
    case "canceled":
      return "failed";
  }
}

/** What is known of a node that does not answer may be long past; what it was granted may have run. */
function placementProblem(
  { status, release_status, release, suspended, containers, buildRefused }: ListedDeployment,
  { isLost }: Viewer,
): PlacementSummary["problem"] {
  const problem = (code: NonNullable<PlacementSummary["problem"]>["code"]) => ({ code, message: failureMessage(code) });
  const releases = release_status === "pending" || release_status === "running";
  if (status === "deploying" && releases && release !== null && isLost(release.nodeId))
    return problem("NODE_FENCE_REQUIRED");
  if (status === "building" && buildRefused) return problem("NODE_CAPACITY_UNAVAILABLE");
  if ((status !== "deploying" && status !== "running") || suspended) return null;
  if (containers.some(({ nodeId }) => nodeId !== null && isLost(nodeId))) return problem("STALE_NODE_OBSERVATION");
  const waits = containers.some(({ nodeId, refused }) => nodeId === null && refused !== null);
  return waits ? problem("NODE_CAPACITY_UNAVAILABLE") : null;
}

const placementView = (deployment: ListedDeployment, viewer: Viewer): PlacementSummary => ({
  state: placementState(deployment),
  problem: placementProblem(deployment, viewer),
  routeConverged: deployment.status === "running" || deployment.status === "stopped",
  lastTransitionAt: iso(deployment.lastTransitionAt),
});

/** Who looks, and what the installation shows. */
export interface Viewer {
  /** Shows what is known of a deployment on the fleet. */
  schedulerEnabled: boolean;
  /** Whether the caller may read output: an error may end with the last lines that a program wrote. */
  showsOutput: boolean;
  /** Whether nothing can be heard of a node. */
  isLost(nodeId: string): boolean;
}

export const viewerFor = (
  { scopes }: Pick<Caller, "scopes">,
  {
    config: { schedulerEnabled },
    fleet,
  }: { config: Pick<Config, "schedulerEnabled">; fleet: Pick<FleetView, "nodeLink"> },
): Viewer => ({
  schedulerEnabled,
  isLost: (nodeId) => fleet.nodeLink(nodeId).link === "unreachable",
  showsOutput: scopes === null || scopes.includes("logs:read") || scopes.includes("ci:deploy"),
});

const errorOf = (error: string | null, { showsOutput }: Viewer): string | null =>
  showsOutput || error === null ? error : splitLastLines(error).reason;

const isHeld = ({ status, held_at }: Deployment): boolean =>
  held_at !== null && (isOpen(status) || status === "stopped");

/** A deployment as lists show it. */
export const deploymentListView = (deployment: ListedDeployment, viewer: Viewer): DeploymentListItem => ({
  id: deployment.id,
  status: deployment.status,
  channel: deployment.channel,
  url: deployment.url,
  imageRef: imageRef(deployment),
  staticPath: staticPath(deployment),
  ...(deployment.type === "ociimage"
    ? { artifact: ociArtifactView(deployment) }
    : {
        sourceSize: deployment.source_size ?? 0,
        source: {
          rootDirectory: deployment.root_directory ?? ".",
          manifestPath: deployment.manifest_path ?? "",
          watchPaths: deployment.watch_paths ?? [],
        },
      }),
  error: errorOf(deployment.error, viewer),
  warnings: deployment.warnings,
  ...(isHeld(deployment) && { held: true as const }),
  crashing: deployment.suspended ? null : deployment.crashing,
  screenshotCapturedAt: iso(deployment.screenshotCapturedAt),
  trigger: deployment.trigger,
  gitSha: deployment.git_sha,
  gitRef: deployment.git_ref,
  gitRepository: deployment.git_repository,
  gitPrNumber: deployment.git_pr_number,
  release: releaseView(deployment),
  ...(viewer.schedulerEnabled && {
    portableArtifact: portableArtifactView(deployment),
    placement: placementView(deployment, viewer),
  }),
  createdAt: deployment.created_at.toISOString(),
  startedAt: iso(deployment.started_at),
  finishedAt: iso(deployment.finished_at),
});

/** One deployment in full. Commands and env-file names of its manifest are left out. */
export const deploymentView = (deployment: ListedDeployment, viewer: Viewer): DeploymentView => ({
  ...deploymentListView(deployment, viewer),
  projectId: deployment.project_id,
  // Image projects always have it; others once there is something to say.
  ...((deployment.type === "ociimage" || deployment.error_code !== null) && { errorCode: deployment.error_code }),
  manifest: manifestSnapshot(storedManifestSchema.parse(deployment.manifest)),
});

/** What the reply to an accepted deployment says of its artifact or source. */
export function acceptedView(
  manifest: Manifest,
): { artifact: OciArtifact } | { source: { rootDirectory: string; manifestPath: string; watchPaths: string[] } } {
  if (isOciManifest(manifest)) {
    const { reference } = manifest.image;
    return { artifact: { kind: "oci", requestedReference: reference, digest: null, os: null, architecture: null } };
  }
  return { source: manifest.source };
}
