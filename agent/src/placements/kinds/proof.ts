// @pure
import { Desired, type ProofSpec } from "@svc/proto/node";
import type { PlacementKind } from "./kind.ts";

/** The proof of a copy, which ends by itself. What it restores is done with when the agent is. */
export const proof: PlacementKind<ProofSpec> = {
  container: null,
  isVisited: false,
  rebootsWith: "journal",
  next: ({ desired }) => (desired === Desired.RUNNING ? { do: "prove-copy" } : { do: "rest" }),
  healthTimeoutMs: () => 0,
  // Its keeper has the same one.
  images: () => [],
  redact: () => [],
};
