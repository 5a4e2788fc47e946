// @pure
import type { NodeAxes } from "@svc/proto";
export type NodeLink = Exclude<NodeAxes["link"], "quarantined">;

/** What a session key says of its node's stream, without what time adds. */
export type StreamState = "open" | "reconciling" | "silent" | "detached" | "orphaned" | "absent";

/** The part of a session's value that decides. */
export interface StreamedSession {
  serverId: string;
  reconciled: boolean;
  suspect: boolean;
  detached: boolean;
}

/** What a daemon's session keys, each of its role, say of its stream; null: neither does. An edge has all there is to say at once. */
export const streamedSession = (
  node: StreamedSession | null | undefined,
  edge: Pick<StreamedSession, "serverId" | "detached"> | null | undefined,
): StreamedSession | null => node ?? (edge ? { ...edge, reconciled: true, suspect: false } : null);

/** `serverAlive`: the replica of control that holds the stream is announced. */
export function streamState(session: StreamedSession | null, serverAlive: boolean): StreamState {
  if (session === null) return "absent";
  if (!serverAlive) return "orphaned";
  if (session.detached) return "detached";
  if (session.suspect) return "silent";
  return session.reconciled ? "open" : "reconciling";
}

/** A stream in the state in which it was last seen, and since when it is. */
export interface SeenStream {
  state: StreamState;
  since: Date;
}

/** What is known of a stream once it is seen in `state` at `at`. Who clears a key that was left behind does not lose the node anew. */
export function seenStream(before: SeenStream | undefined, state: StreamState, at: Date): SeenStream {
  if (before?.state === state) return before;
  const isCleared = before?.state === "orphaned" && state === "absent";
  return { state, since: isCleared ? before.since : at };
}

/**
 * The link of a node whose stream has been in `state` since `since`. The owner of a stream deletes the key when the
 * lease is over; when the owner itself is gone, nobody has counted, so a whole lease on both sides is given anew.
 */
export function nodeLink(state: StreamState, since: Date, now: Date): { link: NodeLink; since: Date } {
  switch (state) {
    case "open":
      return { link: "connected", since };
    case "reconciling":
      return { link: "reconciling", since };
    case "silent":
    case "detached":
      return { link: "suspect", since };
    case "absent":
      return { link: "unreachable", since };
    case "orphaned": {
      const over = new Date(since.getTime() + graceMs);
      return now < over ? { link: "unknown", since } : { link: "unreachable", since: over };
    }
  }
}

/** Whether there is no stream on which the node could be asked anything. */
export const isStreamless = (state: StreamState): boolean =>
  state === "detached" || state === "orphaned" || state === "absent";

/** Both sides of a lease have given it up by then, and whoever lost a replica of control has found another. */
export const graceMs = 32_300;
