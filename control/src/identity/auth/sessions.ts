import type { Db } from "../../stores/db/pool.ts";

/** What of a session no script may read: a page could be made to hand it on, and the cookie it stands for is out of reach. */
const hidden: ReadonlySet<string> = new Set(["token", "impersonatedBy"]);

const isObject = (value: unknown): value is object => typeof value === "object" && value !== null;

const shown = (session: unknown): unknown =>
  isObject(session) ? Object.fromEntries(Object.entries(session).filter(([name]) => !hidden.has(name))) : session;

/** The answer of get-session or list-sessions, parsed, as its caller may see it. */
export function withoutTokens(answer: unknown): unknown {
  if (Array.isArray(answer)) return answer.map(shown);
  return isObject(answer) && "session" in answer ? { ...answer, session: shown(answer.session) } : answer;
}

/** The token of a session, whoever has it; null when there is none with that id. */
export async function findSessionToken(db: Db, id: unknown): Promise<string | null> {
  if (typeof id !== "string" || !/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(id)) return null;
  const row = await db.selectFrom("auth.session").select("token").where("id", "=", id).executeTakeFirst();
  return row?.token ?? null;
}
