import type { Deployment } from "@svc/proto";

type Progress = Pick<Deployment, "status" | "release" | "artifact" | "placement">;

/** A stretch of a deployment's way, in the words that people read. */
export interface Phase {
  /** While it goes on: "Building". */
  doing: string;
  /** Once it is over, with how long it took: "Built in 12 s". */
  done(time: string): string;
}

export const phases = {
  queued: { doing: "Waiting for its turn", done: (time) => `Waited ${time} for its turn` },
  build: { doing: "Building", done: (time) => `Built in ${time}` },
  reuse: { doing: "Preparing", done: (time) => `Prepared in ${time}` },
  pull: { doing: "Pulling the image", done: (time) => `Pulled the image in ${time}` },
  release: { doing: "Running the release command", done: (time) => `Ran the release command in ${time}` },
  start: { doing: "Starting", done: (time) => `Started in ${time}` },
  route: { doing: "Switching traffic over", done: (time) => `Switched traffic over in ${time}` },
} as const satisfies Record<string, Phase>;

/** Of a deployment that cannot go on by itself: what it waits for, by the code that the platform gives. */
export const waits = {
  NODE_CAPACITY_UNAVAILABLE: {
    doing: "Waiting for room on the platform",
    done: (time) => `Waited ${time} for room on the platform`,
  },
  NODE_FENCE_REQUIRED: {
    doing: "Waiting for the platform's administrator: the machine that has the release command does not answer",
    done: (time) => `Waited ${time} for the platform's administrator`,
  },
  STALE_NODE_OBSERVATION: {
    doing: "Waiting for a machine of the platform that does not answer",
    done: (time) => `Waited ${time} for a machine of the platform`,
  },
} as const satisfies Record<NonNullable<NonNullable<Progress["placement"]>["problem"]>["code"], Phase>;

/**
 * What a deployment is doing; null once it has settled. `reuses`: its artifact is that of an earlier one. A platform
 * that tells less of it has fewer phases.
 */
export function phaseOf({ status, release, artifact, placement }: Progress, reuses: boolean): Phase | null {
  if (status === "queued") return phases.queued;
  const wait = waitOf({ status, placement });
  if (status === "building") {
    if (wait !== null) return wait;
    if (reuses) return phases.reuse;
    return artifact === undefined ? phases.build : phases.pull;
  }
  if (status !== "deploying") return null;
  if (wait === waits.NODE_FENCE_REQUIRED) return wait;
  if (release.status === "pending" || release.status === "running") return phases.release;
  if (wait !== null) return wait;
  return placement?.state === "running" && !placement.routeConverged ? phases.route : phases.start;
}

/** What keeps a deployment from going on; null when nothing does, or when it serves all the same. */
export function waitOf({ status, placement }: Pick<Progress, "status" | "placement">): Phase | null {
  const code = placement?.problem?.code;
  if (code === undefined || (status !== "building" && status !== "deploying")) return null;
  // What has found its place waits for no room: that would be a further container of it.
  if (code === "NODE_CAPACITY_UNAVAILABLE" && status === "deploying" && placement?.state !== "placing") return null;
  return waits[code];
}
