import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";

/**
 * A browser that has signed in to an account keeps a mark of it, which a sign-in page elsewhere cannot make up. What
 * others guess at the account is counted apart from it, so that nobody can lock the owner out of their own browser. A
 * new browser gets the like of it for a while by a link that only the owner's mailbox gets.
 */
const nonceBytes = 16;
const noncePattern = "[\\w-]{22}";
const signaturePattern = "[\\w-]{43}";
const markPattern = new RegExp(`^(${noncePattern})\\.(${signaturePattern})$`);
const linkPattern = new RegExp(`^(${noncePattern})\\.(\\d{13})\\.(${signaturePattern})$`);

const newNonce = () => randomBytes(nonceBytes).toString("base64url");

const signature = (secret: string, what: string, email: string, nonce: string) =>
  createHmac("sha256", secret).update(`${what}\0`).update(email.toLowerCase()).update("\0").update(nonce).digest();

const isSigned = (signed: string, expected: Buffer) => timingSafeEqual(Buffer.from(signed, "base64url"), expected);

const ofMark = "svc known device";
const ofLink = (until: number) => `svc sign-in link ${until}`;

/** A new mark for `email`, as the cookie's value. */
export function markDevice(secret: string, email: string): string {
  const nonce = newNonce();
  return `${nonce}.${signature(secret, ofMark, email, nonce).toString("base64url")}`;
}

/** What names the device of `mark`, if it was made for `email`; else null. */
export function knownDevice(secret: string, email: string, mark: string | null): string | null {
  const [, nonce, signed] = markPattern.exec(mark ?? "") ?? [];
  if (nonce === undefined || signed === undefined) return null;
  return isSigned(signed, signature(secret, ofMark, email, nonce)) ? nonce : null;
}

/** What a link to sign in to the account of `email` brings along; good until `untilMs`. */
export function linkDevice(secret: string, email: string, untilMs: number): string {
  const nonce = newNonce();
  return `${nonce}.${untilMs}.${signature(secret, ofLink(untilMs), email, nonce).toString("base64url")}`;
}

/** What names the device that came by a link, if the link is for `email` and still good; else null. */
export function linkedDevice(secret: string, email: string, link: string, nowMs: number): string | null {
  const [, nonce, until, signed] = linkPattern.exec(link) ?? [];
  if (nonce === undefined || until === undefined || signed === undefined || Number(until) <= nowMs) return null;
  return isSigned(signed, signature(secret, ofLink(Number(until)), email, nonce)) ? nonce : null;
}
