// @pure
import { failureMessage } from "@svc/proto";
import { type Looking, lasted } from "../../fleet/cluster/looking.ts";
import { type Abandoned, bringUp } from "../../fleet/replicas/bring-up.ts";
import type { TaskFacts } from "../../fleet/tasks/deployment-status.ts";
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
  healthTimeoutSeconds: number;
}

/** All times are the database's. */
export interface SuspensionFacts extends Looking {
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
  /** Containers for these slots of the deployment, without those that nobody waits for any more. */
  | { do: "start"; deploymentId: string; slots: number[]; abandoned: Abandoned[] }
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
  for (const { deploymentId, ...wanted } of facts.served) {
    const containers = facts.containers.filter((each) => each.deploymentId === deploymentId);
    const { now, lookingSince } = facts;
    // Nobody makes room for the rest, and half of it is better than none.
    const next = bringUp({ now, lookingSince, ...wanted, containers, restMayFollow: true });
    const note = (message: string, isOver = false) => failures.push({ deploymentId, message, isOver });
    if (next.is === "make") return { do: "start", deploymentId, slots: next.slots, abandoned: next.abandoned };
    if (next.is === "failed") note(messageOf(next), next.isOver);
    if (next.is === "up" && next.lacks !== null) note(`${next.lacks} ${comesLater}`);
    if (next.is !== "wait") continue;
    if (isOverdue) note("The app did not answer in time. It is still being started.");
    else isPending = true;
  }
  return isPending ? { do: "wait", for: "the apps to answer", isLong } : { do: "resume", failures };
}

/** The keeper goes on with what did not end by its own doing. */
const comesLater = "It starts once a node takes it.";
function messageOf({ code, message, isOver }: { code: string; message: string; isOver: boolean }): string {
  const text = message === "" ? failureMessage(code) : message;
  return isOver ? text : `${text} ${comesLater}`;
}
