import { randomBytes } from "node:crypto";
import { limits } from "@svc/proto";
import type { Clock } from "@svc/runtime/clock";
import type { BetterAuthPlugin } from "better-auth";
import { APIError, createAuthMiddleware } from "better-auth/api";
import { setSessionCookie } from "better-auth/cookies";
import { sql } from "kysely";
import { recordAudit } from "../../http/audit.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { FindCallSession } from "./call-session.ts";
import { type DeviceCookie, rememberDevice } from "./device-cookie.ts";
import { type PasswordProblem, passwordAdvice, passwordProblem } from "./password.ts";
import { findPasswordHash, storePasswordHash } from "./password-store.ts";
import { hasSession, lockAccess, signOutEverywhere, takeOver } from "./put-out.ts";
import { tooManyAttempts } from "./refusals.ts";
import { forgetGuesses, refundPasswordCheck, takePasswordCheck } from "./throttle.ts";
import { addressOf } from "./trail.ts";

export interface NewPasswordParts {
  clock: Clock;
  db: Db;
  findSession: FindCallSession;
  secret: string;
  cookie: DeviceCookie;
}

const text = (value: unknown): string => (typeof value === "string" ? value : "");
const fieldsOf = (body: unknown): Record<string, unknown> => Object(body) as Record<string, unknown>;

const problemCodes: Readonly<Record<PasswordProblem, string>> = {
  "too-short": "PASSWORD_TOO_SHORT",
  "too-long": "PASSWORD_TOO_LONG",
  "too-easy": "PASSWORD_TOO_EASY",
};

const refusal = (code: string, message: string, status: "BAD_REQUEST" | "UNAUTHORIZED" = "BAD_REQUEST") =>
  new APIError(status, { code, message });
const badLink = () => refusal("INVALID_TOKEN", "The link has expired or was used already.");
const signedOut = () => refusal("UNAUTHORIZED", "Sign in first.", "UNAUTHORIZED");

/** The new password of a request, if the account of `email` may have it. */
function readPassword(given: unknown, email: string): string {
  const password = text(given);
  const problem = passwordProblem(password, email);
  if (problem !== null) throw refusal(problemCodes[problem], passwordAdvice[problem]);
  return password;
}

/**
 * better-auth's calls that replace a password, answered here: it writes the password first and ends the sessions later,
 * and whoever has to be put out could meanwhile change it once more, or make something that lets them in again. Here
 * both are one transaction.
 */
export function newPassword({ clock, db, findSession, secret, cookie }: NewPasswordParts): BetterAuthPlugin {
  return {
    id: "svc-new-password",
    hooks: {
      before: [
        {
          matcher: ({ path }) => path === "/reset-password",
          handler: createAuthMiddleware(async (ctx) => {
            const { token, newPassword } = fieldsOf(ctx.body);
            const { internalAdapter, password: passwords } = ctx.context;
            const identifier = `reset-password:${text(token)}`;
            const found = await internalAdapter.findVerificationValue(identifier);
            const isOpen = found && found.expiresAt > clock.now();
            const user = isOpen ? await internalAdapter.findUserById(found.value) : null;
            if (user === null) throw badLink();
            // Before the link is used up: hashing may have no place for it.
            const hash = await passwords.hash(readPassword(newPassword, user.email));
            if ((await internalAdapter.consumeVerificationValue(identifier)) === null) throw badLink();
            if (!(await resetPassword(db, user.id, hash, addressOf(ctx)))) throw badLink();
            await forgetGuesses(db, user.email);
            // Who has the mailbox is the owner, and may sign in with the new password while others go on guessing.
            rememberDevice(ctx, cookie, secret, { email: user.email, password: hash });
            return ctx.json({ status: true });
          }),
        },
        {
          matcher: ({ path }) => path === "/change-password",
          handler: createAuthMiddleware(async (ctx) => {
            const session = await findSession(ctx);
            if (session === null) throw signedOut();
            const { userId, email } = session.caller;
            const { currentPassword, newPassword } = fieldsOf(ctx.body);
            const { internalAdapter, password: passwords } = ctx.context;
            const chosen = readPassword(newPassword, email);
            const before = await findPasswordHash(db, userId);
            if (before === null) throw refusal("CREDENTIAL_ACCOUNT_NOT_FOUND", "The account has no password yet.");
            const given = text(currentPassword).slice(0, limits.accountPasswordLengthMax + 1);
            const wait = await takePasswordCheck(db, userId);
            if (wait !== null) throw tooManyAttempts(wait);
            if (!(await passwords.verify({ hash: before, password: given })))
              throw refusal("INVALID_PASSWORD", "The current password is not right.");
            await refundPasswordCheck(db, userId);
            const hash = await passwords.hash(chosen);
            const change = { userId, token: session.token, before, hash, address: addressOf(ctx) };
            const token = await changePassword(db, change);
            const renewed = token === null ? null : await internalAdapter.findSession(token);
            if (renewed === null) throw signedOut();
            await setSessionCookie(ctx, renewed);
            rememberDevice(ctx, cookie, secret, { email, password: hash });
            return ctx.json({ token, user: renewed.user });
          }),
        },
      ],
    },
  };
}

/**
 * What a new password by mail means: the mailbox is proven, and everybody is signed out. If it never was proven before,
 * whoever made the account may have been somebody else, so nothing of theirs opens it any more. False: the user is gone.
 */
function resetPassword(db: Db, userId: string, hash: string, address: string): Promise<boolean> {
  return db.transaction().execute(async (tx) => {
    const user = await lockAccess(tx, userId);
    if (user === null) return false;
    await storePasswordHash(tx, userId, hash);
    if (user.emailVerified) {
      await signOutEverywhere(tx, userId, null);
    } else {
      await takeOver(tx, userId);
      await tx.updateTable("auth.user").set({ emailVerified: true }).where("id", "=", userId).execute();
    }
    const caller = { userId, tokenId: null };
    await recordAudit(tx, { caller, address, action: "account.reset-password", target: userId });
    return true;
  });
}

interface PasswordChange {
  userId: string;
  /** Of the session that asks. */
  token: string;
  /** Hash of the password that was given as the current one. */
  before: string;
  hash: string;
  address: string;
}

/**
 * Everybody else is signed out, for whoever changes a password may do so because somebody else knows the old one; the
 * session that asks goes on under a new token, which is returned. Null: it has ended, or the password was replaced.
 */
function changePassword(db: Db, { userId, token, before, hash, address }: PasswordChange): Promise<string | null> {
  return db.transaction().execute(async (tx) => {
    if ((await lockAccess(tx, userId)) === null || !(await hasSession(tx, userId, token))) return null;
    if ((await findPasswordHash(tx, userId)) !== before) return null;
    const renewed = randomBytes(24).toString("base64url");
    await storePasswordHash(tx, userId, hash);
    await tx
      .updateTable("auth.session")
      .set({ token: renewed, updatedAt: sql<Date>`clock_timestamp()` })
      .where("token", "=", token)
      .execute();
    await signOutEverywhere(tx, userId, renewed);
    const caller = { userId, tokenId: null };
    await recordAudit(tx, { caller, address, action: "account.change-password", target: userId });
    return renewed;
  });
}
