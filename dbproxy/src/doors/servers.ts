import { connect, type Socket } from "node:net";
import type { DatabaseProxyEntry, DatabaseProxyRefusal } from "@svc/proto/database-proxy";
import type { Clock } from "@svc/runtime/clock";
import { createTokenBuckets } from "@svc/runtime/token-bucket";
import { type Counts, createCounts } from "../sessions/counts.ts";
import type { Purpose } from "../table/admission.ts";
import { connected } from "./connected.ts";

/** A way to a server, or why there is none. */
export type Opened = { stream: Socket } | { refused: DatabaseProxyRefusal };

/** New connections of one database, and apart from these as many that only cancel a query, and as many of each copy. */
export interface Rate {
  ratePerSecond: number;
  burst: number;
}
const databasesMax = 20_000;
/** Of one copy at once: a whole copy takes three, following takes two, and somebody asks now and then how far it is. */
const copyConnectionsMax = 8;

export type OpenServer = (
  entry: Pick<DatabaseProxyEntry, "databaseId" | "connectionLimit">,
  socketPath: string,
  what: Purpose,
  signal: AbortSignal,
) => Promise<Opened>;

/**
 * Opens connections to servers of this machine. Every connection to a database passes here, wherever its app is, so this is
 * where they are counted: one that only cancels a query is not, since that is what helps when all are taken, nor is a
 * copy's, which takes no place from apps and has a bound of its own.
 */
export function createOpenServer(options: {
  clock: Clock;
  counts: Counts;
  rate: Rate;
  serverMs: number;
  onChange(): void;
}): OpenServer {
  const { clock, counts, rate, serverMs, onChange } = options;
  const bucketsOf = () => createTokenBuckets({ ...rate, max: databasesMax });
  const rates = { session: bucketsOf(), cancel: bucketsOf(), copy: bucketsOf() };
  const copies = createCounts();

  /** Takes a place where there are only so many. What gives it back; null: there is none left. */
  function takePlace(databaseId: string, limit: number, what: Purpose): (() => void) | null {
    if (what.purpose === "cancel") return () => {};
    if (what.purpose === "copy") {
      return copies.take(what.copyId, copyConnectionsMax) ? () => copies.give(what.copyId) : null;
    }
    if (!counts.take(databaseId, limit)) return null;
    onChange();
    return () => {
      counts.give(databaseId);
      onChange();
    };
  }

  return async ({ databaseId, connectionLimit }, socketPath, what, signal) => {
    const who = what.purpose === "copy" ? what.copyId : databaseId;
    if (!rates[what.purpose].take(who, clock.steadyMs())) return { refused: "rate" };
    const giveBack = takePlace(databaseId, connectionLimit, what);
    if (giveBack === null) return { refused: "limit" };
    const stream = connect({ path: socketPath, allowHalfOpen: true });
    stream.once("close", giveBack);
    const within = AbortSignal.any([signal, clock.abortAfter(serverMs)]);
    return (await connected(stream, "connect", within)) ? { stream } : { refused: "away" };
  };
}
