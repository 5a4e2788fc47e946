import { readStoredScopes, type Scope } from "@svc/proto";
import { CompiledQuery } from "kysely";
import type { Db } from "../stores/db/pool.ts";
import type { CredentialKind, Principal } from "./access.ts";
import { type Credential, hashKey, isIssuedKey, openSignedToken } from "./credentials.ts";

/** The account that makes a request, proven and not banned. */
export interface Caller extends Principal {
  userId: string;
  email: string;
  name: string;
  emailVerified: boolean;
  kind: CredentialKind;
  /** The key that made the call; null for a session. */
  tokenId: string | null;
  /** The session that made it; null for a key. */
  sessionId: string | null;
  scopes: Scope[] | null;
  projectIds: string[] | null;
  /** From the plan; null is no limit. */
  rateLimitPerMinute: number | null;
}

export interface UserRow {
  /** Place in the list of what was asked for, from 1. */
  at: number;
  userId: string;
  email: string;
  name: string;
  emailVerified: boolean;
  role: string | null;
  rateLimitPerMinute: number | null;
}

export interface KeyRow extends UserRow {
  tokenId: string;
  hasScopes: boolean;
  scopes: unknown;
  projectIds: unknown[] | null;
  /** Whether its last use was noted so long ago that this one is worth noting. */
  stale: boolean;
}

export interface SessionRow extends UserRow {
  sessionId: string;
}

/** How often the use of a key is noted. */
export const lastUsedEverySeconds = 60;

/** Columns and joins that both kinds of credential need. A ban that has run out is none. */
const userColumns = `asked.at::int as at, u.id as "userId", u.email, u.name, u."emailVerified", u.role,
    p.rate_limit_per_minute as "rateLimitPerMinute"`;
const planJoin = `left join account a on a.user_id = u.id
    left join plan p on p.id = coalesce(a.plan_id, (select id from plan where is_default))`;
const notBanned = `not (coalesce(u.banned, false) and (u."banExpires" is null or u."banExpires" > now()))`;

/** Live keys of users who are not banned, by their hashes ($1). */
export const keysQuery = `
  select ${userColumns}, t.id as "tokenId", t.scopes is not null as "hasScopes", t.scopes, t.project_ids as "projectIds",
    coalesce(t.last_used_at < now() - interval '${lastUsedEverySeconds} seconds', true) as stale
  from unnest($1::bytea[]) with ordinality as asked (hash, at)
    join api_token t on t.hash = asked.hash and (t.expires_at is null or t.expires_at > now())
    join auth."user" u on u.id = t.user_id and ${notBanned}
    ${planJoin}`;

/** Live sessions of users who are not banned, by their tokens ($1). */
export const sessionsQuery = `
  select ${userColumns}, s.id as "sessionId"
  from unnest($1::text[]) with ordinality as asked (token, at)
    join auth."session" s on s.token = asked.token and s."expiresAt" > now()
    join auth."user" u on u.id = s."userId" and ${notBanned}
    ${planJoin}`;

/** What is looked up for a credential. */
export interface Lookup {
  kind: CredentialKind;
  /** The key, or the session's token. */
  secret: string;
  /** Whether we once signed it, so that nobody can have guessed it. */
  isSigned: boolean;
}

/** Null when `credential` is not even of the right form, or forged. `secret` is the one that sessions are signed with. */
export function lookupOf(credential: Credential, secret: string): Lookup | null {
  if (credential.via === "key") {
    return isIssuedKey(credential.key) ? { kind: "key", secret: credential.key, isSigned: false } : null;
  }
  // Session tokens have no dot; the signed form does.
  if (credential.via === "bearer" && !credential.token.includes("."))
    return { kind: "session", secret: credential.token, isSigned: false };
  const signed = credential.via === "cookie" ? credential.signedToken : decoded(credential.token);
  const token = openSignedToken(signed, secret);
  return token === null ? null : { kind: "session", secret: token, isSigned: true };
}

/** Sign-in returns the signed form as it stands in the cookie. */
function decoded(token: string): string {
  try {
    return decodeURIComponent(token);
  } catch {
    return token;
  }
}

export function keyCaller(row: KeyRow): Caller {
  // A stored JSON null reads like an absent value, and only the absent one is full access.
  const stored = row.hasScopes ? (row.scopes ?? []) : null;
  // Whatever is no id in a damaged list is no project; the list stays one.
  const projectIds = row.projectIds?.filter((id) => typeof id === "string").sort() ?? null;
  return {
    ...userOf(row),
    kind: "key",
    tokenId: row.tokenId,
    sessionId: null,
    scopes: readStoredScopes(stored, projectIds),
    projectIds,
  };
}

export const signedInCaller = (row: SessionRow): Caller => ({
  ...userOf(row),
  kind: "session",
  tokenId: null,
  sessionId: row.sessionId,
  scopes: null,
  projectIds: null,
});

const userOf = ({ userId, email, name, emailVerified, role, rateLimitPerMinute }: UserRow) => ({
  userId,
  email,
  name,
  emailVerified,
  // The library keeps several roles in one text.
  isAdmin: (role ?? "").split(",").includes("admin"),
  rateLimitPerMinute,
});

/**
 * Who presents `credential`; null when it is unknown, expired, forged, or its user is banned. For single questions;
 * calls of the API are many and ask through `createCallers`.
 */
export async function findCaller(db: Db, credential: Credential, secret: string): Promise<Caller | null> {
  const lookup = lookupOf(credential, secret);
  if (lookup === null) return null;
  if (lookup.kind === "key") {
    const query = CompiledQuery.raw(keysQuery, [[hashKey(lookup.secret)]]);
    const [row] = (await db.executeQuery<KeyRow>(query)).rows;
    return row === undefined ? null : keyCaller(row);
  }
  const [row] = (await db.executeQuery<SessionRow>(CompiledQuery.raw(sessionsQuery, [[lookup.secret]]))).rows;
  return row === undefined ? null : signedInCaller(row);
}
