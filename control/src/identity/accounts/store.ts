import { sql } from "kysely";
import type { Caller } from "../../http/caller.ts";
import type { Db } from "../../stores/db/pool.ts";
import { Refused } from "../../stores/refused.ts";

export interface AccountFacts {
  hasPassword: boolean;
  emailVerified: boolean;
  /** Sorted, without the password itself. */
  linkedProviders: string[];
}

const credentialProvider = "credential";

export async function getAccountFacts(db: Db, userId: string): Promise<AccountFacts> {
  const { emailVerified } = await db
    .selectFrom("auth.user")
    .select("emailVerified")
    .where("id", "=", userId)
    .executeTakeFirstOrThrow();
  const accounts = await db
    .selectFrom("auth.account")
    .select(["providerId", "password"])
    .where("userId", "=", userId)
    .execute();
  const providers = accounts.map(({ providerId }) => providerId).filter((provider) => provider !== credentialProvider);
  return {
    hasPassword: accounts.some(({ providerId, password }) => providerId === credentialProvider && password !== null),
    emailVerified,
    linkedProviders: [...new Set(providers)].sort(),
  };
}

const isNotBanned = sql<boolean>`not (coalesce(banned, false) and ("banExpires" is null or "banExpires" > now()))`;

/**
 * Holds everybody else off who counts or changes what the user owns, until the transaction ends. Throws UNAUTHORIZED
 * for somebody who was banned or deleted since the request was let in.
 */
export async function lockUser(tx: Db, userId: string): Promise<void> {
  const row = await tx
    .selectFrom("auth.user")
    .select("id")
    .where("id", "=", userId)
    .where(isNotBanned)
    .forNoKeyUpdate()
    .executeTakeFirst();
  if (row === undefined) throw new Refused("UNAUTHORIZED");
}

/**
 * The same for whoever makes a request that was let in a while ago. Throws UNAUTHORIZED also where the key was revoked or the session
 * ended since, or has run out: whoever was told so may rely on it. Nobody can end either until the transaction does.
 */
export async function lockCaller(
  tx: Db,
  { userId, tokenId, sessionId }: Pick<Caller, "userId" | "tokenId" | "sessionId">,
): Promise<void> {
  await lockUser(tx, userId);
  // By itself: one statement would look at what was there before it waited for the user.
  const now = sql<Date>`clock_timestamp()`;
  const credential =
    tokenId !== null
      ? tx
          .selectFrom("api_token")
          .select("id")
          .where("id", "=", tokenId)
          .where((key) => key.or([key("expires_at", "is", null), key("expires_at", ">", now)]))
      : tx
          .selectFrom("auth.session")
          .select("id")
          .where("id", "=", sessionId ?? "")
          .where("expiresAt", ">", now);
  if ((await credential.forKeyShare().executeTakeFirst()) === undefined) throw new Refused("UNAUTHORIZED");
}

/**
 * Gives the user a password (hashed by the identity library); false when there already is one.
 * Needs the user's row locked.
 */
export async function setFirstPassword(tx: Db, userId: string, hash: string, now: Date): Promise<boolean> {
  const existing = await tx
    .selectFrom("auth.account")
    .select(["id", "password"])
    .where("userId", "=", userId)
    .where("providerId", "=", credentialProvider)
    .executeTakeFirst();
  if (existing?.password) return false;
  if (existing === undefined) {
    await sql`insert into auth."account" ("accountId", "providerId", "userId", "password", "updatedAt")
      values (${userId}, ${credentialProvider}, ${userId}, ${hash}, now())`.execute(tx);
  } else {
    await tx
      .updateTable("auth.account")
      .set({ password: hash, updatedAt: now })
      .where("id", "=", existing.id)
      .execute();
  }
  return true;
}

export interface Usage {
  projects: number;
  diskBytes: number;
  deploysLastHour: number;
}

/**
 * What the user's projects take up now. Bytes are those in the registry, equal content of a project once; deployments
 * of the hour are those that the limit counts, also when they were removed since.
 */
export async function getUsage(db: Db, userId: string): Promise<Usage> {
  const { rows } = await sql<Usage>`
    with own as (select id from project where owner_id = ${userId} and deleting_at is null),
    content as (
      select max(size_bytes) as bytes from artifact
      where project_id in (select id from own) and digest is not null
      group by project_id, kind, repository, digest)
    select (select count(*) from own) as projects,
      (select coalesce(sum(bytes), 0)::bigint from content) as "diskBytes",
      (select count(*) from accepted_deploy where user_id = ${userId} and at > now() - interval '1 hour')
        as "deploysLastHour"`.execute(db);
  return rows[0] ?? { projects: 0, diskBytes: 0, deploysLastHour: 0 };
}
