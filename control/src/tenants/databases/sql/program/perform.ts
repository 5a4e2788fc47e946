import type { Duplex } from "node:stream";
import type { DatabaseEngine } from "@svc/proto";
import { limits } from "@svc/proto/limits";
import type { Clock } from "@svc/runtime/clock";
import { sleep } from "@svc/runtime/sleep";
import { Refused } from "../../../../stores/refused.ts";
import {
  type Asked,
  type ChildMessage,
  isAdminRequest,
  isTransfer,
  type RequestName,
  requestShapes,
  type SqlRefusal,
  sqlRefusals,
  type TaskMessage,
} from "../requests.ts";
import { mariadb } from "./mariadb/engine.ts";
import { readMigrations } from "./migrations.ts";
import { postgres } from "./postgres/engine.ts";
import { countTable, deleteOne, insertOne, readRows, updateOne } from "./rows.ts";
import type { AdminSession, Engine, Session } from "./session.ts";
import { countTables } from "./tables.ts";
import { exportTable, importTable } from "./transfer/tables.ts";

const engines: Record<DatabaseEngine, Engine> = { postgres, mariadb };

/** How often the server is asked how far a copy is, while nobody can write. */
const copiedLookMs = 20;

/** A transfer that waits for a lock of the tenant's has a place that others may use. */
const transferLockMs = 10_000;

type Work = { [N in RequestName]?: (asked: Asked<N>) => Promise<unknown> };

/** What a statement may take that was forgotten: whoever asked ends it before. */
const longestMsOf = (name: RequestName): number =>
  (isTransfer(name) ? limits.tableTransferMs : limits.studioStatementMs) + 5_000;

const tenantWork = (session: Session, clock: Clock, transfer: Duplex | null): Work => ({
  query: (asked) => session.query(asked),
  schema: () => session.schema(),
  rows: (asked) => readRows(session, asked),
  insert: (asked) => insertOne(session, asked),
  update: (asked) => updateOne(session, asked),
  delete: (asked) => deleteOne(session, asked),
  count: (asked) => countTable(session, asked),
  migrations: () => readMigrations(session),
  tables: (asked) => countTables(session, clock, asked),
  export: (asked) => exportTable(session, asked, transfer),
  import: (asked) => importTable(session, asked, transfer),
});

const adminWork = (session: AdminSession, clock: Clock): Work => ({
  createTenant: (asked) => session.createTenant(asked),
  dropTenant: (asked) => session.dropTenant(asked),
  setVerifier: (asked) => session.setVerifier(asked),
  readVerifier: async (asked) => ({ verifier: await session.readVerifier(asked) }),
  holdReadOnly: (asked) => session.holdReadOnly(asked),
  async freeze(asked) {
    const { position } = await session.freeze(asked);
    const { slot, waitMs } = asked;
    if (slot === null) return { position, isCopied: false };
    const untilMs = clock.bootMs() + waitMs;
    for (;;) {
      const isCopied = await session.isCopied(slot, position);
      if (isCopied || clock.bootMs() >= untilMs) return { position, isCopied };
      await sleep(clock, copiedLookMs);
    }
  },
  bringKeeper: (asked) => session.bringKeeper(asked),
  releaseSlots: async (asked) => ({ released: await session.releaseSlots(asked) }),
  usage: (asked) => session.usage(asked),
  async endSession(asked) {
    await session.cancel(asked);
    await sleep(clock, asked.graceMs);
    await session.terminate(asked);
  },
});

/**
 * Does one request on a connection of its own, and says how it ended. What the engine said reaches whoever asked; all else (a
 * connection that broke, bytes that are no answer) is thrown.
 */
export async function perform(
  clock: Clock,
  { engine, login, name, asked }: TaskMessage,
  { line, transfer }: { line: Duplex; transfer: Duplex | null },
  say: (message: ChildMessage) => void,
): Promise<ChildMessage> {
  const { open, openAdmin, refusalOf } = engines[engine];
  let isConnected = false;
  try {
    const request = requestShapes[name].takes.parse(asked);
    const isReadOnlyQuery = name === "query" && (request as Asked<"query">).readOnly;
    const lockMs = isTransfer(name) ? transferLockMs : null;
    const session = await (isAdminRequest(name)
      ? openAdmin(line, login)
      : open(line, login, { isReadOnlyQuery, longestMs: longestMsOf(name), lockMs }));
    isConnected = true;
    say({ says: "connected", sessionId: session.id });
    const work = "findTable" in session ? tenantWork(session, clock, transfer) : adminWork(session, clock);
    const startMs = clock.steadyMs();
    const given = await (work[name] as (asked: unknown) => Promise<unknown>)(request);
    return { says: "given", given: given ?? {}, durationMs: clock.steadyMs() - startMs };
  } catch (error) {
    if (error instanceof Refused) return { says: "refused", code: codeOf(error), message: error.message };
    const refusal = refusalOf(error);
    if (refusal === null) throw error;
    const { message, isNotReady } = refusal;
    if (isConnected || !isNotReady) return { says: "refused", code: "QUERY_ERROR", message };
    // Whoever asked knows no password: that one is being changed, or was by SQL, passes by itself.
    const told = `The database lets nobody in at the moment. Try again shortly. It said: ${message}`;
    return { says: "refused", code: "DATABASE_NOT_READY", message: told };
  }
}

function codeOf({ code }: Refused): SqlRefusal {
  const known = sqlRefusals.find((each) => each === code);
  if (known === undefined) throw new Error(`${code} is no refusal of SQL`);
  return known;
}
