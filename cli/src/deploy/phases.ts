import type { Deployment } from "@svc/proto";

/** A stretch of a deployment's way, in the words that people read. */
export type Phase = {
  /** While it goes on: "Building". */
  doing: string;
  /** Once it is over, with how long it took: "Built in 12 s". */
  done(time: string): string;
};

export const phases = {
  queued: { doing: "Waiting for its turn", done: (time) => `Waited ${time} for its turn` },
  node: { doing: "Waiting for a node", done: (time) => `Waited ${time} for a node` },
  build: { doing: "Building", done: (time) => `Built in ${time}` },
  reuse: { doing: "Preparing", done: (time) => `Prepared in ${time}` },
  pull: { doing: "Pulling the image", done: (time) => `Pulled the image in ${time}` },
  release: { doing: "Running the release command", done: (time) => `Ran the release command in ${time}` },
  start: { doing: "Starting", done: (time) => `Started in ${time}` },
  route: { doing: "Switching traffic over", done: (time) => `Switched traffic over in ${time}` },
} as const satisfies Record<string, Phase>;

type Progress = Pick<Deployment, "status" | "release" | "artifact" | "placement">;

/**
 * What a deployment is doing; null once it has settled. `reuses`: its artifact is that of an earlier one. A platform
 * that tells less of it has fewer phases.
 */
export function phaseOf({ status, release, artifact, placement }: Progress, reuses: boolean): Phase | null {
  if (status === "queued") return phases.queued;
  const waits = placement?.problem?.code === "NODE_CAPACITY_UNAVAILABLE";
  if (status === "building" && waits) return phases.node;
  if (status === "building") {
    if (reuses) return phases.reuse;
    return artifact === undefined ? phases.build : phases.pull;
  }
  if (status !== "deploying") return null;
  if (release.status === "pending" || release.status === "running") return phases.release;
  if (waits && placement.state === "placing") return phases.node;
  return placement?.state === "running" && !placement.routeConverged ? phases.route : phases.start;
}
