import type { ObservationValue } from "../cluster/keys.ts";

/** What the timeline has said of a container that serves. */
export interface Noted {
  /** `crashed`: it ended by itself and is started again. `ended`: it is not started any more. Null: all is well. */
  trouble: "crashed" | "ended" | null;
  /** Restarts that were told of. */
  restarts: number;
  /** Lines that were written. */
  notes: number;
}

export interface Note {
  /** Null: nothing is written, the facts are only remembered. */
  event: { phase: "crashed" | "recovered" | "ended"; detail: string } | null;
  noted: Noted;
}

/** An app that falls over for ever must not push everything else out of its deployment's timeline. */
export const notesMax = 100;
const notListed = " This happens too often to be listed from here on.";

type Facts = Pick<ObservationValue, "observed" | "health" | "restartSeq" | "failure">;

/** Whether there can be anything to note at all. */
export const isNoteworthy = ({ observed, health, restartSeq }: Facts): boolean =>
  observed === "failed" || health === "backoff" || restartSeq > 0;

/**
 * What is to be noted of a container, given what was noted before; null when that still holds. A crash is noted once
 * and not again before the app has answered in between.
 */
export function nextNote(facts: Facts, before: Noted): Note | null {
  const { observed, health, restartSeq } = facts;
  if (observed === "failed") {
    if (before.trouble === "ended") return null;
    const noted = { trouble: "ended" as const, restarts: restartSeq, notes: before.notes + 1 };
    return { noted, event: { phase: "ended", detail: headline(facts) } };
  }
  if (health === "backoff") {
    if (before.trouble === "crashed") return null;
    return note("crashed", headline(facts), { ...before, trouble: "crashed" });
  }
  if (observed !== "running" || health !== "healthy") return null;
  // A crash that was over before anybody looked shows only in the count.
  const restarts = restartSeq - before.restarts;
  if (before.trouble === null && restarts <= 0) return null;
  const detail = `The app answers again after ${restarts <= 1 ? "a restart" : `${restarts} restarts`}.`;
  return note("recovered", detail, { ...before, trouble: null, restarts: restartSeq });
}

function note(phase: "crashed" | "recovered", detail: string, noted: Noted): Note {
  const notes = noted.notes + 1;
  if (notes > notesMax) return { noted, event: null };
  return {
    noted: { ...noted, notes },
    event: { phase, detail: notes === notesMax ? `${detail}${notListed}` : detail },
  };
}

/** The reason without the last lines of the log, which runtime logs show. */
const headline = ({ failure }: Facts): string =>
  (failure?.message ?? "The app ended.").split(" Last lines:\n")[0] ?? "";
