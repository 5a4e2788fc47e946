// @pure
import { hasEnded } from "../../fleet/cluster/keys.ts";
import { explainRefusal } from "../../fleet/scheduler/placement.ts";
import { isServing, type TaskFacts } from "../../fleet/tasks/deployment-status.ts";
import { deployDeadlines } from "../deployments/steps.ts";
import type { OpenDeployment } from "./store.ts";

/** A container of the project that is not to be removed yet. */
export interface ContainerFacts extends TaskFacts {
  deploymentId: string;
}

/** A deployment that serves from containers, or will once its project is resumed. */
export interface ServedFacts {
  deploymentId: string;
  replicas: number;
  /** Containers that were made for it since the resumption was asked for. */
  attempts: number;
}

/** All times are the database's. */
export interface SuspensionFacts {
  now: Date;
  /** Since when this replica has been looking: what nobody looked at did not take too long. */
  lookingSince: Date;
  projectGone: boolean;
  /** Null: not suspended, or not any more. */
  suspension: {
    since: Date;
    /** Since when it is being resumed; null when it is not. */
    resumingSince: Date | null;
    /** Since when no edge sends visitors to its containers; null when that is not known yet. */
    unroutedAt: Date | null;
  } | null;
  /** Deployments that are on their way. */
  open: readonly OpenDeployment[];
  served: readonly ServedFacts[];
  containers: readonly ContainerFacts[];
  /** No edge sends visitors to any container of the project, as far as the published table and their reports say. */
  unrouted: boolean;
  /** How long requests that are under way may still take after that. */
  drainMs: number;
  /** How long edges that do not answer keep containers running. */
  edgesWaitMs: number;
}

export interface ResumeFailure {
  deploymentId: string;
  message: string;
  /** It has ended for good, and only a new deployment brings it back; otherwise it is still being started. */
  isOver: boolean;
}

export type SuspensionStep =
  /** Ends deployments that nobody has begun. */
  | { do: "endQueued" }
  /** Puts deployments into the queue again that nobody works on any more, so that they come to their end. */
  | { do: "takeUp"; deploymentIds: string[] }
  | { do: "noteUnrouted" }
  /** Takes that back. */
  | { do: "forgetUnrouted" }
  /** `stopped` ends the process and keeps its port from everybody else; `removed` gives it all back. */
  | { do: "stop"; taskIds: string[]; desired: "stopped" | "removed" }
  /** Makes containers until the deployment has as many as it wants, without those that are `replaced`. */
  | { do: "start"; deploymentId: string; replaced: string[] }
  | { do: "resume"; failures: ResumeFailure[] }
  /** `isLong`: it is not a matter of moments any more, so other work comes first. */
  | { do: "wait"; for: string; isLong: boolean }
  | { do: "end" };

/** How long edges that do not answer keep the containers of a suspended project running. */
export const edgesWaitMs = 30_000;
/** How long a resumption waits for containers. Then visitors see the site as it is, and what is late comes up later. */
export const resumeWaitMs = 5 * 60_000;
/** What usually takes moments is waited for without giving the room to others. */
const soonMs = 10_000;

const ms = (from: Date, to: Date): number => to.getTime() - from.getTime();

/** How long something has lasted since `at`, as far as anybody looked. */
const lasted = ({ now, lookingSince }: Pick<SuspensionFacts, "now" | "lookingSince">, at: Date): number =>
  ms(at > lookingSince ? at : lookingSince, now);

/**
 * The next thing to do for a project that is suspended or being resumed. What it serves is what its channels point at,
 * so a suspension changes nothing there: it takes the containers away, and a resumption makes new ones.
 */
export function nextSuspensionStep(facts: SuspensionFacts): SuspensionStep {
  const { suspension, open } = facts;
  if (facts.projectGone) return { do: "end" };
  if (suspension === null) return clearStep(facts);
  if (open.some(({ status }) => status === "queued")) return { do: "endQueued" };
  const left = open.filter(({ hasWork }) => !hasWork).map(({ id }) => id);
  if (left.length > 0) return { do: "takeUp", deploymentIds: left };
  return suspension.resumingSince === null ? stopStep(facts, suspension) : resumeStep(facts, suspension.resumingSince);
}

/** What an edge that did not answer kept from being removed; the project itself is as it was. */
function clearStep({ containers, unrouted }: SuspensionFacts): SuspensionStep {
  const taskIds = containers.filter(({ desired }) => desired === "stopped").map(({ id }) => id);
  if (taskIds.length === 0) return { do: "end" };
  return unrouted
    ? { do: "stop", taskIds, desired: "removed" }
    : { do: "wait", for: "the edges to leave the stopped containers", isLong: true };
}

function stopStep(facts: SuspensionFacts, { since, unroutedAt }: NonNullable<SuspensionFacts["suspension"]>) {
  const { now, containers, open, unrouted, drainMs } = facts;
  const isLong = lasted(facts, since) >= soonMs;
  const wait = (reason: string, long = isLong): SuspensionStep => ({ do: "wait", for: reason, isLong: long });
  // Until they have ended they may still start containers.
  if (containers.length === 0) return open.length === 0 ? end : wait("the deployments on their way to end");
  const running = containers.filter(({ desired }) => desired === "running").map(({ id }) => id);
  if (unrouted) {
    const all = containers.map(({ id }) => id);
    if (running.length === 0) return stop(all, "removed");
    if (unroutedAt === null) return { do: "noteUnrouted" } as const;
    return ms(unroutedAt, now) < drainMs ? wait("requests under way to end") : stop(all, "removed");
  }
  // Noted by a replica that saw less than there was, or an edge is back with an old table: it begins anew.
  if (unroutedAt !== null) return { do: "forgetUnrouted" } as const;
  if (running.length > 0 && lasted(facts, since) >= facts.edgesWaitMs) return stop(running, "stopped");
  return wait("the edges to show the page", running.length === 0 || isLong);
}

const end = { do: "end" } as const;
const stop = (taskIds: string[], desired: "stopped" | "removed"): SuspensionStep => ({ do: "stop", taskIds, desired });

function resumeStep(facts: SuspensionFacts, resumingSince: Date): SuspensionStep {
  const isLong = lasted(facts, resumingSince) >= soonMs;
  // They end because the project is suspended, and until then what a channel serves is not settled.
  if (facts.open.length > 0) return { do: "wait", for: "the deployments on their way to end", isLong };
  const isOverdue = lasted(facts, resumingSince) >= resumeWaitMs;
  const failures: ResumeFailure[] = [];
  let isPending = false;
  for (const served of facts.served) {
    const outcome = bringUp(facts, served);
    if (outcome === "up") continue;
    if (outcome === "pending") isPending = true;
    else if ("do" in outcome) return outcome;
    else failures.push(outcome);
    if (outcome === "pending" && isOverdue) failures.push({ deploymentId: served.deploymentId, ...late });
  }
  return isPending && !isOverdue ? { do: "wait", for: "the apps to answer", isLong } : { do: "resume", failures };
}

const late = { message: "The app did not answer in time. It is still being started.", isOver: false };

type Outcome = "up" | "pending" | Extract<SuspensionStep, { do: "start" }> | ResumeFailure;

function bringUp(facts: SuspensionFacts, { deploymentId, replicas, attempts }: ServedFacts): Outcome {
  const containers = facts.containers.filter(
    (each) => each.deploymentId === deploymentId && each.desired === "running",
  );
  if (containers.filter(isServing).length >= replicas) return "up";
  const lost = containers.filter((each) => isLost(facts, each));
  const missing = replicas - (containers.length - lost.length);
  const failure = containers.find(({ observation }) => observation && hasEnded(observation.observed))?.observation
    ?.failure;
  const over = (message: string): ResumeFailure => ({ deploymentId, message, isOver: true });
  if (missing > 0) {
    return attempts + missing <= replicas * deployDeadlines.attempts
      ? { do: "start", deploymentId, replaced: lost.map(({ id }) => id) }
      : over(failure?.message ?? "The nodes that were starting the app went away.");
  }
  if (failure) return over(failure.message);
  const refused = containers.find(
    ({ nodeId, refused, createdAt }) =>
      nodeId === null && refused !== null && lasted(facts, createdAt) >= deployDeadlines.placementMs,
  )?.refused;
  if (refused) {
    const message = `No node takes the app (${explainRefusal(refused)}). It starts once one has room.`;
    return { deploymentId, message, isOver: false };
  }
  return "pending";
}

/** Ended for a reason that is not the app's own, or on a node that has been away for long: another one may do better. */
function isLost(facts: SuspensionFacts, { observation, nodeLostAt }: ContainerFacts): boolean {
  if (nodeLostAt !== null && lasted(facts, nodeLostAt) >= deployDeadlines.nodeLostMs) return true;
  if (observation === null || !hasEnded(observation.observed)) return false;
  const { failure } = observation;
  return failure === null || failure.code.startsWith("NODE_");
}
