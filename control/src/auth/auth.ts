import { limits } from "@svc/proto";
import { type BetterAuthOptions, betterAuth } from "better-auth";
import { admin, bearer, deviceAuthorization } from "better-auth/plugins";
import pg from "pg";
import type { Config } from "../config.ts";
import type { Log } from "../log.ts";
import type { Mailer } from "../mail/mailer.ts";
import { resetPassword, verifyAddress } from "../mail/messages.ts";

/** Where better-auth answers, below the API's origin. */
export const authBasePath = "/api/auth";
/** Set by us on every request that we hand to better-auth, whatever the client sent under this name. */
export const clientAddressHeader = "x-svc-client-address";
/** Name that our own command line gives itself in the device flow. */
const cliClientId = "svc-cli";

const daySeconds = 86_400;
const connectionsMax = 5;

export interface AuthParts {
  config: Pick<Config, "apiUrl" | "authSecret" | "databaseUrl" | "signup">;
  log: Log;
  /** Null: no mail is sent, so nobody can sign up or reset a password by themselves. */
  mailer: Mailer | null;
}

/**
 * Whether cookies may only travel over TLS. Their name then starts with "__Host-", which makes browsers
 * refuse them from a tenant's sibling host.
 */
const isSecure = (apiUrl: string) => apiUrl.startsWith("https:");

/** The cookie that holds a signed session token. */
export const sessionCookieName = (apiUrl: string): string =>
  isSecure(apiUrl) ? "__Host-svc.session_token" : "svc.session_token";

/** What people see as the name of this installation. */
export const instanceName = (apiUrl: string): string => new URL(apiUrl).host;

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
  return pool;
};

const rule = (max: number, window: number) => ({ max, window });

/** Per client address; wide enough for an office behind one address, far too narrow for guessing. */
const rateLimits = {
  "/sign-in/email": rule(30, 60),
  "/sign-up/email": rule(20, 60),
  "/request-password-reset": rule(5, 60),
  "/send-verification-email": rule(5, 60),
  "/device/code": rule(60, 60),
  "/device/token": rule(240, 60),
  "/device": rule(60, 600),
  "/device/approve": rule(60, 600),
  "/device/deny": rule(60, 600),
};

function options({ config, log, mailer }: AuthParts, pool: pg.Pool) {
  const instance = instanceName(config.apiUrl);
  /** A mail that cannot be sent does not undo what it is about; the person can ask for another. */
  const deliver = async (to: string, message: Parameters<Mailer["send"]>[1]) => {
    try {
      await mailer?.send(to, message);
    } catch (error) {
      log.error({ err: error }, "mail was not delivered");
    }
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
      disableSignUp: config.signup !== "open" || mailer === null,
      minPasswordLength: limits.accountPasswordLengthMin,
      maxPasswordLength: limits.accountPasswordLengthMax,
      revokeSessionsOnPasswordReset: true,
      sendResetPassword: ({ user, token }) =>
        deliver(
          user.email,
          resetPassword(`${config.apiUrl}/reset-password?token=${encodeURIComponent(token)}`, instance),
        ),
    },
    emailVerification: {
      sendOnSignUp: true,
      expiresIn: daySeconds,
      sendVerificationEmail: ({ user, token }) =>
        deliver(
          user.email,
          verifyAddress(`${config.apiUrl}/verify-email?token=${encodeURIComponent(token)}`, instance),
        ),
    },
    rateLimit: { enabled: true, storage: "database", customRules: rateLimits },
    advanced: {
      database: { generateId: "uuid" },
      // Said, because the library lets go of them by itself when NODE_ENV is "test".
      disableCSRFCheck: false,
      disableOriginCheck: false,
      cookiePrefix: isSecure(config.apiUrl) ? "__Host-svc" : "svc",
      useSecureCookies: false,
      defaultCookieAttributes: { secure: isSecure(config.apiUrl), httpOnly: true, sameSite: "lax", path: "/" },
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
    ],
  } satisfies BetterAuthOptions;
}

/**
 * Sign-up, sign-in, sessions, verification and the device flow, on the database schema `auth`.
 * Dispose it to close its connections.
 */
export function createAuth(parts: AuthParts) {
  const pool = createAuthPool(parts.config.databaseUrl, parts.log);
  const auth = betterAuth(options(parts, pool));
  return Object.assign(auth, { [Symbol.asyncDispose]: () => pool.end() });
}

export type Auth = ReturnType<typeof createAuth>;
