import { randomUUID } from "node:crypto";
import { clip, limits, stripControl } from "@svc/proto";
import { type DeliverLogRequest, LogState } from "@svc/proto/node";
import { sql } from "kysely";
import { z } from "zod";
import type { RuntimeExit, RuntimeLog } from "../context.ts";
import type { Listener } from "../db/listen.ts";
import type { Db } from "../db/pool.ts";
import { createBell } from "../wake.ts";
import { timeOf } from "./apply-status.ts";
import type { Roster } from "./roster.ts";

/** No answer came from the node in time, or it said why it has none. */
export class LogUnavailable extends Error {
  override readonly name = "LogUnavailable";
  /** `silent`: nobody answered. `refused`: the node has nothing to read; the message is its reason. */
  readonly why: "silent" | "refused";
  constructor(why: "silent" | "refused", message: string) {
    super(message);
    this.why = why;
  }
}

const queryChannel = "svc_node_query";
const replyChannel = "svc_log_reply";
/** Also looked at without a notification: the listening connection may just be reconnecting. */
const lookEveryMs = 1_000;
const forgetAfterSeconds = 300;

const query = z.object({
  requestId: z.uuid(),
  nodeId: z.string(),
  placementId: z.string(),
  lines: z.number().int().positive(),
});

/** The question in a notification; null for anything else, also for the empty one after a reconnection. */
function parseQuery(payload: string) {
  try {
    return query.parse(JSON.parse(payload));
  } catch {
    return null;
  }
}

/**
 * The last lines of a container, running or exited. The question goes to all replicas; the one that
 * holds the node's stream passes it on, and the answer comes back through the database, to whichever replica
 * the agent calls. Throws `LogUnavailable`.
 */
export async function queryLog(
  { db, listen }: { db: Db; listen: Listener },
  nodeId: string,
  placementId: string,
  lines: number,
  timeoutMs: number,
): Promise<RuntimeLog> {
  const requestId = randomUUID();
  const bell = createBell();
  using _ = listen.on(replyChannel, (payload) => {
    if (payload === requestId || payload === "") bell.ring();
  });
  const deadline = performance.now() + timeoutMs;
  const never = new AbortController().signal;
  await sql`select pg_notify(${queryChannel}, ${JSON.stringify({ requestId, nodeId, placementId, lines })})`.execute(
    db,
  );
  for (;;) {
    const leftMs = deadline - performance.now();
    await bell.wait(Math.max(0, Math.min(leftMs, lookEveryMs)), never);
    const reply = await db
      .deleteFrom("log_reply")
      .where("request_id", "=", requestId)
      .returning(["text", "lines", "error", "state", "exit"])
      .executeTakeFirst();
    if (reply !== undefined) {
      const { text, lines, error, exit } = reply;
      if (error !== null && reply.state !== "absent") throw new LogUnavailable("refused", error);
      // An agent of an earlier version does not tell, and reads mostly from what runs.
      return { text, lines, state: reply.state ?? "running", exit };
    }
    if (leftMs <= 0) throw new LogUnavailable("silent", "the node did not answer in time");
  }
}

/** Passes questions on to the agents whose streams this replica holds. */
export function forwardLogQueries(listen: Listener, roster: Roster): Disposable {
  return listen.on(queryChannel, (payload) => {
    const asked = parseQuery(payload);
    if (asked !== null) roster.find(asked.nodeId)?.queryLog?.(asked);
  });
}

const states: ReadonlyMap<LogState, RuntimeLog["state"]> = new Map([
  [LogState.RUNNING, "running"],
  [LogState.EXITED, "exited"],
  [LogState.ABSENT, "absent"],
]);

/** Stores an agent's answer and wakes the replica that asked. Answers that nobody fetched are forgotten after a while. */
export async function deliverLog(
  db: Db,
  { requestId, text, lines, error, state, exit }: DeliverLogRequest,
  now: Date,
): Promise<void> {
  if (!z.uuid().safeParse(requestId).success) return;
  await db
    .deleteFrom("log_reply")
    .where("created_at", "<", new Date(now.getTime() - forgetAfterSeconds * 1000))
    .execute();
  await db
    .insertInto("log_reply")
    .values({
      request_id: requestId,
      // Postgres text holds no NUL.
      text: clip(text.replaceAll("\0", "").toWellFormed(), limits.logReplyBytesMax),
      lines,
      error: error === "" ? null : clip(error, limits.errorTextBytesMax),
      state: states.get(state) ?? null,
      exit: exit === undefined ? null : JSON.stringify(exitOf(exit, now)),
      created_at: now,
    })
    .onConflict((conflict) => conflict.column("request_id").doNothing())
    .execute();
  await sql`select pg_notify(${replyChannel}, ${requestId})`.execute(db);
}

const exitOf = ({ code, oomKilled, reason, at }: NonNullable<DeliverLogRequest["exit"]>, now: Date): RuntimeExit => ({
  code: code ?? null,
  oomKilled,
  reason: clip(stripControl(reason), limits.errorTextBytesMax),
  at: timeOf(at, now),
});
