import { backupInvariants } from "./backups.ts";
import { changeInvariants } from "./changes.ts";
import { copyInvariants } from "./copies.ts";
import { databaseInvariants } from "./databases.ts";
import { edgeInvariants } from "./edges.ts";
import { jobInvariants } from "./jobs.ts";

/** An invariant that did not hold. */
export class Violation extends Error {
  override readonly name = "Violation";
  readonly invariant: number;
  constructor(invariant: number, text: string) {
    super(`invariant ${invariant}: ${text}`);
    this.invariant = invariant;
  }
}

/** What every check is about, by its number. */
export const invariants: Readonly<Record<number, string>> = {
  1: "an attempt starts at most once in the whole world",
  2: "nothing starts later than its window after the acceptance",
  3: "another attempt only after evidence that the last one never started",
  4: "an attempt has one record, on one node",
  5: "a release command starts once per deployment, and before its route moves",
  6: "accepted epochs of leaders never decrease",
  7: "nothing is accepted from a superseded session, an older placement epoch or a fenced node",
  8: "observed, desired, sequence numbers, generations and what an agent has persisted never go back",
  9: "observations are written by the owner of the node's session only",
  10: "a placement never runs again after its end, and never on two nodes",
  11: "a route gets only upstreams of its own deployment that answered, never of a lost node",
  12: "no container stops without an order that somebody gave",
  13: "no mass stop without a bulk token",
  14: "a container stops only when no edge in rotation sends it visitors",
  15: "reservations never exceed the capacity of a node",
  16: "nothing new is placed on a node that is not to have it",
  17: "whoever holds a lease gives it up before it ends",
  18: "a bootstrap token admits one node",
  19: "nothing moves away while many nodes are lost at once",
  20: "every queue stays within its bound",
  21: "an agent does and says only what is on its disk",
  22: "every replica that is wanted serves and is routed, or there is a reason",
  23: "every edge has the newest table",
  24: "no container is left over",
  25: "every attempt on a node that is back is over",
  26: "drains end, and leave nothing behind",
  27: "agents and edges do not ask to begin again for ever",
  28: "a system at rest is quiet",
  29: "what is open in a replaced container stays so until its drain is up or is ended",
  30: "what a stop covers serves nothing before a start",
  31: "nothing drains for ever",
  32: "no program ends by a failure that nobody caught",
  33: "a node that is well is connected",
  34: "an edge begins with no older table than it has said that it serves",
  35: "what an edge says that it serves is what its Caddy serves",
  36: "whoever publishes by what it is told publishes what a look at everything would",
  ...edgeInvariants,
  61: "an agent or edge that asks to begin again is told all of it next",
  ...jobInvariants,
  ...databaseInvariants,
  ...backupInvariants,
  ...changeInvariants,
  ...copyInvariants,
};
