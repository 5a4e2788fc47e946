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
 * superseded: a newer one of the same channel runs. stopped, started: an operator asked.
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
  deploying: { routed: "running", failed: "failed", canceled: "canceled" },
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

/**
 * What is known of a node, each axis with its own writer. `link`: suspect after half a lease of silence,
 * unreachable after a whole one, unknown while the replica that owned its connection is gone,
 * reconciling between its hello and its whole inventory, quarantined when two daemons share its identity.
 */
export type NodeAxes = {
  lifecycle: "active" | "fenced" | "removed";
  schedulable: boolean;
  drain: "none" | "draining" | "drained" | "deadline";
  link: "connected" | "reconciling" | "suspect" | "unknown" | "unreachable" | "quarantined";
};

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

/** Why `action` is not allowed on a node with `axes` and `runningCount` placements that are not over; null when it is. */
export function nodeActionProblem(action: NodeAction, axes: NodeAxes, runningCount: number): string | null {
  if (action === "remove") return removeProblem(axes, runningCount);
  if (axes.lifecycle !== "active") return `The node is ${axes.lifecycle}.`;
  const drains = axes.drain !== "none";
  switch (action) {
    case "cordon":
      if (drains) return "The node is draining, which already keeps new work away.";
      return axes.schedulable ? null : "The node is already cordoned.";
    case "uncordon":
      if (drains) return "The node is draining. Cancel the drain first.";
      return axes.schedulable ? "The node is not cordoned." : null;
    case "drain":
      return drains ? "The node is already draining or drained." : null;
    case "cancel-drain":
      return drains ? null : "The node is not draining.";
    case "force-fence":
      return axes.link === "unreachable" || axes.link === "quarantined"
        ? null
        : "Only a node that is unreachable or quarantined can be fenced. Drain it instead.";
  }
}

function removeProblem(axes: NodeAxes, runningCount: number): string | null {
  if (axes.lifecycle === "removed") return "The node is already removed.";
  if (axes.lifecycle === "fenced") return null;
  if (axes.drain !== "drained") return "Only a drained or fenced node can be removed. Drain it first.";
  return runningCount === 0 ? null : `The node still holds ${runningCount} placements.`;
}
