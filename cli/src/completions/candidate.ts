import type { Argument } from "../command.ts";

/** A word that may come next, and what it is about. */
export interface Candidate {
  word: string;
  about: string;
}

/** Asks the platform for words; none when it does not answer. */
export type Ask = (what: NonNullable<Argument<unknown>["completes"]>) => Promise<Candidate[]>;
