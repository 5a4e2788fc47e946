import { accountNameProblem, emailAddress, writtenAddress } from "@svc/proto";
import type { Clock } from "@svc/runtime/clock";
import type { BetterAuthPlugin } from "better-auth";
import { APIError, createAuthMiddleware, isAPIError } from "better-auth/api";
import type { Config } from "../../settings/settings.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { FindCallSession } from "./call-session.ts";
import { type DeviceCookie, rememberDevice } from "./device-cookie.ts";
import { refuseEntry } from "./entry.ts";
import { knownDevice, linkedDevice } from "./known-device.ts";
import { passwordAdvice, passwordProblem } from "./password.ts";
import { findPasswordHash, findUserWithPassword } from "./password-store.ts";
import { dropDeviceCode, endIfPutOut, endIfUnlinked } from "./put-out.ts";
import { entryError, isBusy, tooManyAttempts } from "./refusals.ts";
import type { SignInLinks } from "./sign-in-link.ts";
import { refundSignIn, type SignInAttempt, takeSignIn } from "./throttle.ts";
import { type AuthCall, addressOf, type Trail } from "./trail.ts";

export interface GuardParts {
  clock: Clock;
  db: Db;
  config: Pick<Config, "authSecret" | "signup">;
  trail: Trail;
  findSession: FindCallSession;
  cookie: DeviceCookie;
  /** Null: no mail is sent. */
  links: SignInLinks | null;
}

const accountExists = "There already is an account with this address. Sign in.";

const text = (value: unknown): string => (typeof value === "string" ? value : "");
const fieldsOf = (body: unknown): Record<string, unknown> => Object(body) as Record<string, unknown>;

function refuseBadPassword(password: unknown, email: string | null): void {
  if (typeof password !== "string") return;
  const problem = passwordProblem(password, email);
  // Its length is better-auth's own business, which has codes for it.
  if (problem === "too-easy")
    throw new APIError("BAD_REQUEST", { code: "PASSWORD_TOO_EASY", message: passwordAdvice[problem] });
}

/** The address that a link says it confirms, unproven; null when it is not ours at all. */
function addressIn(token: string): string | null {
  try {
    const claims: unknown = JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString());
    const { email } = fieldsOf(claims);
    return typeof email === "string" ? email : null;
  } catch {
    return null;
  }
}

/**
 * Whether what a session began with was put an end to before the session was written, which is ended then: better-auth
 * looks at a password or a code first and holds nothing until it is done.
 */
async function cameTooLate(
  db: Db,
  path: string,
  { user, session }: { user: { id: string; updatedAt: Date }; session: { token: string } },
): Promise<boolean> {
  if (path === "/callback/:id") return endIfUnlinked(db, user.id, session.token);
  // A ban that has run out is lifted on the way in, which changes the user as well.
  if ((user as { banned?: unknown }).banned === true) return false;
  return endIfPutOut(db, user, session.token);
}

/** What somebody signs up as is shown to others and mailed. */
function refuseBadName(name: unknown): void {
  const problem = accountNameProblem(text(name));
  if (problem !== null) throw new APIError("BAD_REQUEST", { code: "INVALID_NAME", message: problem });
}

/** Our rules for what better-auth's own calls may do, before and after each. */
export function guard({ clock, db, config, trail, findSession, cookie, links }: GuardParts): BetterAuthPlugin {
  const deviceOf = async (email: string, mark: string | null, link: string): Promise<string | null> => {
    if (mark === null && link === "") return null;
    const password = (await findUserWithPassword(db, email))?.password ?? null;
    if (password === null) return null;
    const account = { email, password };
    const { authSecret: secret } = config;
    return knownDevice(secret, account, mark) ?? linkedDevice(secret, account, link, clock.now().getTime());
  };
  const attemptOf = async (call: AuthCall, mark: string | null): Promise<SignInAttempt | null> => {
    const { email: typed, link } = fieldsOf(call.body);
    const email = text(typed);
    // Also one that nobody could come in with by now.
    if (writtenAddress(email) === null) return null;
    return { email, address: addressOf(call), device: await deviceOf(email, mark, text(link)) };
  };

  return {
    id: "svc-guard",
    hooks: {
      before: [
        {
          matcher: ({ path }) => path === "/sign-up/email",
          handler: createAuthMiddleware(async (ctx) => {
            const fields = fieldsOf(ctx.body);
            const email = text(fields["email"]);
            refuseBadName(fields["name"]);
            refuseBadPassword(fields["password"], email);
            const refused = await refuseEntry({ db, signup: config.signup }, ctx, email.toLowerCase());
            if (refused !== null) throw entryError(refused);
            // An address that no mail reaches, or that two programs read differently, is none.
            if (emailAddress(email) === null) throw entryError("INVALID_EMAIL");
          }),
        },
        {
          matcher: ({ path }) => path === "/sign-in/email",
          handler: createAuthMiddleware(async (ctx) => {
            const attempt = await attemptOf(ctx, ctx.getCookie(cookie.name) ?? null);
            const held = attempt === null ? null : await takeSignIn(db, attempt);
            if (attempt === null || held === null) return;
            const offered = held.by === "account" ? links : null;
            await offered?.offer(attempt.email, text(fieldsOf(ctx.body)["password"]), ctx.context.password);
            throw tooManyAttempts(held.waitSeconds, offered !== null);
          }),
        },
        {
          // Anybody can sign up with any address. Whoever has its mailbox, and did not, would open the account to them.
          matcher: ({ path }) => path === "/verify-email",
          handler: createAuthMiddleware(async (ctx) => {
            const email = addressIn(text(fieldsOf(ctx.query)["token"]));
            if (email === null) return;
            const session = await findSession(ctx);
            if (session === null)
              throw new APIError("UNAUTHORIZED", { code: "SIGN_IN_FIRST", message: "Sign in to confirm the address." });
            if (session.caller.email.toLowerCase() !== email.toLowerCase())
              throw new APIError("FORBIDDEN", { code: "OTHER_ACCOUNT", message: "The link is for another account." });
          }),
        },
      ],
      after: [
        {
          matcher: ({ path }) => path === "/sign-up/email" && config.signup === "invite",
          handler: createAuthMiddleware(async (ctx) => {
            // The same answer for an account that was there before hides it from everybody but who was invited to this
            // address and has shown it, and they have to know that their invitation made nothing.
            const { user } = fieldsOf(ctx.context.returned) as { user?: { id?: unknown } };
            if (typeof user?.id === "string" && (await ctx.context.internalAdapter.findUserById(user.id)) === null)
              throw new APIError("BAD_REQUEST", { code: "ACCOUNT_EXISTS", message: accountExists });
          }),
        },
        {
          matcher: ({ path }) => path === "/sign-in/email" || path === "/device/token" || path === "/callback/:id",
          handler: createAuthMiddleware(async (ctx) => {
            const { newSession } = ctx.context;
            if (!newSession || !(await cameTooLate(db, ctx.path, newSession))) return;
            ctx.context.setNewSession(null);
            const message = "Everybody was just signed out of this account. Sign in again.";
            throw new APIError("UNAUTHORIZED", { code: "SIGNED_OUT", message });
          }),
        },
        {
          matcher: ({ path }) => path === "/sign-in/email",
          handler: createAuthMiddleware(async (ctx) => {
            const attempt = await attemptOf(ctx, ctx.getCookie(cookie.name) ?? null);
            if (attempt === null) return;
            const { newSession, returned } = ctx.context;
            if (newSession) {
              await refundSignIn(db, attempt);
              const { id, email } = newSession.user;
              const password = await findPasswordHash(db, id);
              if (password !== null) rememberDevice(ctx, cookie, config.authSecret, { email, password });
            } else if (isBusy(returned)) {
              await refundSignIn(db, attempt);
            } else if (isAPIError(returned) && returned.statusCode !== 429) {
              const found = await ctx.context.internalAdapter.findUserByEmail(attempt.email.toLowerCase());
              await trail.noteFailure(ctx, {
                userId: null,
                action: "session.refuse",
                ...(found && { target: found.user.id }),
              });
            }
          }),
        },
        {
          matcher: ({ path }) => path === "/device/approve" || path === "/device/deny",
          handler: createAuthMiddleware(async (ctx) => {
            if (isAPIError(ctx.context.returned)) return;
            const userId = (await findSession(ctx))?.caller.userId;
            const action = ctx.path === "/device/approve" ? "device.approve" : "device.deny";
            if (userId !== undefined) return trail.note(ctx, { userId, action, target: userId });
            // Signed out in the meantime: what was decided is not to let anybody in.
            await dropDeviceCode(db, text(fieldsOf(ctx.body)["userCode"]));
          }),
        },
      ],
    },
  };
}
