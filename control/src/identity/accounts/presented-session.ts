import { lookupOf } from "../../http/caller.ts";
import { type CredentialHeaders, presentedCredential } from "../../http/credentials.ts";
import { signInCookieName } from "../../http/sign-in-cookie.ts";
import type { Config } from "../../settings/settings.ts";

/** The token of the session that a request was made with; null when it was made with a key. */
export function presentedSession(
  headers: CredentialHeaders,
  { apiUrl, authSecret }: Pick<Config, "apiUrl" | "authSecret">,
): string | null {
  const credential = presentedCredential(headers, signInCookieName(apiUrl));
  const lookup = typeof credential === "string" ? null : lookupOf(credential, authSecret);
  return lookup?.kind === "session" ? lookup.secret : null;
}
