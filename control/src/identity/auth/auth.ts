import { limits } from "@svc/proto";
import type { Clock } from "@svc/runtime/clock";
import { type BetterAuthOptions, betterAuth } from "better-auth";
import { isAPIError } from "better-auth/api";
import { admin, bearer, deviceAuthorization } from "better-auth/plugins";
import pg from "pg";
import { authBasePath } from "../../http/paths.ts";
import { cookiePrefix, isSecure, signInCookieName } from "../../http/sign-in-cookie.ts";
import type { Log } from "../../log.ts";
import { instanceName } from "../../settings/instance-name.ts";
import type { Config } from "../../settings/settings.ts";
import { type Db, withHeldErrorsHeard } from "../../stores/db/pool.ts";
import { githostPlugin, githostProvider } from "../githost/provider.ts";
import { githostName } from "../githost/settings.ts";
import type { Mailer } from "../mail/mailer.ts";
import {
  accountLinked,
  alreadyRegistered,
  type Message,
  resetPassword,
  signInLink,
  verifyAddress,
} from "../mail/messages.ts";
import { createPostbox, type Postbox } from "../mail/postbox.ts";
import { createFindCallSession } from "./call-session.ts";
import { events } from "./events.ts";
import { guard } from "./guard.ts";
import { createHashing } from "./hashing.ts";
import { newPassword } from "./new-password.ts";
import { createSignInLinks } from "./sign-in-link.ts";
import { mayMail, mayNotify } from "./throttle.ts";
import { clientAddressHeader, createTrail } from "./trail.ts";

/** Name that our own command line gives itself in the device flow. */
const cliClientId = "svc-cli";

const daySeconds = 86_400;
const connectionsMax = 5;

export interface AuthParts {
  clock: Clock;
  config: Pick<Config, "apiUrl" | "authSecret" | "databaseUrl" | "signup" | "githost">;
  db: Db;
  log: Log;
  /** Null: no mail is sent, so nobody can sign up without an invitation, or reset a password by themselves. */
  mailer: Mailer | null;
}

/** The cookie by which a browser is known to have signed in before. */
const deviceCookieName = (apiUrl: string): string => `${cookiePrefix(apiUrl)}.known`;
/** A pool on which unqualified names are better-auth's own tables. */
const createAuthPool = (databaseUrl: string, log: Log): pg.Pool => {
  const pool = new pg.Pool({
    connectionString: databaseUrl,
    options: "-c search_path=auth",
    max: connectionsMax,
    statement_timeout: 30_000,
    connectionTimeoutMillis: 10_000,
    idle_in_transaction_session_timeout: 60_000,
    application_name: "svc-auth",
  });
  pool.on("error", (error) => log.warn({ err: error }, "idle connection of the identity store failed"));
  return withHeldErrorsHeard(pool);
};

const rule = (max: number, window: number) => ({ max, window });

/** Per client address; wide enough for an office behind one address, far too narrow for guessing. */
const rateLimits = {
  "/sign-in/email": rule(30, 60),
  "/sign-up/email": rule(20, 60),
  "/sign-in/social": rule(20, 60),
  "/link-social": rule(20, 60),
  "/callback/githost": rule(30, 60),
  "/request-password-reset": rule(5, 60),
  "/send-verification-email": rule(5, 60),
  "/device/code": rule(60, 60),
  "/device/token": rule(240, 60),
  "/device": rule(60, 600),
  "/device/approve": rule(60, 600),
  "/device/deny": rule(60, 600),
};

function options({ clock, config, db, log, mailer }: AuthParts, pool: pg.Pool, postbox: Postbox) {
  const instance = instanceName(config.apiUrl);
  const trail = createTrail(db, log);
  const secure = isSecure(config.apiUrl);
  const cookie = { name: deviceCookieName(config.apiUrl), secure };
  const findSession = createFindCallSession(db, config.authSecret, signInCookieName(config.apiUrl));
  /** Later: neither the answer nor its time tells whether there is such an account. */
  const deliver = async (to: string, message: Message) => {
    if (mailer !== null && (await mayMail(db, to))) postbox.post(to, message);
  };
  const links =
    mailer === null
      ? null
      : createSignInLinks({
          ...{ clock, db, log, secret: config.authSecret, apiUrl: config.apiUrl },
          send: (email, url) => postbox.post(email, signInLink(url, `${config.apiUrl}/forgot-password`, instance)),
        });
  const tellLinked = async (userId: string) => {
    if (mailer === null || config.githost === undefined || !(await mayNotify(db, userId))) return;
    const user = await db.selectFrom("auth.user").select("email").where("id", "=", userId).executeTakeFirst();
    if (user !== undefined)
      postbox.post(user.email, accountLinked(githostName(config.githost), config.apiUrl, instance));
  };
  return {
    appName: "svc",
    baseURL: config.apiUrl,
    basePath: authBasePath,
    secret: config.authSecret,
    database: pool,
    telemetry: { enabled: false },
    logger: {
      level: "warn",
      log: (level, message) =>
        log[level === "error" || level === "warn" ? level : "debug"]({ part: "better-auth" }, message),
    },
    session: { expiresIn: 7 * daySeconds, updateAge: daySeconds },
    emailAndPassword: {
      enabled: true,
      disableSignUp: config.signup === "closed" || (config.signup === "open" && mailer === null),
      // With a session at once, an address that is taken would answer otherwise.
      autoSignIn: false,
      onExistingUserSignUp: ({ user }) => deliver(user.email, alreadyRegistered(`${config.apiUrl}/sign-in`, instance)),
      customSyntheticUser: ({ coreFields, additionalFields, id }) => ({
        ...coreFields,
        ...additionalFields,
        role: "user",
        banned: false,
        banReason: null,
        banExpires: null,
        id,
      }),
      minPasswordLength: limits.accountPasswordLengthMin,
      maxPasswordLength: limits.accountPasswordLengthMax,
      sendResetPassword: ({ user, token }) =>
        deliver(
          user.email,
          resetPassword(`${config.apiUrl}/reset-password?token=${encodeURIComponent(token)}`, instance),
        ),
      password: createHashing(),
    },
    emailVerification: {
      sendOnSignUp: true,
      expiresIn: daySeconds,
      sendVerificationEmail: async ({ user, token }) => {
        if (user.emailVerified) return;
        const url = `${config.apiUrl}/verify-email?token=${encodeURIComponent(token)}`;
        await deliver(user.email, verifyAddress(url, instance));
      },
    },
    verification: { storeIdentifier: "hashed" },
    account: {
      encryptOAuthTokens: true,
      // What was granted when the account was connected counts, not the little that a sign-in asks for.
      updateAccountOnSignIn: false,
      accountLinking: {
        // Only who is signed in connects an account: an address alone proves nothing.
        disableImplicitLinking: true,
        allowDifferentEmails: true,
        trustedProviders: [githostProvider],
      },
    },
    onAPIError: {
      errorURL: `${config.apiUrl}/sign-in`,
      onError: (error) => {
        // Refusals are answers, not news; without this the library prints them to the console.
        if (!isAPIError(error) || error.statusCode >= 500) log.error({ err: error }, "a call to better-auth failed");
      },
    },
    databaseHooks: events({ db, config, trail, findSession, tellLinked }),
    rateLimit: { enabled: true, storage: "database", customRules: rateLimits },
    advanced: {
      database: { generateId: "uuid" },
      // Said, because the library lets go of them by itself when NODE_ENV is "test".
      disableCSRFCheck: false,
      disableOriginCheck: false,
      cookiePrefix: cookiePrefix(config.apiUrl),
      useSecureCookies: false,
      defaultCookieAttributes: { secure, httpOnly: true, sameSite: "lax", path: "/" },
      ipAddress: { ipAddressHeaders: [clientAddressHeader] },
    },
    plugins: [
      bearer(),
      admin(),
      deviceAuthorization({
        expiresIn: "10m",
        interval: "2s",
        verificationUri: "/device",
        validateClient: (clientId) => clientId === cliClientId,
      }),
      ...(config.githost ? [githostPlugin(clock, config.githost, log)] : []),
      guard({ clock, db, config, trail, findSession, cookie, links }),
      newPassword({ clock, db, findSession, secret: config.authSecret, cookie }),
    ],
  } satisfies BetterAuthOptions;
}

/**
 * Sign-up, sign-in, sessions, verification and the device flow, on the database schema `auth`.
 * Dispose it to close its connections.
 */
export function createAuth(parts: AuthParts) {
  const pool = createAuthPool(parts.config.databaseUrl, parts.log);
  const postbox = createPostbox(parts.clock, parts.mailer, parts.log);
  const auth = betterAuth(options(parts, pool, postbox));
  return Object.assign(auth, {
    async [Symbol.asyncDispose]() {
      await postbox[Symbol.asyncDispose]();
      await pool.end();
    },
  });
}

export type Auth = ReturnType<typeof createAuth>;
