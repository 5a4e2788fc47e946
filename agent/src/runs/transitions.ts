import type { RunRecord, RunState } from "../journal/records.ts";

/** What can happen to an attempt. */
export type RunEvent =
  /** Control allows the start. `lateByMs` is above 0 when too much time went by since the acceptance. */
  | { kind: "granted"; token: string; lateByMs: number }
  /** Control, or a failure before the start, calls it off. */
  | { kind: "called-off"; message: string }
  /** The engine is about to be told to start it. `lateByMs` is above 0 when preparing it took too long since the acceptance. */
  | { kind: "starting"; lateByMs?: number; gate?: string; startedIn?: string }
  | { kind: "started"; at: string }
  | { kind: "ended"; exitCode: number; at: string; message: string }
  /** Its gate was shut before its container came to it. */
  | { kind: "held-back"; message: string }
  | { kind: "timed-out" }
  /** It wrote more to the disk than it may, and is about to be ended. */
  | { kind: "overflowed"; storageMb: number }
  /** The agent was restarted and looked at the container. `ran`: its gate says that the command was started. */
  | { kind: "recovered"; container: "absent" | "created" | "running" | "exited"; ran?: boolean }
  /** A grant for an attempt of which nothing is known. */
  | { kind: "granted-unknown"; token: string };

/** States that are evidence: from here on nothing can start. */
export const isFinal = (state: RunState): boolean =>
  state === "exit" || state === "tombstone" || state === "indeterminate";

/**
 * The record after an event, or null when the event does not apply and changes nothing. Only a grant in the
 * state `offer` leads to a start, and only `intent` is ever started: a second grant, a repeat and anything that
 * comes after a restart of the agent find another state.
 */
export function nextRun(record: RunRecord, event: RunEvent): RunRecord | null {
  const { state } = record;
  switch (event.kind) {
    case "granted":
      if (state !== "offer") return null;
      if (event.lateByMs > 0)
        return { ...record, token: event.token, state: "tombstone", message: "The grant came too late." };
      return { ...record, token: event.token, state: "intent" };
    case "called-off":
      if (state !== "offer" && state !== "intent") return null;
      return { ...record, state: "tombstone", message: event.message };
    case "starting":
      if (state !== "intent") return null;
      return (event.lateByMs ?? 0) > 0
        ? { ...record, state: "tombstone", message: "Preparing the command took too long." }
        : { ...record, state: "start-sent", ...gateOf(event) };
    case "started":
      // An attempt that was given up as unknown turns out to run.
      if (state !== "start-sent" && state !== "indeterminate") return null;
      return { ...record, state: "start-sent", startedAt: record.startedAt === "" ? event.at : record.startedAt };
    case "ended":
      if (state !== "start-sent" && state !== "indeterminate") return null;
      return { ...record, state: "exit", exitCode: event.exitCode, finishedAt: event.at, message: event.message };
    case "held-back":
      // What was told to have started has claimed its gate, or will.
      return state === "start-sent" && record.startedAt === ""
        ? { ...record, state: "tombstone", message: event.message }
        : null;
    case "timed-out":
      return state === "start-sent" && !record.timedOut ? { ...record, timedOut: true } : null;
    case "overflowed":
      return state === "start-sent" && record.overflowMb === undefined
        ? { ...record, overflowMb: event.storageMb }
        : null;
    case "recovered":
      return recover(record, event);
    case "granted-unknown":
      return state === "offer" ? { ...record, token: event.token, state: "indeterminate", message: unknown } : null;
  }
}

const unknown = "The node does not know whether the command ran.";
const endUnknown = "The command was started, and the node does not know how it ended.";

const gateOf = ({ gate, startedIn }: { gate?: string; startedIn?: string }) =>
  gate === undefined || startedIn === undefined ? {} : { gate, startedIn };

/** What a restarted agent makes of an attempt. It reports and never starts. */
function recover(
  record: RunRecord,
  { container, ran = false }: { container: "absent" | "created" | "running" | "exited"; ran?: boolean },
): RunRecord | null {
  switch (record.state) {
    case "offer":
    case "intent":
      return { ...record, state: "tombstone", message: "The node's agent was restarted before the command started." };
    case "start-sent":
      // The order to start may still be on its way inside the engine, so a container that has not started proves nothing.
      if (container === "absent" || container === "created")
        return { ...record, state: "indeterminate", message: ran || record.startedAt !== "" ? endUnknown : unknown };
      return null;
    default:
      return null;
  }
}
