import { clip, limits, stripControl } from "@svc/proto";
import { type DeliverLogRequest, LogState } from "@svc/proto/node";
import type { Clock } from "@svc/runtime/clock";
import type { Random } from "@svc/runtime/random";
import { createWake } from "@svc/runtime/wake";
import { sql } from "kysely";
import { z } from "zod";
import type { Listener } from "../../stores/db/listen.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Roster } from "../sessions/roster.ts";
import { timeOf } from "./apply-status.ts";
import type { RuntimeExit, RuntimeLog } from "./runtime-log.ts";

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

const queryTopic = "svc_node_query";
const replyTopic = "svc_log_reply";
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
 * The last lines of a container, running or exited. The question is kept, and goes to all replicas; the one that
 * holds the node's stream passes it on, and the answer comes back through the database, to whichever replica
 * the agent calls. Throws `LogUnavailable`.
 */
export async function queryLog(
  { clock, random, db, listen }: { clock: Clock; random: Random; db: Db; listen: Listener },
  nodeId: string,
  placementId: string,
  lines: number,
  timeoutMs: number,
): Promise<RuntimeLog> {
  const requestId = random.uuid();
  const wake = createWake(clock);
  using _ = listen.on(replyTopic, (payload) => {
    if (payload === requestId || payload === "") wake.signal();
  });
  const deadlineMs = clock.steadyMs() + timeoutMs;
  const never = new AbortController().signal;
  await using _question = await keepQuestion(db, requestId, nodeId);
  await sql`select pg_notify(${queryTopic}, ${JSON.stringify({ requestId, nodeId, placementId, lines })})`.execute(db);
  for (;;) {
    const leftMs = deadlineMs - clock.steadyMs();
    await wake.wait(Math.max(0, Math.min(leftMs, lookEveryMs)), never);
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

/** The node may answer until the disposal. Also forgets what a replica left that died while it waited. */
async function keepQuestion(db: Db, requestId: string, nodeId: string): Promise<AsyncDisposable> {
  const old = sql<Date>`now() - ${forgetAfterSeconds} * interval '1 second'`;
  await db.deleteFrom("log_query").where("asked_at", "<", old).execute();
  await db.deleteFrom("log_reply").where("created_at", "<", old).execute();
  await db.insertInto("log_query").values({ request_id: requestId, node_id: nodeId }).execute();
  return {
    async [Symbol.asyncDispose]() {
      await db.deleteFrom("log_query").where("request_id", "=", requestId).execute();
    },
  };
}

/** Passes questions on to the agents whose streams this replica holds. */
export function forwardLogQueries(listen: Listener, roster: Roster): Disposable {
  return listen.on(queryTopic, (payload) => {
    const asked = parseQuery(payload);
    if (asked !== null) roster.find(asked.nodeId)?.queryLog?.(asked);
  });
}

const states: ReadonlyMap<LogState, RuntimeLog["state"]> = new Map([
  [LogState.RUNNING, "running"],
  [LogState.EXITED, "exited"],
  [LogState.ABSENT, "absent"],
]);

/**
 * Stores the answer of a node that was asked and wakes the replica that waits for it. False when nobody asked that of
 * this node: what another one says of its containers, or nobody wants to know, is not kept.
 */
export async function deliverLog(
  db: Db,
  nodeId: string,
  { requestId, text, lines, error, state, exit }: DeliverLogRequest,
  now: Date,
): Promise<boolean> {
  if (!z.uuid().safeParse(requestId).success) return false;
  const asked = await db
    .selectFrom("log_query")
    .select("request_id")
    .where("request_id", "=", requestId)
    .where("node_id", "=", nodeId)
    .executeTakeFirst();
  if (asked === undefined) return false;
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
    })
    .onConflict((conflict) => conflict.column("request_id").doNothing())
    .execute();
  await sql`select pg_notify(${replyTopic}, ${requestId})`.execute(db);
  return true;
}

const exitOf = ({ code, oomKilled, reason, at }: NonNullable<DeliverLogRequest["exit"]>, now: Date): RuntimeExit => ({
  code: code ?? null,
  oomKilled,
  reason: clip(stripControl(reason), limits.errorTextBytesMax),
  at: timeOf(at, now),
});
