import { randomBytes } from "node:crypto";
import { readStoredScopes, type Scope } from "@svc/proto";
import { sql } from "kysely";
import { hashKey, keyBytes, keyPrefix } from "../../http/credentials.ts";
import type { Db } from "../../stores/db/pool.ts";

/** Enough of a key to recognise it, far too little to guess it. */
const startLength = keyPrefix.length + 6;

export interface Token {
  id: string;
  name: string;
  start: string;
  scopes: Scope[] | null;
  projectIds: string[] | null;
  expiresAt: Date | null;
  lastUsedAt: Date | null;
  createdAt: Date;
}

export interface NewToken {
  id: string;
  userId: string;
  name: string;
  /** Null: full access. */
  scopes: Scope[] | null;
  /** Null: every project. */
  projectIds: string[] | null;
  expiresAt: Date | null;
  createdAt: Date;
}

/** Stores a new key and returns it. Only its hash is kept: it cannot be read again. */
export async function insertToken(db: Db, token: NewToken): Promise<Token & { key: string }> {
  const key = `${keyPrefix}${randomBytes(keyBytes).toString("base64url")}`;
  const start = key.slice(0, startLength);
  await db
    .insertInto("api_token")
    .values({
      id: token.id,
      user_id: token.userId,
      name: token.name,
      start,
      hash: hashKey(key),
      scopes: token.scopes === null ? null : JSON.stringify(token.scopes),
      project_ids: token.projectIds,
      expires_at: token.expiresAt,
      created_at: token.createdAt,
    })
    .execute();
  const { userId: _, ...rest } = token;
  return { ...rest, projectIds: token.projectIds?.toSorted() ?? null, start, lastUsedAt: null, key };
}

/** The user's keys, newest first; expired ones too, so that people see why a key stopped working. */
export async function listTokens(db: Db, userId: string): Promise<Token[]> {
  const rows = await db
    .selectFrom("api_token")
    .select(["id", "name", "start", "scopes", "project_ids", "expires_at", "last_used_at", "created_at"])
    .select(sql<boolean>`scopes is not null`.as("has_scopes"))
    .where("user_id", "=", userId)
    .orderBy("created_at", "desc")
    .orderBy("id")
    .execute();
  return rows.map((row) => ({
    id: row.id,
    name: row.name,
    start: row.start,
    scopes: readStoredScopes(row.has_scopes ? (row.scopes ?? []) : null, row.project_ids),
    projectIds: row.project_ids?.filter((id) => typeof id === "string").sort() ?? null,
    expiresAt: row.expires_at,
    lastUsedAt: row.last_used_at,
    createdAt: row.created_at,
  }));
}

/** Expired keys included. Needs the user's row locked to stay true. */
export async function countTokens(tx: Db, userId: string): Promise<number> {
  const { count } = await tx
    .selectFrom("api_token")
    .select((token) => token.fn.countAll<number>().as("count"))
    .where("user_id", "=", userId)
    .executeTakeFirstOrThrow();
  return count;
}

/** Deletes what no longer opens anything. Returns how many went. */
export async function deleteExpiredTokens(tx: Db, userId: string): Promise<number> {
  const { numDeletedRows } = await tx
    .deleteFrom("api_token")
    .where("user_id", "=", userId)
    .where("expires_at", "<=", sql<Date>`now()`)
    .executeTakeFirst();
  return Number(numDeletedRows);
}

/** False when the user has no such key. */
export async function deleteToken(db: Db, userId: string, id: string): Promise<boolean> {
  const { numDeletedRows } = await db
    .deleteFrom("api_token")
    .where("user_id", "=", userId)
    .where("id", "=", id)
    .executeTakeFirst();
  return numDeletedRows === 1n;
}

/** How many of `ids` are projects of the user. */
export async function countOwnProjects(db: Db, userId: string, ids: readonly string[]): Promise<number> {
  const { count } = await db
    .selectFrom("project")
    .select((project) => project.fn.countAll<number>().as("count"))
    .where("owner_id", "=", userId)
    .where("deleting_at", "is", null)
    .where("id", "in", [...ids])
    .executeTakeFirstOrThrow();
  return count;
}
