import { readStoredScopes, type Scope } from "@svc/proto";
import { sql } from "kysely";
import type { Db } from "../db/pool.ts";
import type { CredentialKind, Principal } from "./access.ts";
import { type Credential, hashKey, openSignedToken } from "./credentials.ts";

/** Whoever makes a request, proven and not banned. */
export interface Caller extends Principal {
  userId: string;
  email: string;
  name: string;
  emailVerified: boolean;
  kind: CredentialKind;
  /** The key that made the call; null for a session. */
  tokenId: string | null;
  scopes: Scope[] | null;
  projectIds: string[] | null;
  /** From the plan; null is no limit. */
  rateLimitPerMinute: number | null;
}

interface UserRow {
  userId: string;
  email: string;
  name: string;
  emailVerified: boolean;
  role: string | null;
  rateLimitPerMinute: number | null;
}

interface TokenRow extends UserRow {
  tokenId: string;
  hasScopes: boolean;
  scopes: unknown;
  projectIds: string[] | null;
  stale: boolean;
}

const tokenLastUsedEverySeconds = 60;

/** Columns and joins that both kinds of credential need. A ban that has run out is none. */
const userColumns = sql`u.id as "userId", u.email, u.name, u."emailVerified", u.role, p.rate_limit_per_minute as "rateLimitPerMinute"`;
const planJoin = sql`left join account a on a.user_id = u.id
  left join plan p on p.id = coalesce(a.plan_id, (select id from plan where is_default))`;
const notBanned = sql`not (coalesce(u.banned, false) and (u."banExpires" is null or u."banExpires" > now()))`;

/**
 * Who presents `credential`; null when it is unknown, expired, forged, or its user is banned.
 * `secret` is the one that session cookies are signed with.
 */
export function findCaller(db: Db, credential: Credential, secret: string): Promise<Caller | null> {
  if (credential.via === "key") return findKeyCaller(db, credential.key);
  const token = sessionToken(credential, secret);
  return token === null ? Promise.resolve(null) : findSessionCaller(db, token);
}

function sessionToken(credential: Exclude<Credential, { via: "key" }>, secret: string): string | null {
  if (credential.via === "cookie") return openSignedToken(credential.signedToken, secret);
  // Session tokens have no dot; the signed form does.
  return credential.token.includes(".") ? openSignedToken(decoded(credential.token), secret) : credential.token;
}

/** Sign-in returns the signed form as it stands in the cookie. */
function decoded(token: string): string {
  try {
    return decodeURIComponent(token);
  } catch {
    return token;
  }
}

async function findKeyCaller(db: Db, key: string): Promise<Caller | null> {
  const { rows } = await sql<TokenRow>`
    select t.id as "tokenId", t.scopes is not null as "hasScopes", t.scopes, t.project_ids as "projectIds",
      coalesce(t.last_used_at < now() - ${tokenLastUsedEverySeconds} * interval '1 second', true) as stale, ${userColumns}
    from api_token t join auth."user" u on u.id = t.user_id ${planJoin}
    where t.hash = ${hashKey(key)} and (t.expires_at is null or t.expires_at > now()) and ${notBanned}`.execute(db);
  const [row] = rows;
  if (row === undefined) return null;
  if (row.stale) {
    await db.updateTable("api_token").set({ last_used_at: sql<Date>`now()` }).where("id", "=", row.tokenId).execute();
  }
  // A stored JSON null reads like an absent value, and only the absent one is full access.
  const stored = row.hasScopes ? (row.scopes ?? []) : null;
  const projectIds = row.projectIds === null ? null : row.projectIds.toSorted();
  return {
    ...userOf(row),
    kind: "key",
    tokenId: row.tokenId,
    scopes: readStoredScopes(stored, projectIds),
    projectIds,
  };
}

async function findSessionCaller(db: Db, token: string): Promise<Caller | null> {
  const { rows } = await sql<UserRow>`
    select ${userColumns} from auth."session" s join auth."user" u on u.id = s."userId" ${planJoin}
    where s.token = ${token} and s."expiresAt" > now() and ${notBanned}`.execute(db);
  const [row] = rows;
  return row === undefined ? null : { ...userOf(row), kind: "session", tokenId: null, scopes: null, projectIds: null };
}

const userOf = ({ userId, email, name, emailVerified, role, rateLimitPerMinute }: UserRow) => ({
  userId,
  email,
  name,
  emailVerified,
  // The library keeps several roles in one text.
  isAdmin: (role ?? "").split(",").includes("admin"),
  rateLimitPerMinute,
});
