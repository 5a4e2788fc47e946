// @pure
import type { DatabaseStatus } from "@svc/proto";
import { restartMs, type ServerFacts } from "../steps.ts";

export type ChangeState = "copying" | "freezing" | "draining" | "stopping" | "restoring" | "done" | "failed";

/** The copy that a branch is to come out of. */
export interface CopyFacts {
  state: "basing" | "following" | "broken" | "ended";
  problem: string | null;
  /** The machine that keeps it was declared lost, or removed. */
  nodeGone: boolean;
  /** It is where the branch is. */
  isHere: boolean;
  /** How far its word is behind; null: it has said nothing yet. */
  behindMs: number | null;
  /** It has the server's log until where nobody could write any more. */
  hasFrozen: boolean;
  /** Why its machine would take no server of the branch; null: it would. */
  refusal: string | null;
}

/** Everything that decides what is next for a change of a branch. */
export interface ChangeFacts {
  kind: "restore" | "move" | "upgrade";
  state: ChangeState;
  /** For how long it has had that state. */
  sinceMs: number;
  /** Since its tenant was kept out, this time; null: it is not. */
  frozenMs: number | null;
  /** How often its tenant was kept out, this time included. */
  freezes: number;
  /** Why the tenant is being let in again; null: it is not. */
  undoing: string | null;
  /** Somebody has asked for its end. */
  cancelled: boolean;
  /** Of the branch; null: there is none any more. */
  branch: DatabaseStatus | null;
  projectGone: boolean;
  suspended: boolean;
  /** A backup of the branch is being written. */
  backingUp: boolean;
  /** The machine that has the branch's volume was declared lost, or removed. */
  nodeGone: boolean;
  /** Null: it has none so far, or needs none. */
  copy: CopyFacts | null;
  /** The volume that the branch is to have again, if it is one that it had before. */
  volume: { isLost: boolean } | null;
  /** Servers of the branch that are not over, the oldest first. */
  servers: readonly ServerFacts[];
  /** As `BranchFacts` has it. */
  tenantCurrent: boolean;
  /** Since somebody let the tenant in last; null: nobody has, as far as anybody knows. */
  tenantMs: number | null;
  rotating: boolean;
  /** It is to have a server that takes nothing from anybody, the platform included: nobody can be kept out or let in there. */
  standsBy: boolean;
  /** The server that it has is such a one. */
  serverStandsBy: boolean;
}

export type ChangeStep =
  | { do: "beginCopy" }
  /** From here on the tenant is to be kept out. */
  | { do: "beginFreeze" }
  /** Keep the tenant out, end all sessions, and see where the log is and whether the copy has it. May be repeated. */
  | { do: "freeze" }
  /** The copy has everything: the server is to end. */
  | { do: "stop" }
  /** Nothing goes on from here; the tenant is to be let in again. */
  | { do: "undo"; reason: string }
  /** Let the tenant in again, and then: another try, or the end. */
  | { do: "thaw"; to: "copying" | "failed"; reason: string }
  /** The same where nobody can be let in now: whoever brings the branch up does it. */
  | { do: "leave"; to: "copying" | "failed"; reason: string }
  | { do: "removeServers"; taskIds: readonly string[] }
  /** The next generation and its server, in one transaction. From here there is no way back. */
  | { do: "switch" }
  | { do: "startServer" }
  | { do: "bringTenant" }
  /** Log in as the tenant; once that works, the change is done. */
  | { do: "proveLogin" }
  | { do: "fail"; reason: string }
  | { do: "wait"; for: string }
  | { do: "end" };

/** How long a copy may take to be made and to follow. */
export const copyingMs = 24 * 3_600_000;
/** For so long a tenant is kept out while the copy gets the rest: the proxies let nobody wait for longer. */
export const freezeMs = 10_000;
/**
 * How long after a tenant was kept out the change still lets it in itself. A server that nobody reaches (its machine is cut off, or
 * kept from the others) may not answer for days: whoever brings the branch up waits for that, and the change does not.
 */
export const letInMs = 30_000;
export const freezesMax = 5;
/**
 * Whoever was letting the tenant in when another one had done so has given up by then: a worker that stalls must not open what is
 * closed next.
 */
export const settledMs = 20_000;
/** How soon it is looked again where the log is, and that nobody is in. */
const refreezeMs = 500;
/** Between two tries, as often as there were some. */
export const thawedMs = 30_000;
/** Nodes tell of their copies every minute; what is further behind will not be there within a freeze. */
export const behindMsMax = 150_000;
/** For how long a machine may lack what the server needs before the branch stays where it is. */
export const refusedMs = 600_000;
/** A large dump takes hours to load. */
export const restoringMs = 12 * 3_600_000;
/** A server over the volume that it has is there within seconds. */
export const upgradingMs = 120_000;
/** Over one that it had before, it may have to recover first. */
export const reopeningMs = 1_800_000;

/**
 * The next thing to do for a change of a branch. Before the switch everything can be undone and the branch is as it was; after
 * it there is one generation that counts, and only forward. Each step may be repeated, and what it writes is written under the
 * branch's lock where the change still is in the state that it was decided in.
 */
export function nextChangeStep(facts: ChangeFacts): ChangeStep {
  switch (facts.state) {
    case "done":
    case "failed":
      return { do: "end" };
    case "copying":
      return copy(facts);
    case "freezing":
    case "draining":
      return freeze(facts);
    case "stopping":
      return stop(facts);
    case "restoring":
      return restore(facts);
  }
}

const wait = (what: string): ChangeStep => ({ do: "wait", for: what });
const refusedReason = (refusal: string): string =>
  `The machine that keeps the copy does not take its server: ${refusal}.`;
const goneReason = "The machine that holds its data was declared lost.";

/** Why it comes to nothing, whatever it is at before the switch; null: it may still come to something. */
function endReason(facts: ChangeFacts): string | null {
  const { branch, projectGone, suspended, cancelled, nodeGone, kind, copy, volume } = facts;
  if (branch === null || branch === "dropping" || projectGone) return "The database was dropped.";
  if (suspended) return "The project was suspended.";
  if (cancelled) return "It was cancelled.";
  // A restore does not need what was there.
  if (nodeGone && kind !== "restore") return goneReason;
  if (volume?.isLost) return "The volume is not there any more.";
  return copy?.nodeGone ? "The machine that keeps the copy was declared lost." : null;
}

const serving = ({ servers }: ChangeFacts): boolean =>
  servers.some(({ wanted, state }) => wanted && state === "serving");

function copy(facts: ChangeFacts): ChangeStep {
  const { copy: made, freezes, sinceMs } = facts;
  const reason = endReason(facts);
  if (reason !== null) return { do: "fail", reason };
  if (facts.standsBy)
    return { do: "fail", reason: "It is read-only by now, and can be moved once it may be written to." };
  if (made === null) return { do: "beginCopy" };
  if (made.state === "broken" || made.state === "ended") {
    return { do: "fail", reason: `The copy came to nothing${made.problem === null ? "." : `: ${made.problem}`}` };
  }
  if (made.isHere) return { do: "fail", reason: "No other machine could take it." };
  if (made.refusal !== null) {
    // Its tenant would be kept out for as long as that lasts, with no way back.
    return sinceMs < refusedMs
      ? wait("the machine to take its server")
      : { do: "fail", reason: refusedReason(made.refusal) };
  }
  if (sinceMs >= copyingMs) return { do: "fail", reason: "The copy was not made within a day." };
  if (made.state !== "following") return wait("the copy to be made");
  if (made.behindMs === null || made.behindMs > behindMsMax) return wait("the copy to follow");
  if (freezes > 0 && sinceMs < thawedMs * freezes) return wait("a moment before the next try");
  if (!serving(facts)) return wait("the server to answer");
  if (facts.serverStandsBy) return wait("a server that may be written to");
  if (facts.rotating || !facts.tenantCurrent) return wait("its password to be brought to the server");
  if (facts.tenantMs === null || facts.tenantMs < settledMs) return wait("others to be done with its password");
  if (facts.backingUp) return wait("its backup to be complete");
  return { do: "beginFreeze" };
}

function freeze(facts: ChangeFacts): ChangeStep {
  const { undoing, freezes, frozenMs, cancelled } = facts;
  const reason = endReason(facts);
  if (undoing === null) {
    if (reason !== null) return { do: "undo", reason };
    if (facts.copy?.refusal != null) return { do: "undo", reason: refusedReason(facts.copy.refusal) };
    if (frozenMs === null || frozenMs >= freezeMs) {
      return { do: "undo", reason: `The copy had not everything within ${freezeMs / 1_000} seconds.` };
    }
    if (facts.state === "draining") {
      if (facts.copy?.hasFrozen) return { do: "stop" };
      if (facts.sinceMs < refreezeMs) return wait("the copy to have everything");
    }
    return serving(facts) ? { do: "freeze" } : wait("the server to answer");
  }
  const to = reason !== null || cancelled || freezes >= freezesMax ? "failed" : "copying";
  const isTried = frozenMs !== null && frozenMs < letInMs;
  const canLetIn = isTried && serving(facts) && !facts.serverStandsBy && !facts.nodeGone && facts.branch === "ready";
  return { do: canLetIn ? "thaw" : "leave", to, reason: reason ?? undoing };
}

function stop(facts: ChangeFacts): ChangeStep {
  const { servers, kind, copy: from } = facts;
  const reason = endReason(facts);
  if (reason !== null) return { do: "fail", reason };
  // What serves goes on where it is. What does not has nowhere else to come up.
  if (from?.refusal != null && (kind === "move" || serving(facts))) {
    return { do: "fail", reason: refusedReason(from.refusal) };
  }
  const wanted = servers.filter((server) => server.wanted);
  if (wanted.length > 0) return { do: "removeServers", taskIds: wanted.map(({ taskId }) => taskId) };
  // It is over once its own node has said so, or will never say anything again.
  return servers.length > 0 ? wait("the server to end") : { do: "switch" };
}

function restore(facts: ChangeFacts): ChangeStep {
  const { kind, branch, projectGone, nodeGone, volume, servers, sinceMs, tenantCurrent } = facts;
  if (branch === null || branch === "dropping" || projectGone) {
    return { do: "fail", reason: "The database was dropped." };
  }
  if (nodeGone) return { do: "fail", reason: goneReason };
  const server = servers.find(({ wanted }) => wanted);
  const isLate = sinceMs >= (kind === "upgrade" ? upgradingMs : volume !== null ? reopeningMs : restoringMs);
  // The next one would come up no more than this one, and whoever uses the database waits.
  if (isLate || (server?.state === "failed" && server.failsAgain)) {
    return { do: "fail", reason: `The server did not come up${server?.problem == null ? "." : `: ${server.problem}`}` };
  }
  if (server === undefined) return servers.length > 0 ? wait("the server before to end") : { do: "startServer" };
  if (server.state === "failed") {
    return server.ageMs < restartMs
      ? wait("a moment before the next try")
      : { do: "removeServers", taskIds: [server.taskId] };
  }
  if (server.state !== "serving")
    return wait(kind === "upgrade" || volume !== null ? "the server to answer" : "the copy to be restored");
  return { do: tenantCurrent ? "proveLogin" : "bringTenant" };
}
