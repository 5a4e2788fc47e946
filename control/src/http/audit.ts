import { AsyncLocalStorage } from "node:async_hooks";
import { type RawBuilder, sql } from "kysely";
import type { Db } from "../stores/db/pool.ts";
import type { Caller } from "./caller.ts";

/** Who acts, as far as a line tells. Without `kind` by no credential of the API: with a password, a link in a mail. */
export type Actor = Pick<Caller, "userId" | "tokenId"> & Partial<Pick<Caller, "email" | "kind">>;

export interface AuditEntry {
  /** Null when nobody was signed in, and for what svc does by itself. */
  caller: Actor | null;
  address: string;
  /** noun.verb, as in "project.create". */
  action: string;
  /** Id of what was acted on. */
  target?: string;
  /** Names and counts; never a value, a password, or a body. */
  detail?: Record<string, unknown>;
}

/** Which request is being answered. Every line is to name it, and nobody on the way from there to the line needs it. */
const requestIds = new AsyncLocalStorage<string>();

/** Runs `answer`: lines that are added meanwhile, however late, name the request. */
export const whileAnswering = (requestId: string, answer: () => void): void => requestIds.run(requestId, answer);

/** Adds a line to the audit log, in the transaction of what it is about. Nobody changes or deletes it afterwards. */
export async function recordAudit(db: Db, entry: AuditEntry): Promise<void> {
  await db.insertInto("audit").values(row(entry)).execute();
}

function row({ caller, address, action, target, detail = {} }: AuditEntry) {
  return {
    user_id: caller?.userId ?? null,
    user_email: caller === null ? null : (caller.email ?? emailOf(caller.userId)),
    credential: caller?.kind ?? null,
    token_id: caller?.tokenId ?? null,
    request_id: requestIds.getStore() ?? null,
    action,
    target: target ?? null,
    address,
    detail: JSON.stringify(detail),
  };
}

const emailOf = (userId: string): RawBuilder<string | null> =>
  sql`(select email from auth."user" where id = ${userId})`;

/** How many refusals of one user are told of per hour. */
const refusalHours = 1;

/**
 * Adds a line when somebody who is signed in is refused administration: the first one of each user and hour, so that
 * nobody fills the log by trying on.
 */
export async function recordRefusedAdministration(
  db: Db,
  { caller, address, route, requestId }: { caller: Actor; address: string; route: string; requestId: string },
): Promise<void> {
  if (await isRefusalKnown(db, caller.userId)) return;
  await db.transaction().execute(async (tx) => {
    // Many may be refused at once. By a statement of its own, so that the next one sees what was written meanwhile.
    await sql`select pg_advisory_xact_lock(hashtextextended(${`${refusal} ${caller.userId}`}, 0))`.execute(tx);
    if (await isRefusalKnown(tx, caller.userId)) return;
    const line = row({ caller, address, action: refusal, detail: { route } });
    await tx
      .insertInto("audit")
      .values({ ...line, request_id: requestId })
      .execute();
  });
}

const refusal = "admin.refused";

async function isRefusalKnown(db: Db, userId: string): Promise<boolean> {
  const known = await db
    .selectFrom("audit")
    .select("id")
    .where("user_id", "=", userId)
    .where("action", "=", refusal)
    .where("at", ">", sql<Date>`now() - ${refusalHours} * interval '1 hour'`)
    .limit(1)
    .executeTakeFirst();
  return known !== undefined;
}
