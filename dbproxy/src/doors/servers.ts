import { connect, type Socket } from "node:net";
import type { DatabaseProxyDial, DatabaseProxyEntry, DatabaseProxyRefusal } from "@svc/proto/database-proxy";
import type { Clock } from "@svc/runtime/clock";
import { createTokenBuckets } from "@svc/runtime/token-bucket";
import type { Counts } from "../sessions/counts.ts";
import { connected } from "./connected.ts";

/** A way to a server, or why there is none. */
export type Opened = { stream: Socket } | { refused: DatabaseProxyRefusal };

/** New connections of one database, and apart from these as many that only cancel a query. */
export interface Rate {
  ratePerSecond: number;
  burst: number;
}
const databasesMax = 20_000;

export type OpenServer = (
  entry: Pick<DatabaseProxyEntry, "databaseId" | "connectionLimit">,
  socketPath: string,
  purpose: DatabaseProxyDial["purpose"],
  signal: AbortSignal,
) => Promise<Opened>;

/**
 * Opens connections to servers of this machine. Every connection to a database passes here, wherever its app is, so this is
 * where they are counted: one that only cancels a query is not, since that is what helps when all are taken.
 */
export function createOpenServer(options: {
  clock: Clock;
  counts: Counts;
  rate: Rate;
  serverMs: number;
  onChange(): void;
}): OpenServer {
  const { clock, counts, rate, serverMs, onChange } = options;
  const rates = {
    session: createTokenBuckets({ ...rate, max: databasesMax }),
    cancel: createTokenBuckets({ ...rate, max: databasesMax }),
  };
  return async ({ databaseId, connectionLimit }, socketPath, purpose, signal) => {
    const isCounted = purpose === "session";
    if (!rates[purpose].take(databaseId, clock.steadyMs())) return { refused: "rate" };
    if (isCounted && !counts.take(databaseId, connectionLimit)) return { refused: "limit" };
    const stream = connect({ path: socketPath, allowHalfOpen: true });
    if (isCounted) {
      stream.once("close", () => {
        counts.give(databaseId);
        onChange();
      });
      onChange();
    }
    const within = AbortSignal.any([signal, clock.abortAfter(serverMs)]);
    return (await connected(stream, "connect", within)) ? { stream } : { refused: "away" };
  };
}
