// @pure

import { type BlockerCode, type BlockerWait, limits, type NodeAxes, plural } from "@svc/proto";
import { explainRefusal } from "../../scheduler/placement.ts";
import type { KindRules } from "../../tasks/kinds/kind.ts";
import type { KindOfRun } from "../../tasks/run-kinds/run-kind.ts";

/** Why something is still on a node that is to be empty, in a word and in a sentence. */
export interface Blocker {
  waitsFor: BlockerWait;
  /** Set when time alone may not help. */
  code: BlockerCode | null;
  why: string;
}

/** Edges in rotation, and how many of them serve the published table as far as some hosts are concerned. */
export interface EdgesSeen {
  inRotation: number;
  current: number;
}

/** A task that a node still has. What is said of its deployment counts for what is `replaced` alone. */
export interface HeldTask {
  leaves: KindRules["leaves"];
  /** Project and channel, as commands take them. */
  whose: string;
  desired: "running" | "stopped" | "removed";
  /** Its deployment has neither succeeded nor failed yet. */
  isOnItsWay: boolean;
  /** Visitors of its channel are to be served by its deployment. */
  isServed: boolean;
  /** Since when edges are to leave it; null: they are not. */
  leavingSince: Date | null;
  /** Null when it is not leaving. */
  edges: EdgesSeen | null;
  /** The one that is to take its place; null when there is none yet. */
  replacement: { isPlaced: boolean; isServing: boolean; refused: Readonly<Record<string, number>> | null } | null;
}

const waits = (waitsFor: BlockerWait, why: string, code: BlockerCode | null = null): Blocker => ({
  waitsFor,
  code,
  why,
});

/** Whether the node can be told anything. */
const isAway = (link: NodeAxes["link"]): boolean => link === "unreachable" || link === "quarantined";

const fence = (what: string): Blocker =>
  waits("fence", `${what}, and the node does not answer. If it is off, fence it.`, "NODE_FENCE_REQUIRED");

/** What is known of the node and its drain. */
export interface DrainSeen {
  link: NodeAxes["link"];
  now: Date;
  /** Databases move along. */
  movesDatabases: boolean;
}

/** Why a task is still there. */
export function taskBlocker(task: HeldTask, { link, now, movesDatabases }: DrainSeen): Blocker {
  if (task.desired !== "running")
    return isAway(link) ? fence("It is to stop") : waits("stop", "It has been told to stop.");
  if (typeof task.leaves === "object") {
    const { stays, moveWith } = task.leaves;
    if (movesDatabases) return waits("move", `${stays} It moves when its turn comes, if a node takes it.`);
    return waits("move", `${stays} Move it with \`${moveWith} ${task.whose}\`, or drain with --move-databases.`);
  }
  if (task.leaves === "redone")
    return isAway(link)
      ? waits("build", "Its build is about to begin anew on another node.")
      : waits("build", "Its build still runs. At the deadline it begins anew on another node.");
  if (task.leavingSince !== null) return leavingBlocker(task.leavingSince, task.edges, now);
  if (task.isOnItsWay) return waits("deploy", "Its deployment is on its way, and moves once it serves.");
  if (!task.isServed) return waits("turn", "Its deployment is being retired.");
  return replacementBlocker(task.replacement);
}

function leavingBlocker(since: Date, edges: EdgesSeen | null, now: Date): Blocker {
  const behind = edges === null ? 0 : edges.inRotation - edges.current;
  if (edges === null || behind === 0) return waits("requests", "Requests that are under way come to their end.");
  const isLate = now.getTime() - since.getTime() > limits.routeSecondsMax * 1000;
  const why = `${behind} of ${plural(edges.inRotation, "edge")} may still send it visitors.`;
  return isLate
    ? waits("edges", `${why} If one is gone for good, fence it; else cordon it.`, "ROUTE_DIVERGED")
    : waits("edges", why);
}

function replacementBlocker(replacement: HeldTask["replacement"]): Blocker {
  if (replacement === null) return waits("turn", "It waits for its turn: a few move at a time.");
  const { isPlaced, isServing, refused } = replacement;
  if (isServing) return waits("edges", "Its replacement serves, and edges are about to leave it.");
  if (isPlaced) return waits("start", "Its replacement is starting on another node.");
  return refused === null
    ? waits("node", "A node is being looked for that takes its replacement.")
    : waits("node", `No node takes its replacement (${explainRefusal(refused)}).`, "NODE_CAPACITY_UNAVAILABLE");
}

/** Why a run is still there. `isClaimed`: it may have started, so nobody else may run it. */
export function runBlocker(
  { called, waitsFor }: Pick<KindOfRun, "called" | "waitsFor">,
  isClaimed: boolean,
  link: NodeAxes["link"],
): Blocker {
  if (!isClaimed) return waits(waitsFor, `Its ${called.one} was not started yet, and is taken back.`);
  return isAway(link)
    ? fence(`Its ${called.one} may still run there`)
    : waits(waitsFor, `Its ${called.one} still runs. At the deadline it is ended.`);
}
