// @pure
import { splitLastLines } from "@svc/proto";
import type { CrashingValue, ObservationValue } from "../../fleet/cluster/keys.ts";

/** What the timeline has said of a container that serves. */
export interface Noted {
  /** `crashed`: it ended by itself and is started again. `ended`: it is not started any more. Null: all is well. */
  trouble: "crashed" | "ended" | null;
  /** Restarts that were told of. */
  restarts: number;
  /** Lines that were written. */
  notes: number;
  /** Its crashes in a row, as they were told last; null: none. */
  crashing: CrashingValue | null;
}

export interface Note {
  /** Null: nothing is written, the facts are only remembered. */
  event: { phase: "crashed" | "recovered" | "ended"; detail: string } | null;
  noted: Noted;
}

/** An app that falls over for ever must not push everything else out of its deployment's timeline. */
export const notesMax = 100;
const notListed = " This happens too often to be listed from here on.";

type Facts = Pick<ObservationValue, "observed" | "health" | "restartSeq" | "failure" | "crashing">;

/** Whether there can be anything to note at all. */
export const isNoteworthy = ({ observed, health, restartSeq, crashing }: Facts): boolean =>
  observed === "failed" || health === "backoff" || restartSeq > 0 || crashing !== undefined;

/**
 * What is to be noted of a container next, given what was noted before; null when that still holds. A crash is noted once
 * and not again before the app has answered in between, or its agent knows better why it was.
 */
export function nextNote(facts: Facts, before: Noted): Note | null {
  const { observed, health, restartSeq } = facts;
  const crashing = facts.crashing ?? null;
  const known = { ...before, crashing };
  if (observed === "failed") {
    if (before.trouble === "ended") return null;
    const noted = { ...known, trouble: "ended" as const, restarts: restartSeq, notes: before.notes + 1 };
    return { noted, event: { phase: "ended", detail: headline(facts) } };
  }
  const isAnother = crashing !== null && crashing.lastAt !== before.crashing?.lastAt;
  const isExplained = crashing !== null && !isAnother && crashing.reason !== before.crashing?.reason;
  if (isExplained) return note("crashed", crashing.reason, known);
  // The first is started again at once: it may be over when somebody looks.
  if (before.trouble === null && (isAnother || health === "backoff")) {
    return note("crashed", crashing?.reason ?? headline(facts), { ...known, trouble: "crashed" });
  }
  const remembered = isSame(crashing, before.crashing) ? null : { event: null, noted: known };
  if (observed !== "running" || health !== "healthy") return remembered;
  // Of an older agent: a crash that was over before anybody looked shows only in the count.
  const restarts = restartSeq - before.restarts;
  if (before.trouble === null && restarts <= 0) return remembered;
  const detail = `The app answers again after ${restarts <= 1 ? "a restart" : `${restarts} restarts`}.`;
  return note("recovered", detail, { ...known, trouble: null, restarts: restartSeq });
}

const isSame = (a: CrashingValue | null, b: CrashingValue | null): boolean =>
  a?.since === b?.since &&
  a?.lastAt === b?.lastAt &&
  a?.count === b?.count &&
  a?.reason === b?.reason &&
  a?.nextStartAt === b?.nextStartAt;

function note(phase: "crashed" | "recovered", detail: string, noted: Noted): Note {
  const notes = noted.notes + 1;
  if (notes > notesMax) return { noted, event: null };
  return {
    noted: { ...noted, notes },
    event: { phase, detail: notes === notesMax ? `${detail}${notListed}` : detail },
  };
}

/** The reason without the last lines of the log, which runtime logs show. */
const headline = ({ failure }: Facts): string => splitLastLines(failure?.message ?? "The app ended.").reason;
