// @pure
import { type BackupSpec, Desired } from "@svc/proto/node";
import type { PlacementKind } from "./kind.ts";

/** A backup, which ends by itself. The program that makes it is done with when the agent is: what it wrote went to nobody. */
export const backup: PlacementKind<BackupSpec> = {
  container: null,
  isVisited: false,
  rebootsWith: "journal",
  next: ({ desired }) => (desired === Desired.RUNNING ? { do: "backup" } : { do: "rest" }),
  healthTimeoutMs: () => 0,
  // The server that it reads has the same one.
  images: () => [],
  redact: ({ password }) => [password],
};
