// @pure
import type { DatabaseStatus } from "@svc/proto";

/** The server of a branch on a node: a task that is not over. */
export interface ServerFacts {
  taskId: string;
  /** False: it was asked to go. */
  wanted: boolean;
  /** Null until it is placed. */
  nodeId: string | null;
  /** How many nodes each reason kept from taking it; null once placed. */
  refused: Readonly<Record<string, number>> | null;
  /** `failed`: it ended for good, and a new one is needed. */
  state: "starting" | "serving" | "failed";
  /** Why it failed, for people; null: it did not, or does not say. */
  problem: string | null;
  /** Another one in its place would fail in the same way, until somebody has seen to it. */
  failsAgain: boolean;
  /** It did serve, and ends again and again, or answers no more: its agent starts it until it serves again. */
  isDown: boolean;
  /** For how long it has been asked for. */
  ageMs: number;
  /** It may take other than its owner's plan gives by now. */
  outgrown: boolean;
  /** It was started as one that nobody writes to. */
  readOnly: boolean;
}

/** Everything that decides what is next for a branch. */
export interface BranchFacts {
  status: DatabaseStatus;
  /** For how long it has had that status. */
  sinceMs: number;
  /** The project is being deleted. */
  projectGone: boolean;
  /** The project is off the air, and nobody brings it back. */
  suspended: boolean;
  /** Whose disk holds its data, as the branch itself knows it; null: none as far as it knows. */
  nodeId: string | null;
  /** Where its last server was placed, also one that is over; null: none was. */
  lastNodeId: string | null;
  /** That machine was declared lost, or removed. */
  nodeGone: boolean;
  /** Servers that are not over, the oldest first. More than one only while one is on its way out. */
  servers: readonly ServerFacts[];
  /** Role and database are as they should be, as far as anybody knows: made, with the password and the limit of now. */
  tenantCurrent: boolean;
  /** Another password is to take the place of the one in force. */
  rotating: boolean;
  /** It holds more than its owner's plan allows: its tenant writes nothing. */
  readOnly: boolean;
  /** A server of it that is read-only takes nothing from the platform either. */
  standsBy: boolean;
  /** How many servers of it were found down, one after the other, since one has served; 0 unless its owner knows. */
  serverFailures: number;
  /** It is on its way to another volume or server: whoever brings it there decides about its servers and its tenant. */
  changing: boolean;
}

export type BranchStep =
  /** The branch is to know whose disk has its data. */
  | { do: "pin"; nodeId: string }
  | { do: "startServer" }
  | { do: "removeServers"; taskIds: readonly string[] }
  /** It has ended for good; another one is tried. */
  | { do: "replaceServer"; taskId: string }
  /** Nobody can use it any more, and again. */
  | { do: "noteDown"; reason: string }
  | { do: "noteServing" }
  /** Role and database are made, or brought to what they should be. */
  | { do: "bringTenant" }
  /** Log in as the tenant; once that works, it is `ready`. */
  | { do: "proveLogin" }
  | { do: "rotate" }
  | { do: "resizeServer"; taskId: string }
  | { do: "fail"; reason: string }
  | { do: "beginDrop" }
  /** The branch is no more; its volume stays for a while. */
  | { do: "bury"; nodeId: string | null }
  | { do: "wait"; for: string }
  | { do: "end" };

/** In which time a branch has to be ready. Most are within seconds. */
export const provisioningMs = 300_000;
/** For how long a drop waits for a node that does not answer: the channel may then have another branch. */
export const dropWaitMs = 60_000;
/** How long a server that failed is left alone before another one is tried. */
export const restartMs = 30_000;
/** The same when the ones before it failed as well: it doubles up to this, the longest that an agent waits to start anything again. */
export const restartMsMax = 300_000;

const lostNode =
  "The machine that holds its data was declared lost. An operator can restore it from a copy (`svc admin db restore`); drop it to begin with an empty one.";

const seeTo =
  "An operator can bring back what is missing and have it tried again, or restore it from a copy (`svc admin db restore`).";

/**
 * The next thing to do for a branch. Each step may be repeated, and rests on facts that its effect looks at again under the
 * branch's lock: so two workers, or one that was killed anywhere, do no harm. `ready` comes after a login alone, and a server
 * starts where the data is or, the first time, anywhere.
 */
export function nextBranchStep(facts: BranchFacts): BranchStep {
  const { status, servers } = facts;
  const wanted = servers.filter((server) => server.wanted);
  const remove = () => ({ do: "removeServers" as const, taskIds: wanted.map(({ taskId }) => taskId) });
  if (status === "dropping") {
    if (wanted.length > 0) return remove();
    const isAwaited = servers.length > 0 && !facts.nodeGone && facts.sinceMs < dropWaitMs;
    return isAwaited ? { do: "wait", for: "the server to end" } : { do: "bury", nodeId: placeOf(facts) };
  }
  if (facts.projectGone) return { do: "beginDrop" };
  // A server of its own would be a second one that may write, or over a volume that counts no more.
  if (facts.changing) return { do: "end" };
  const place = placeOf(facts);
  // Before anything that may end the server: what it began to write is on that disk, and nowhere else.
  if (facts.nodeId === null && place !== null) return { do: "pin", nodeId: place };
  if (facts.nodeGone && status !== "error") return { do: "fail", reason: lostNode };
  if (status === "error" || facts.suspended) return wanted.length > 0 ? remove() : { do: "end" };
  const [server] = wanted;
  if (server === undefined) {
    // Two servers must never be at one volume.
    return servers.length > 0 ? { do: "wait", for: "the server before to end" } : { do: "startServer" };
  }
  // A server is one that writes or not from its start on.
  if (server.readOnly !== isToBeReadOnly(facts)) return { do: "removeServers", taskIds: [server.taskId] };
  return status === "provisioning" ? provision(facts, server) : maintain(facts, server);
}

/**
 * Whether the branch's server is to be one that nobody writes to. While the platform has something to change in it that one
 * takes nothing from, it is not: then nobody else is let in (see `letsTenantIn` of fleet/database-tables/table.ts).
 */
export const isToBeReadOnly = ({
  readOnly,
  standsBy,
  rotating,
  tenantCurrent,
}: Pick<BranchFacts, "readOnly" | "standsBy" | "rotating" | "tenantCurrent">): boolean =>
  readOnly && !(standsBy && (rotating || !tenantCurrent));

/** Where its data is, or is about to be. */
const placeOf = ({ nodeId, lastNodeId }: BranchFacts): string | null => nodeId ?? lastNodeId;

function provision({ sinceMs, tenantCurrent }: BranchFacts, server: ServerFacts): BranchStep {
  if (server.state === "failed") return { do: "fail", reason: failedReason(server) };
  if (sinceMs >= provisioningMs) return { do: "fail", reason: lateReason(server) };
  if (server.state !== "serving") return { do: "wait", for: "the server to answer" };
  return { do: tenantCurrent ? "proveLogin" : "bringTenant" };
}

function maintain({ rotating, tenantCurrent, serverFailures }: BranchFacts, server: ServerFacts): BranchStep {
  const { taskId, state, ageMs } = server;
  const reason = failedReason(server);
  if (state === "failed" && server.failsAgain) return { do: "fail", reason: `${reason} ${seeTo}` };
  const isKnown = serverFailures > 0;
  if (state === "serving" && isKnown) return { do: "noteServing" };
  if ((state === "failed" || server.isDown) && !isKnown) return { do: "noteDown", reason };
  if (state === "failed") {
    return ageMs < pauseMs(serverFailures)
      ? { do: "wait", for: "a moment before the next try" }
      : { do: "replaceServer", taskId };
  }
  if (server.outgrown) return { do: "resizeServer", taskId };
  if (!rotating && tenantCurrent && !isKnown) return { do: "end" };
  if (state !== "serving") return { do: "wait", for: "the server to answer" };
  return { do: rotating ? "rotate" : "bringTenant" };
}

/** How long after a server was asked for another one takes its place, in ms; `failures` counts it, and those before it. */
export const pauseMs = (failures: number): number =>
  Math.min(restartMsMax, restartMs * 2 ** Math.min(Math.max(0, failures - 1), 10));

const failedReason = ({ problem, isDown }: ServerFacts): string =>
  `The database server ${isDown ? "does not answer" : "did not start"}${problem === null ? "" : `: ${problem}`}`;

function lateReason({ nodeId, refused, state }: ServerFacts): string {
  if (nodeId === null) {
    const reasons = Object.entries(refused ?? {}).map(([reason, nodes]) => `${reason} (${nodes})`);
    return `No machine could take it within five minutes${reasons.length === 0 ? "" : `: ${reasons.join(", ")}`}.`;
  }
  return state === "serving"
    ? "The database server answers, but nobody could log in within five minutes."
    : "The database server did not answer within five minutes.";
}
