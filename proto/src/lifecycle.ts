// @pure
import { plural } from "./text.ts";

/** State tables: status -> event -> next status. An event that is not listed does not apply. */
export type Transitions<Status extends string, Event extends string> = Readonly<
  Record<Status, Readonly<Partial<Record<Event, Status>>>>
>;

export const projectTypes = ["static", "ssr", "ociimage"] as const;
export type ProjectType = (typeof projectTypes)[number];

export const channels = ["production", "preview", "dev"] as const;
export type Channel = (typeof channels)[number];

export const deployModes = ["auto", "preview"] as const;
export type DeployMode = (typeof deployModes)[number];

export const suspendReasons = ["quota", "admin"] as const;
export type SuspendReason = (typeof suspendReasons)[number];

// ------------------------------------------------------------- deployments

export const deploymentStatuses = [
  "queued",
  "building",
  "deploying",
  "running",
  "failed",
  "superseded",
  "canceled",
  "stopped",
] as const;
export type DeploymentStatus = (typeof deploymentStatuses)[number];

/**
 * claimed: a worker took it. built: its artifact is in the registry. routed: every edge sends visitors to it.
 * superseded: a newer one of the same channel runs. stopped, started: its owner asked, be it while it was on its way.
 */
export const deploymentEvents = [
  "claimed",
  "built",
  "routed",
  "failed",
  "canceled",
  "superseded",
  "stopped",
  "started",
] as const;
export type DeploymentEvent = (typeof deploymentEvents)[number];

/** A stopped deployment is superseded as well: whoever deploys while the site is stopped makes it serve again. */
export const deploymentTransitions: Transitions<DeploymentStatus, DeploymentEvent> = {
  queued: { claimed: "building", failed: "failed", canceled: "canceled" },
  building: { built: "deploying", failed: "failed", canceled: "canceled" },
  deploying: { routed: "running", stopped: "stopped", failed: "failed", canceled: "canceled" },
  running: { superseded: "superseded", stopped: "stopped" },
  stopped: { started: "running", superseded: "superseded" },
  failed: {},
  superseded: {},
  canceled: {},
};

/** The next status, or null when `event` does not apply (a duplicate or a late report). */
export const nextDeploymentStatus = (status: DeploymentStatus, event: DeploymentEvent): DeploymentStatus | null =>
  deploymentTransitions[status][event] ?? null;

/** On its way: a worker still has something to do. */
export const openStatuses = ["queued", "building", "deploying"] as const satisfies readonly DeploymentStatus[];

/** Where a deploy ends: what somebody who waits for a deployment waits for. `running` is the good one. */
export const settledStatuses = [
  "running",
  "failed",
  "superseded",
  "canceled",
  "stopped",
] as const satisfies readonly DeploymentStatus[];

/** Nothing moves a deployment out of these. `running` and `stopped` are not among them. */
export const terminalStatuses = ["failed", "superseded", "canceled"] as const satisfies readonly DeploymentStatus[];

export const isOpen = (status: DeploymentStatus): boolean => (openStatuses as readonly string[]).includes(status);
export const isSettled = (status: DeploymentStatus): boolean => !isOpen(status);
export const isTerminal = (status: DeploymentStatus): boolean =>
  (terminalStatuses as readonly string[]).includes(status);

/** What a person may do with a deployment, by status. The channel decides the rest. */
export const deploymentActions = {
  cancel: openStatuses,
  stop: ["running"],
  start: ["stopped"],
  rollback: ["superseded"],
  promote: ["running"],
} as const satisfies Record<string, readonly DeploymentStatus[]>;
export type DeploymentAction = keyof typeof deploymentActions;

/** Whether `action` applies to a deployment of `channel` in `status`. */
export function deploymentActionApplies(action: DeploymentAction, status: DeploymentStatus, channel: Channel): boolean {
  const statuses: readonly DeploymentStatus[] = deploymentActions[action];
  return statuses.includes(status) && actionChannels[action].includes(channel);
}

const actionChannels: Readonly<Record<DeploymentAction, readonly Channel[]>> = {
  cancel: channels,
  stop: ["production"],
  start: ["production"],
  rollback: ["production", "dev"],
  promote: ["preview"],
};

// ----------------------------------------------------------------- release

export const releaseStatuses = ["not_configured", "pending", "running", "succeeded", "failed", "skipped"] as const;
export type ReleaseStatus = (typeof releaseStatuses)[number];

export const releaseEvents = ["started", "succeeded", "failed", "skipped"] as const;
export type ReleaseEvent = (typeof releaseEvents)[number];

/** A pending one fails when it could not be started, or when it is not known whether it ran. */
export const releaseTransitions: Transitions<ReleaseStatus, ReleaseEvent> = {
  not_configured: {},
  pending: { started: "running", failed: "failed", skipped: "skipped" },
  running: { succeeded: "succeeded", failed: "failed" },
  succeeded: {},
  failed: {},
  skipped: {},
};

/** The next status of a release command, or null when `event` does not apply. */
export const nextReleaseStatus = (status: ReleaseStatus, event: ReleaseEvent): ReleaseStatus | null =>
  releaseTransitions[status][event] ?? null;

// ------------------------------------------------------------------- nodes

/** The one word that people see of a node. */
export const nodeStatuses = [
  "ready",
  "cordoned",
  "draining",
  "drained",
  "suspect",
  "unreachable",
  "quarantined",
  "fenced",
  "removed",
] as const;
export type NodeStatus = (typeof nodeStatuses)[number];

/** `deadline`: the drain has run out of time, and what is left needs a person. */
export const nodeDrains = ["none", "draining", "drained", "deadline"] as const;
export type NodeDrain = (typeof nodeDrains)[number];

export const nodeLinks = ["connected", "reconciling", "suspect", "unknown", "unreachable", "quarantined"] as const;

/**
 * What is known of a node, each axis with its own writer. `link`: suspect after half a lease of silence,
 * unreachable after a whole one, unknown while the replica that owned its connection is gone,
 * reconciling between its hello and its whole inventory, quarantined when two daemons share its identity.
 */
export interface NodeAxes {
  lifecycle: "active" | "fenced" | "removed";
  schedulable: boolean;
  drain: NodeDrain;
  link: (typeof nodeLinks)[number];
}

/** The word for `axes`: what needs attention most comes first. */
export function nodeStatus(axes: NodeAxes): NodeStatus {
  if (axes.lifecycle !== "active") return axes.lifecycle;
  if (axes.link === "quarantined" || axes.link === "unreachable") return axes.link;
  if (axes.link === "suspect" || axes.link === "unknown") return "suspect";
  if (axes.drain === "drained") return "drained";
  if (axes.drain !== "none") return "draining";
  return axes.schedulable ? "ready" : "cordoned";
}

export const nodeActions = ["cordon", "uncordon", "drain", "cancel-drain", "force-fence", "remove"] as const;
export type NodeAction = (typeof nodeActions)[number];

/** Actions that need `confirm: true`; `force-fence` also needs a reason. */
export const confirmedNodeActions = ["force-fence", "remove"] as const satisfies readonly NodeAction[];

/** What decides whether a machine of the fleet may be acted on. */
export interface NodeCircumstances {
  role: "node" | "edge";
  axes: NodeAxes;
  /** Placements and runs on it that are not over. */
  heldCount: number;
  /** Databases whose data is on its disk, whether a server of theirs runs or not. */
  databaseCount: number;
  /** Of edges: whether visitors are sent to another one that is not cordoned. */
  hasOtherEdge: boolean;
  /** Of an edge: it serves an older route table than the published one, as far as is known. */
  isBehind: boolean;
}

/** Why `action` is not allowed, and what to do instead, in a sentence or two; null when it is. */
export function nodeActionProblem(action: NodeAction, circumstances: NodeCircumstances): string | null {
  const { axes } = circumstances;
  if (axes.lifecycle === "removed") return "The node is removed. To use the machine again, let it join as a new one.";
  if (action === "remove") return removeProblem(circumstances);
  if (axes.lifecycle === "fenced")
    return "The node is fenced, and that is for ever. Remove it; the machine may join again as a new one.";
  switch (action) {
    case "cordon":
      return cordonProblem(circumstances);
    case "uncordon":
      if (axes.drain !== "none") return "The node is draining or drained. Cancel the drain first; it stays cordoned.";
      if (axes.schedulable) return "The node is not cordoned: it takes new work already.";
      // Containers that its old table names may be gone.
      return circumstances.isBehind
        ? "The edge serves an old route table. It takes the newest once it is connected; try again then."
        : null;
    case "drain":
      return drainProblem(circumstances);
    case "cancel-drain":
      return axes.drain === "none" ? "The node is not draining, so there is nothing to cancel." : null;
    case "force-fence":
      return fenceProblem(axes);
  }
}

const onlyEdge =
  "It is the only edge that deployments wait for: without it none could finish. Let another edge join, or uncordon one, first.";

function cordonProblem({ role, axes, hasOtherEdge }: NodeCircumstances): string | null {
  if (axes.drain !== "none") return "The node is draining or drained, which keeps new work away already.";
  if (!axes.schedulable) return "The node is cordoned already. To move what runs on it elsewhere, drain it.";
  return role === "edge" && !hasOtherEdge ? onlyEdge : null;
}

function drainProblem({ role, axes, hasOtherEdge }: NodeCircumstances): string | null {
  if (axes.drain === "drained") return "The node is drained already. Remove it, or cancel the drain to use it again.";
  if (axes.drain !== "none") return "The node is draining already. For another deadline, cancel that drain first.";
  return role === "edge" && axes.schedulable && !hasOtherEdge ? onlyEdge : null;
}

function fenceProblem({ link }: NodeAxes): string | null {
  if (link === "unreachable" || link === "quarantined") return null;
  return link === "connected" || link === "reconciling"
    ? "The node answers, so what it runs can be moved in good order: drain it instead."
    : "Control lost the node a moment ago and it may be back at once. Try again when it is unreachable.";
}

function removeProblem({ axes, heldCount, databaseCount }: NodeCircumstances): string | null {
  if (axes.lifecycle === "fenced") return null;
  if (axes.drain !== "drained") {
    return axes.link === "unreachable" || axes.link === "quarantined"
      ? "Only a drained or fenced node can be removed. If the machine is off or cut from the network, fence it first."
      : "Only a drained or fenced node can be removed. Drain it first.";
  }
  if (heldCount > 0) return `The node still holds ${plural(heldCount, "placement")}. Wait until they are gone.`;
  return databaseCount === 0
    ? null
    : `The node holds the data of ${plural(databaseCount, "database")}, which would be lost with it. Have them dropped first.`;
}

/** What an action needs besides a state that allows it, said as what is missing; null when nothing is. */
export function nodeAssentProblem(action: NodeAction, given: { reason?: string; confirm?: boolean }): string | null {
  if (action === "force-fence" && given.reason === undefined)
    return "Fencing needs a reason: how do you know that the machine is off or cut from the network? Send reason.";
  if (!(confirmedNodeActions as readonly NodeAction[]).includes(action) || given.confirm === true) return null;
  return action === "force-fence"
    ? "Fencing is for ever, and what the machine still runs would run twice. Send confirm: true once it is off or cut from the network."
    : "Removing a node is for ever: the machine can only join again as a new one. Send confirm: true.";
}
