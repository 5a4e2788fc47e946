// @pure
import { type DeploymentStatus, limits, type ProjectType } from "@svc/proto";
import { hasEnded, isRunOver, type ObservationValue, type RunValue } from "../../fleet/cluster/keys.ts";
import { type Looking, lasted } from "../../fleet/cluster/looking.ts";
import {
  type Abandoned,
  bringUp,
  bringUpDeadlines,
  isNodeLost,
  nextLook,
  whyLate,
} from "../../fleet/replicas/bring-up.ts";
import { howFar, type RouteFacts, routeMs } from "../../fleet/routes/how-far.ts";
import { explainRefusal } from "../../fleet/scheduler/placement.ts";
import { isForRoom } from "../../fleet/scheduler/room.ts";
import type { TaskFacts } from "../../fleet/tasks/deployment-status.ts";
import type { ReleaseStatus } from "../../stores/db/tables.ts";

export interface DeployFacts extends Looking {
  id: string;
  type: ProjectType;
  status: DeploymentStatus;
  /** When the present status was reached. */
  statusSince: Date;
  cancelRequested: boolean;
  /** A stop covers it: it is made ready, and does not serve. */
  held: boolean;
  projectGone: boolean;
  suspended: boolean;
  /** While it is queued: a newer deployment of the same channel waits or is on its way. */
  overtaken: boolean;
  artifact: { kind: "image" | "bundle"; digest: string } | null;
  /** Times that a build was assigned, the present one included. */
  buildAttempts: number;
  /** The newest build task that is not to be removed. */
  build: TaskFacts | null;
  release: {
    /** Null: the manifest has none. */
    timeoutSeconds: number | null;
    status: ReleaseStatus;
    /** 0 before the first offer. */
    attempt: number;
    run: RunValue | null;
    /** Since when the node of the attempt has no stream. */
    nodeLostAt: Date | null;
    /** Why no node takes it, by reason how many nodes; null while one does or nobody looks for one. */
    refused?: Readonly<Record<string, number>> | null;
  };
  healthTimeoutSeconds: number;
  /** How many containers the deployment wants; 0 for static sites. */
  replicas: number;
  serveAttempts: number;
  /** While a replica has no room: another deployment serves the channel from containers, which go once this one does. */
  replacesContainers: boolean;
  /** While its release command has no room: replaced containers of the project still serve what is open. */
  draining: boolean;
  /** Serve tasks that are not to be removed. */
  serve: readonly TaskFacts[];
  /** Whether the channel points at this deployment. */
  active: boolean;
  activatedAt: Date | null;
  /** Once it is active: whether every host of the channel serves this deployment. */
  route: RouteFacts;
}

export type DeployStep =
  | { do: "cancel"; detail: string }
  | { do: "claim" }
  | { do: "resolveImage" }
  | { do: "createBuild" }
  | { do: "abandonTask"; taskId: string; detail: string }
  | { do: "acceptBuild"; taskId: string; build: NonNullable<ObservationValue["build"]> }
  | { do: "beginDeploying" }
  | { do: "offerRelease"; attempt: number }
  | { do: "withdrawRelease"; run: RunValue; detail: string }
  /** Asks the node to end it, or never to start it. */
  | { do: "cancelRelease"; run: RunValue }
  | { do: "grantRelease"; run: RunValue }
  | { do: "recordRelease"; status: "running" | "succeeded"; run: RunValue }
  | { do: "failRelease"; run: RunValue | null; code: string; message: string }
  /** Containers for these slots, without those that nobody waits for any more. */
  | { do: "createServe"; slots: number[]; abandoned: Abandoned[] }
  /** Has replaced containers of the project end now, which take the room that it needs. */
  | { do: "endDrains" }
  /** Ends as one that was stopped, ready for a start. */
  | { do: "hold" }
  | { do: "activate" }
  | { do: "revert"; message: string }
  | { do: "finish"; detail: string | null }
  | { do: "fail"; code: string; message: string }
  /** Nothing to do until something changes; look again at `deadline` at the latest. */
  | { do: "wait"; for: string; deadline: Date }
  | { do: "end" };

/** How long each phase may take before the deployment fails with a reason. */
export const deployDeadlines = {
  ...bringUpDeadlines,
  buildMs: limits.buildSecondsMax * 1_000,
  routeMs,
} as const;

const after = (at: Date, ms: number) => new Date(at.getTime() + ms);

const overdue = (facts: Looking, at: Date, ms: number): boolean => lasted(facts, at) >= ms;

/**
 * The next thing to do for a deployment. Pure: a worker carries it out, reads everything again and
 * asks once more, so that a worker killed anywhere is continued by another.
 */
export function nextDeployStep(facts: DeployFacts): DeployStep {
  if (facts.status !== "queued" && facts.status !== "building" && facts.status !== "deploying") return { do: "end" };
  const end = endOf(facts);
  // The next deployment of the project may begin at once, and two release commands must not meet.
  if (end !== null) return stopRelease(facts) ?? end;
  if (facts.draining && isReleaseShortOfRoom(facts)) return { do: "endDrains" };
  switch (facts.status) {
    case "queued":
      return { do: "claim" };
    case "building":
      return buildStep(facts);
    case "deploying":
      return releaseStep(facts) ?? holdStep(facts) ?? serveStep(facts) ?? routeStep(facts);
  }
}

/** Whether its release command waits for room that what else runs there takes. Of tasks the scheduler knows that. */
function isReleaseShortOfRoom(facts: DeployFacts): boolean {
  const { release, statusSince } = facts;
  const since = release.run === null ? statusSince : new Date(release.run.changedAt);
  return isForRoom(release.refused ?? {}, lasted(facts, since));
}

/** Why the deployment is to end without having served, and how; null when it goes on. */
function endOf(facts: DeployFacts): DeployStep | null {
  if (facts.projectGone) return { do: "cancel", detail: "the project is being deleted" };
  if (facts.cancelRequested) return { do: "cancel", detail: "as requested" };
  if (facts.suspended) return { do: "fail", code: "PROJECT_SUSPENDED", message: "" };
  return facts.status === "queued" && facts.overtaken
    ? { do: "cancel", detail: "a newer deployment of this channel is queued" }
    : null;
}

/** Ends a release command that was offered; null once it cannot run any more, or its node cannot be asked. */
function stopRelease({ release: { run, nodeLostAt }, now }: DeployFacts): DeployStep | null {
  if (run === null || isRunOver(run.state)) return null;
  const isGranted = run.state === "granted" || run.state === "started";
  if (!isGranted && nodeLostAt !== null) return { do: "withdrawRelease", run, detail: "it is not wanted any more" };
  if (!run.cancel) return { do: "cancelRelease", run };
  const deadline = after(new Date(run.changedAt), deployDeadlines.graceMs);
  return now >= deadline ? null : { do: "wait", for: "the release command to end", deadline };
}

function buildStep(facts: DeployFacts): DeployStep {
  if (facts.artifact !== null) return { do: "beginDeploying" };
  if (facts.type === "ociimage") return { do: "resolveImage" };
  const { build } = facts;
  if (build === null) {
    return facts.buildAttempts >= deployDeadlines.attempts
      ? { do: "fail", code: "NODE_UNAVAILABLE", message: "The nodes that were building this deployment went away." }
      : { do: "createBuild" };
  }
  const { observation } = build;
  if (observation?.observed === "completed") {
    return observation.build === null
      ? { do: "fail", code: "NODE_TASK_FAILED", message: "The node reported a build without a result." }
      : { do: "acceptBuild", taskId: build.id, build: observation.build };
  }
  if (observation !== null && hasEnded(observation.observed)) {
    const { failure } = observation;
    return { do: "fail", code: failure?.code ?? "NODE_TASK_FAILED", message: failure?.message ?? "" };
  }
  if (isNodeLost(facts, build)) {
    return { do: "abandonTask", taskId: build.id, detail: "its node went away; another node takes over" };
  }
  const budget = { budgetMs: deployDeadlines.buildMs + deployDeadlines.graceMs, code: "BUILD_TIMEOUT" };
  const late = whyLate(facts, build, budget);
  return late === null
    ? { do: "wait", for: "the build", deadline: nextLook(facts.now) }
    : { do: "fail", code: late.code, message: late.message };
}

function releaseStep(facts: DeployFacts): DeployStep | null {
  const { release, now } = facts;
  const { timeoutSeconds, status, run } = release;
  if (timeoutSeconds === null || status === "succeeded" || status === "skipped" || status === "not_configured")
    return null;
  if (status === "failed") return { do: "fail", code: "RELEASE_FAILED", message: "" };
  if (release.attempt === 0) return offer(1, facts.statusSince, facts);
  if (run === null) {
    // A pending one was never granted, or its key would be there: offering again is safe.
    return status === "pending"
      ? { do: "offerRelease", attempt: release.attempt }
      : indeterminate(null, "What happened to the release command is not known: its record is gone.");
  }
  const changedAt = new Date(run.changedAt);
  switch (run.state) {
    case "offered":
    case "accepted": {
      if (release.nodeLostAt !== null && now >= after(release.nodeLostAt, 20_000)) {
        return { do: "withdrawRelease", run, detail: "its node went away before it was started" };
      }
      if (run.state === "accepted") {
        // Granted to a node that is not there, it would count as started, and nobody else could have it.
        return release.nodeLostAt === null
          ? { do: "grantRelease", run }
          : { do: "wait", for: "the node of the release command", deadline: after(now, 5_000) };
      }
      return overdue(facts, changedAt, deployDeadlines.pullMs)
        ? { do: "withdrawRelease", run, detail: "the node did not answer the offer" }
        : { do: "wait", for: "a node to take the release command", deadline: after(now, 5_000) };
    }
    case "refused":
    case "not_started":
      return release.attempt >= deployDeadlines.attempts
        ? {
            do: "failRelease",
            run,
            code: "RELEASE_FAILED",
            message: run.message ?? "No node could start the release command.",
          }
        : offer(release.attempt + 1, changedAt, facts);
    case "granted":
    case "started":
      if (run.state === "started" && status === "pending") return { do: "recordRelease", status: "running", run };
      return overdue(facts, changedAt, timeoutSeconds * 1000 + 2 * deployDeadlines.graceMs)
        ? indeterminate(run, "The node that ran the release command does not answer, so its outcome is not known.")
        : { do: "wait", for: "the release command", deadline: after(now, 5_000) };
    case "indeterminate":
      return indeterminate(run, run.message ?? "It is not known whether the release command ran to its end.");
    case "exited":
      return exitedRelease(run);
  }
}

const noRoom = (refused: Readonly<Record<string, number>> | null): string =>
  refused === null
    ? "There is no room for the release command now."
    : `No node takes the release command (${explainRefusal(refused)}).`;

/** Offers to a node; `since` is from when on one was looked for. */
const offer = (attempt: number, since: Date, facts: DeployFacts): DeployStep =>
  overdue(facts, since, deployDeadlines.placementMs)
    ? { do: "fail", code: "NODE_CAPACITY_UNAVAILABLE", message: noRoom(facts.release.refused ?? null) }
    : { do: "offerRelease", attempt };

function exitedRelease(run: RunValue): DeployStep {
  if (run.timedOut) return { do: "failRelease", run, code: "RELEASE_TIMEOUT", message: "" };
  if (run.exitCode === 0) return { do: "recordRelease", status: "succeeded", run };
  return {
    do: "failRelease",
    run,
    code: "RELEASE_FAILED",
    message: `The release command ended with exit code ${run.exitCode ?? "unknown"}. The previous deployment keeps serving; the log says why.`,
  };
}

const indeterminate = (run: RunValue | null, message: string): DeployStep => ({
  do: "failRelease",
  run,
  code: "RELEASE_INDETERMINATE",
  message: `${message} Check the data, then deploy again.`,
});

/** One that has the traffic already is stopped once it runs, as any other. */
const holdStep = ({ held, active }: DeployFacts): DeployStep | null => (held && !active ? { do: "hold" } : null);

function serveStep(facts: DeployFacts): DeployStep | null {
  if (facts.replicas === 0 || facts.active) return null;
  const { replicas, serveAttempts: attempts, serve: containers, healthTimeoutSeconds, replacesContainers } = facts;
  const { now, lookingSince } = facts;
  // What the deployment before frees, those that follow get.
  const restMayFollow = replacesContainers;
  const of = { now, lookingSince, replicas, attempts, containers, healthTimeoutSeconds, restMayFollow };
  const next = bringUp(of);
  switch (next.is) {
    case "up":
      return null;
    case "make":
      return { do: "createServe", slots: next.slots, abandoned: next.abandoned };
    case "wait":
      return { do: "wait", for: next.for, deadline: next.nextLook };
    case "failed":
      return { do: "fail", code: next.code, message: next.message };
  }
}

function routeStep(facts: DeployFacts): DeployStep {
  if (!facts.active || facts.activatedAt === null) return { do: "activate" };
  const { published, edgesCurrent, edgesInRotation } = facts.route;
  // Without any edge nobody sees it.
  const route = { ...facts.route, published: published && edgesInRotation > 0 };
  const far = howFar(route, lasted(facts, facts.activatedAt));
  if (far === "everywhere") return { do: "finish", detail: null };
  if (far === "coming") return { do: "wait", for: "the edges to take the route", deadline: nextLook(facts.now) };
  const behind = edgesInRotation - edgesCurrent;
  return far === "behind" && edgesCurrent > 0
    ? { do: "finish", detail: `ROUTE_DIVERGED: ${behind} of ${edgesInRotation} edges have not taken the route yet` }
    : { do: "revert", message: "No edge took the new route within 30 seconds. The previous deployment keeps serving." };
}
