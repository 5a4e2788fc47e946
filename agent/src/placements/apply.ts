import {
  type Assign,
  Assign_Kind,
  Desired,
  Observed,
  type Placement,
  type Reject,
  type Resources,
} from "@svc/proto/node";
import type { Chain } from "../journal/records.ts";

/** What the decision needs to know of a placement that the node holds. */
export interface Held {
  epoch: bigint;
  desired: Desired;
  observed: Observed;
  specHash: string;
  isVisited: boolean;
  /** Undefined for what was found without a journal. */
  resources: Resources | undefined;
}

/** What an assignment does to the node. */
export type Application =
  /** Older than what the node knows: dropped without a trace. */
  | { outcome: "refuse"; reason: string }
  /** It does not continue the chain: ask for a COMPLETE. */
  | { outcome: "resync"; reason: string }
  /** It would stop too much at once. */
  | { outcome: "hold"; reason: string }
  | {
      outcome: "accept";
      chain: Chain;
      /** Placements to take over, new or changed. */
      upserts: Placement[];
      /** To be stopped, removed, and then forgotten. */
      removes: string[];
      /** Held, and not named by a COMPLETE: they go on, marked, until a verdict. */
      orphans: string[];
      /** Named by control again. */
      adopted: string[];
      rejects: Pick<Reject, "placementId" | "reason">[];
    };

/** A message may stop this many running containers, or this share of them, whichever is more. */
const massStopCount = 3;
const massStopShare = 0.3;

/** Ids become names of containers and files, so nothing else is let in. */
const idPattern = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/;

/**
 * Decides what an assignment changes, and changes nothing itself. The rules:
 * - A message from an older cluster or leader epoch is refused.
 * - A DELTA has to continue where the chain stands; a COMPLETE starts it anew, but never goes back.
 * - What a COMPLETE does not name becomes an orphan. Absence never stops anything.
 * - More than `max(3, 30 %)` of what runs is stopped only with a bulk token.
 * - Desired states only move forward, an older placement epoch is rejected, a spec never changes.
 * - Of two generations of limits the newer one counts.
 */
export function apply(chain: Chain, held: ReadonlyMap<string, Held>, assign: Assign): Application {
  const isOlder =
    assign.clusterEpoch < chain.clusterEpoch ||
    (assign.clusterEpoch === chain.clusterEpoch && assign.leaderEpoch < chain.leaderEpoch);
  if (isOlder) return { outcome: "refuse", reason: "from an older epoch" };
  const isNewCluster = assign.clusterEpoch > chain.clusterEpoch;
  const isComplete = assign.kind === Assign_Kind.COMPLETE;
  if (!isComplete && (isNewCluster || chain.beginsAnew || assign.appliesTo !== chain.resultsIn)) {
    const inForce = chain.beginsAnew ? "everything is to be named again" : `${chain.resultsIn} is in force`;
    return { outcome: "resync", reason: `changes on top of ${assign.appliesTo}, while ${inForce}` };
  }
  if (isComplete && !isNewCluster && isBefore(assign.resultsIn, chain.resultsIn)) {
    return { outcome: "refuse", reason: `revision ${assign.resultsIn} is older than ${chain.resultsIn}` };
  }

  const rejects: Pick<Reject, "placementId" | "reason">[] = [];
  const upserts: Placement[] = [];
  for (const placement of assign.upserts) {
    const reason = refusal(held.get(placement.placementId), placement);
    if (reason === null) upserts.push(placement);
    else rejects.push({ placementId: placement.placementId, reason });
  }
  const removes = assign.removes
    .filter((ref) => ref.epoch >= (held.get(ref.placementId)?.epoch ?? ref.epoch + 1n))
    .map((ref) => ref.placementId);

  const stops = countStops(held, upserts, removes);
  const running = [...held.values()].filter(isRunning).length;
  const limit = Math.max(massStopCount, running * massStopShare);
  if (stops > limit && assign.bulkToken === "") {
    return { outcome: "hold", reason: `would stop ${stops} of ${running} running placements without a bulk token` };
  }

  const named = new Set([...assign.upserts.map((placement) => placement.placementId), ...removes]);
  return {
    outcome: "accept",
    chain: {
      ...{ clusterEpoch: assign.clusterEpoch, leaderEpoch: assign.leaderEpoch, resultsIn: assign.resultsIn },
      beginsAnew: false,
    },
    upserts: upserts.map((placement) => forward(held.get(placement.placementId), placement)),
    removes,
    orphans: isComplete ? [...held.keys()].filter((id) => !named.has(id)) : [],
    adopted: [...held.keys()].filter((id) => named.has(id)),
    rejects,
  };
}

function refusal(held: Held | undefined, placement: Placement): string | null {
  if (!idPattern.test(placement.placementId)) return "malformed id";
  if (held === undefined) return null;
  if (placement.epoch < held.epoch) return "older epoch than the one in force";
  // An orphan that was found without a journal has no spec yet.
  if (held.specHash !== "" && placement.specHash !== held.specHash) return "the spec of a placement never changes";
  return null;
}

/** The placement with whichever desired state lies further on, and whichever limits are newer. */
function forward(held: Held | undefined, placement: Placement): Placement {
  if (held === undefined) return placement;
  const { desired, resources } = held;
  const isOlder = resources !== undefined && (placement.resources?.generation ?? 0n) < resources.generation;
  return {
    ...placement,
    desired: Math.max(placement.desired, desired) as Desired,
    ...(isOlder && { resources }),
  };
}

function countStops(
  held: ReadonlyMap<string, Held>,
  upserts: readonly Placement[],
  removes: readonly string[],
): number {
  const stopped = upserts.filter((placement) => placement.desired >= Desired.STOPPED).map((p) => p.placementId);
  return [...new Set([...stopped, ...removes])].filter((id) => {
    const known = held.get(id);
    return known !== undefined && isRunning(known);
  }).length;
}

/** Something that visitors may be using. */
const isRunning = (held: Held): boolean =>
  held.isVisited && held.observed === Observed.RUNNING && held.desired < Desired.STOPPED;

/** Revisions are decimal numbers that grow. Of anything else the order is unknown, so nothing is before it. */
function isBefore(revision: string, other: string): boolean {
  const isNumber = (text: string): boolean => /^\d{1,20}$/.test(text);
  return isNumber(revision) && isNumber(other) && BigInt(revision) < BigInt(other);
}
