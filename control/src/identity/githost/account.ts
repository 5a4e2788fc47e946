import type { Clock } from "@svc/runtime/clock";
import { symmetricDecrypt, symmetricEncrypt } from "better-auth/crypto";
import type { GithostConfig } from "../../settings/settings.ts";
import type { Db } from "../../stores/db/pool.ts";
import { type GithostClient, GithostError } from "./client.ts";
import { githostProvider } from "./provider.ts";
import { accountPrefix } from "./settings.ts";

interface LinkedAccount {
  id: string;
  accessToken: string | null;
  refreshToken: string | null;
  accessTokenExpiresAt: Date | null;
}

/** The user's account at the Git host of `config`, the one that was connected last; null when there is none. */
export async function findLinkedAccount(db: Db, config: GithostConfig, userId: string): Promise<LinkedAccount | null> {
  const prefix = accountPrefix(config);
  const row = await db
    .selectFrom("auth.account")
    .select(["id", "accessToken", "refreshToken", "accessTokenExpiresAt"])
    .where("userId", "=", userId)
    .where("providerId", "=", githostProvider)
    .where((w) => w(w.fn("left", ["accountId", w.val(prefix.length)]), "=", prefix))
    .orderBy("updatedAt", "desc")
    .executeTakeFirst();
  return row ?? null;
}

/** The part of better-auth that seals what it stores. */
export interface Sealing {
  readonly $context: Promise<{ secretConfig: Parameters<typeof symmetricDecrypt>[0]["key"] }>;
}

interface Parts {
  db: Db;
  auth: Sealing;
  config: GithostConfig;
  client: GithostClient;
  clock: Clock;
}

/** A token about to expire could do so on its way. */
const expiresSoonMs = 60_000;

/**
 * Runs `use` with a token that works, as far as we can tell: one that has run out is exchanged for a new one first.
 * Null when the user has no account at the Git host. Throws `GithostError`.
 */
export async function withGithostToken<T>(
  parts: Parts,
  userId: string,
  use: (token: string) => Promise<T>,
): Promise<T | null> {
  const account = await findLinkedAccount(parts.db, parts.config, userId);
  if (account === null) return null;
  const expiresAt = account.accessTokenExpiresAt?.getTime() ?? Number.POSITIVE_INFINITY;
  if (expiresAt > parts.clock.now().getTime() + expiresSoonMs)
    return use(await openToken(parts.auth, account.accessToken));
  return use(await refreshed(parts, userId, account));
}

/** Opens what better-auth sealed, as it does itself. */
async function openToken(auth: Sealing, sealed: string | null): Promise<string> {
  try {
    return await symmetricDecrypt({ key: (await auth.$context).secretConfig, data: sealed ?? "" });
  } catch (error) {
    throw new GithostError("refused", "there is no stored token, or another secret sealed it", error);
  }
}

async function refreshed(parts: Parts, userId: string, account: LinkedAccount): Promise<string> {
  const { clock, db, auth, config, client } = parts;
  const { secretConfig: key } = await auth.$context;
  let problem = new GithostError("refused", "the connection was given up meanwhile");
  try {
    const tokens = await client.refresh(await openToken(auth, account.refreshToken));
    const { numUpdatedRows } = await db
      .updateTable("auth.account")
      .set({
        accessToken: await symmetricEncrypt({ key, data: tokens.accessToken }),
        ...(tokens.refreshToken && { refreshToken: await symmetricEncrypt({ key, data: tokens.refreshToken }) }),
        accessTokenExpiresAt: tokens.accessTokenExpiresAt ?? null,
        updatedAt: clock.now(),
      })
      .where("id", "=", account.id)
      .where("accessToken", "is not distinct from", account.accessToken)
      .executeTakeFirst();
    if (numUpdatedRows === 1n) return tokens.accessToken;
  } catch (error) {
    if (!(error instanceof GithostError)) throw error;
    problem = error;
  }
  // Another request has exchanged the same refresh token, which works once; or the user has connected again.
  const now = await findLinkedAccount(db, config, userId);
  if (now === null || now.accessToken === account.accessToken) throw problem;
  return openToken(auth, now.accessToken);
}

/** What a user would lose by giving up the connection: another way in must remain. */
export type Disconnected = "done" | "none" | "last-way-in";

/** Gives up the user's connection to the Git host. Needs the user's row locked. */
export async function disconnectGithost(tx: Db, userId: string): Promise<Disconnected> {
  const accounts = await tx
    .selectFrom("auth.account")
    .select(["providerId", "password"])
    .where("userId", "=", userId)
    .execute();
  if (!accounts.some(({ providerId }) => providerId === githostProvider)) return "none";
  if (!accounts.some(({ password }) => password !== null)) return "last-way-in";
  await tx.deleteFrom("auth.account").where("userId", "=", userId).where("providerId", "=", githostProvider).execute();
  return "done";
}
