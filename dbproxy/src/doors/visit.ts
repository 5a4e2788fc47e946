import type { Socket } from "node:net";
import type { DatabaseEngine } from "@svc/proto/database";
import type { DatabaseProxyEntry } from "@svc/proto/database-proxy";
import type { Clock } from "@svc/runtime/clock";
import type { Metrics } from "../metrics/metrics.ts";
import type { Refusal } from "../refusals.ts";
import type { CancelKeys } from "../sessions/cancel-keys.ts";
import type { Counts } from "../sessions/counts.ts";
import type { Sessions } from "../sessions/sessions.ts";
import type { Table } from "../table/table.ts";
import { dismiss, splice } from "../wire/splice.ts";
import type { Door } from "./door.ts";

/** What greets clients needs of this process. */
export interface House {
  clock: Clock;
  table: Table;
  door: Door;
  sessions: Sessions;
  counts: Counts;
  cancelKeys: CancelKeys;
  metrics: Metrics;
  /** For a client, until it has said who it is. */
  clientMs: number;
  /** For a server, until it is reached, and from then until it says its first word. */
  serverMs: number;
  /** A count changed. */
  onChange(): void;
}

/** One client at one bridge, from its connection to its end. */
export interface Visit {
  house: House;
  engine: DatabaseEngine;
  bridge: string;
  client: Socket;
  /** Aborts when the client is gone. */
  gone: AbortSignal;
}

/** Time for a client to say what is asked of it, from now on. */
export const clientTime = ({ house, gone }: Visit): AbortSignal =>
  AbortSignal.any([gone, house.clock.abortAfter(house.clientMs)]);

/** Time for a server to say its next word. */
export const serverTime = ({ house, gone }: Visit): AbortSignal =>
  AbortSignal.any([gone, house.clock.abortAfter(house.serverMs)]);

/** Tells the client why, in the words of its engine, and lets it go. */
export function refuse({ house, engine, client }: Visit, why: Refusal, words: Buffer): void {
  house.metrics.refusals.inc({ engine, why });
  dismiss(client, words, house.clock.abortAfter(house.serverMs));
}

/**
 * Does `work` as a session of the entry's database, which ends with the client, with the work, or when a table says so.
 * The server's stream is opened within it, since a table may change while it is.
 */
export async function asSession(
  { house, engine, bridge, client }: Visit,
  { databaseId, epoch }: DatabaseProxyEntry,
  work: () => Promise<void>,
): Promise<void> {
  const forget = house.sessions.add({ databaseId, epoch, of: { bridge }, end: () => client.destroy() });
  house.metrics.sessions.inc({ engine });
  try {
    await work();
  } finally {
    house.metrics.sessions.dec({ engine });
    forget();
  }
}

/** Counts a login that the server refused. */
export function countFailure({ house, engine }: Visit, databaseId: string): void {
  house.counts.loginFailed(databaseId);
  house.metrics.failedLogins.inc({ engine });
  house.onChange();
}

/** Passes on what both say until the end, and counts it. */
export async function converse({ house, engine, client }: Visit, server: Socket): Promise<void> {
  house.metrics.opened.inc({ engine });
  await splice(client, server);
  house.metrics.bytes.inc({ engine, direction: "in" }, client.bytesRead);
  house.metrics.bytes.inc({ engine, direction: "out" }, client.bytesWritten);
}
