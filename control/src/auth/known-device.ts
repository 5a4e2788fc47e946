import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";

/**
 * A browser that has signed in to an account keeps a mark of it, which a sign-in page elsewhere cannot make up. What
 * others guess at the account is counted apart from it, so that nobody can lock the owner out of their own browser.
 */
const nonceBytes = 16;

const signature = (secret: string, email: string, nonce: string) =>
  createHmac("sha256", secret)
    .update("svc known device\0")
    .update(email.toLowerCase())
    .update("\0")
    .update(nonce)
    .digest();

/** A new mark for `email`, as the cookie's value. */
export function markDevice(secret: string, email: string): string {
  const nonce = randomBytes(nonceBytes).toString("base64url");
  return `${nonce}.${signature(secret, email, nonce).toString("base64url")}`;
}

/** What names the device of `mark`, if it was made for `email`; else null. */
export function knownDevice(secret: string, email: string, mark: string | null): string | null {
  const [, nonce, signed] = /^([\w-]{22})\.([\w-]{43})$/.exec(mark ?? "") ?? [];
  if (nonce === undefined || signed === undefined) return null;
  return timingSafeEqual(Buffer.from(signed, "base64url"), signature(secret, email, nonce)) ? nonce : null;
}
