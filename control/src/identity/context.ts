import type { Context } from "../http/context.ts";
import type { Auth } from "./auth/auth.ts";
import type { Mailer } from "./mail/mailer.ts";

/** What endpoints and pages about people are given. */
export interface IdentityContext extends Context {
  auth: Auth;
  /** Null when no mail can be sent. */
  mailer: Mailer | null;
}
