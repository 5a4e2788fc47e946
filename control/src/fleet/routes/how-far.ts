// @pure
import { limits } from "@svc/proto";

/** How far something that hosts are to show has come to visitors. */
export interface RouteFacts {
  /** The published table has it for every host. */
  published: boolean;
  /** Edges in rotation that have the published table, or a newer one. */
  edgesCurrent: number;
  edgesInRotation: number;
}

/** How long edges are waited for. */
export const routeMs = limits.routeSecondsMax * 1_000;

/** `behind`: it is published, and some edges did not follow in time; `nowhere`: not even that. `forMs`: since it was asked for. */
export function howFar(
  { published, edgesCurrent, edgesInRotation }: RouteFacts,
  forMs: number,
): "everywhere" | "coming" | "behind" | "nowhere" {
  if (published && edgesCurrent === edgesInRotation) return "everywhere";
  if (forMs < routeMs) return "coming";
  return published ? "behind" : "nowhere";
}
