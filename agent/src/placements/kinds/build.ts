// @pure
import { type BuildSpec, Desired, Observed } from "@svc/proto/node";
import { buildTag } from "../../build/tag.ts";
import type { PlacementKind } from "./kind.ts";

/** A build, which ends by itself. The engine runs its steps; there is no container of ours. */
export const build: PlacementKind<BuildSpec> = {
  container: null,
  // Who cancels some harms nobody else.
  isVisited: false,
  rebootsWith: "journal",
  next: ({ desired }) => (desired === Desired.RUNNING ? { do: "build" } : { do: "rest" }),
  healthTimeoutMs: () => 0,
  images: ({ targetRepository }, { placementId, observed, registryHost }) =>
    observed >= Observed.COMPLETED ? [] : [buildTag(`${registryHost}/${targetRepository}`, placementId)],
  redact: () => [],
};
