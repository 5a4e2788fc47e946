// @pure
import type { Image, Observed } from "@svc/proto/node";
import type { Step, View } from "../view.ts";

/** What the container of a placement is made of. */
export interface ContainerShape {
  /** Absent from an assignment that is not whole. */
  image: Image | undefined;
  /** Whether the image may be one that an operator put on the node under a name. */
  mayBeLocal: boolean;
  /** Empty: the image's own. */
  command: readonly string[];
  env: Readonly<Record<string, string>>;
  /** The database that it is told of, which it can reach where its node's proxy knows the way; empty for none. */
  databaseId: string;
  /** Where it listens, which is published on a port of the node. */
  port: number;
  /** What it has for its end once it is asked to, before it is killed. */
  stopGraceSeconds: number;
}

/** What is particular to a kind of placement, as far as it is decided: one module for each, and one line in `kinds`. */
export interface PlacementKind<Spec> {
  /**
   * The container that it runs in, which outlives this agent: kept across restarts, sampled, and held to what it may write.
   * Null: it has none.
   */
  container: ((spec: Spec) => ContainerShape) | null;
  /** Visitors may be using it: a message stops many of these only on purpose, see `apply`. Control's table says the same. */
  isVisited: boolean;
  /**
   * What starts it again after a reboot of the machine: the journal alone, or an assignment that names it, heard since.
   */
  rebootsWith: "journal" | "grant";
  /** The next step of one that is to run and has not ended. */
  next(view: View): Step;
  /** How long a first start may take to answer. */
  healthTimeoutMs(spec: Spec): number;
  /** Names of the images that must stay on the node for it. `registryHost`: the cluster's; "" before it is known. */
  images(spec: Spec, at: { placementId: string; observed: Observed; registryHost: string }): string[];
  /** Values that its output must not show. */
  redact(spec: Spec): readonly string[];
}
