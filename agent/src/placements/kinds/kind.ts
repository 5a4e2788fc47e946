// @pure
import type { Observed } from "@svc/proto/node";
import type { Step, View } from "../view.ts";

/** What is particular to a kind of placement, as far as it is decided: one module for each, and one line in `kinds`. */
export interface PlacementKind<Spec> {
  /** It runs in a container, which outlives this agent: kept across restarts, sampled, and held to what it may write. */
  hasContainer: boolean;
  /** The next step of one that is to run and has not ended. */
  next(view: View): Step;
  /** How long a first start may take to answer. */
  healthTimeoutMs(spec: Spec): number;
  /** Names of the images that must stay on the node for it. `registryHost`: the cluster's; "" before it is known. */
  images(spec: Spec, at: { placementId: string; observed: Observed; registryHost: string }): string[];
  /** Values that its output must not show. */
  redact(spec: Spec): readonly string[];
}
