import { type Event, Event_EventType, type WatchResponse } from "@svc/proto/etcd";
import { entryOf, textOf, type WatchEvent } from "./entry.ts";

/** Where a watch stands: everything below `nextRevision` has been handed to the consumer. */
export interface Resume {
  readonly clusterId: bigint;
  readonly nextRevision: bigint;
  /** Events of the newest revision of an unfinished message, kept until the rest of that revision is here. */
  readonly held: readonly WatchEvent[];
}

/**
 * What one watch response means.
 * - `continue`: go on, with the events to deliver (perhaps none).
 * - `relist`: the gap cannot be filled from the history; read everything anew.
 * - `reopen`: the server ended this watch; continue from the same place.
 */
export type Step =
  | { readonly do: "continue"; readonly resume: Resume; readonly events: readonly WatchEvent[] }
  | { readonly do: "relist"; readonly why: string }
  | { readonly do: "reopen"; readonly why: string };

/** The id of an answer to a progress request, which speaks for the whole stream and not for one watch. */
const wholeStream = -1n;

export const resumeAfter = (revision: bigint, clusterId: bigint): Resume => ({
  clusterId,
  nextRevision: revision + 1n,
  held: [],
});

/** The place to continue from on a new stream: the server sends the unfinished revision again. */
export const onNewStream = (resume: Resume): Resume => ({ ...resume, held: [] });

function eventOf({ type, kv }: Event): WatchEvent[] {
  if (kv === undefined) return [];
  const key = textOf(kv.key);
  if (type === Event_EventType.Delete) return [{ type: "delete", key, modRevision: kv.modRevision }];
  return [{ type: "put", key, modRevision: kv.modRevision, entry: entryOf(kv) }];
}

const largest = (a: bigint, b: bigint) => (a > b ? a : b);

/**
 * Takes one response of a watch that was created with `startRevision = resume.nextRevision`.
 *
 * `nextRevision` moves on by events and by this watch's own progress notifications, which are ordered with
 * its events. It never moves by other headers: that of the creation and that of an answer to a progress
 * request tell the store's revision while older events may still be on their way.
 */
export function stepResume(resume: Resume, response: WatchResponse): Step {
  const revision = response.header?.revision ?? 0n;
  const clusterId = response.header?.clusterId ?? 0n;
  const stay: Step = { do: "continue", resume, events: [] };

  if (response.compactRevision > 0n) {
    return { do: "relist", why: `compacted at ${response.compactRevision}, wanted ${resume.nextRevision}` };
  }
  if (clusterId !== 0n && clusterId !== resume.clusterId) return { do: "relist", why: "another cluster answered" };
  if (response.canceled) return { do: "reopen", why: response.cancelReason || "cancelled by the server" };
  if (response.created) {
    // A store that is behind what was already seen has been restored from a backup, or is a member that lags.
    const behind = revision < resume.nextRevision - 1n;
    return behind
      ? { do: "relist", why: `the store is at ${revision}, already saw ${resume.nextRevision - 1n}` }
      : stay;
  }
  if (response.watchId === wholeStream) return stay;
  if (response.events.length === 0) {
    return { ...stay, resume: { ...resume, nextRevision: largest(resume.nextRevision, revision + 1n) } };
  }

  const fresh = response.events.flatMap(eventOf).filter((event) => event.modRevision >= resume.nextRevision);
  const all = [...resume.held, ...fresh];
  const newest = all.at(-1)?.modRevision;
  if (newest === undefined) return stay;
  // A large answer comes in parts. Only its newest revision can be incomplete, and a revision is delivered whole.
  const complete = response.fragment ? all.filter((event) => event.modRevision < newest) : all;
  const held = response.fragment ? all.filter((event) => event.modRevision === newest) : [];
  const delivered = complete.at(-1)?.modRevision;
  return {
    do: "continue",
    events: complete,
    resume: { ...resume, held, nextRevision: delivered === undefined ? resume.nextRevision : delivered + 1n },
  };
}
