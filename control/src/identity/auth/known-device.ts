import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";

/**
 * A browser that has signed in to an account keeps a mark of it, which a sign-in page elsewhere cannot make up. What
 * others guess at the account is counted apart from it, so that nobody can lock the owner out of their own browser. A
 * new browser gets the like of it for a while by a link that only the owner's mailbox gets.
 *
 * Both end with the password that they were made under: whoever once knew it could have made any number of them, each
 * with guesses of its own.
 */
export interface DeviceAccount {
  email: string;
  /** Hash of its password. */
  password: string;
}

const nonceBytes = 16;
const noncePattern = "[\\w-]{22}";
const signaturePattern = "[\\w-]{43}";
const markPattern = new RegExp(`^(${noncePattern})\\.(${signaturePattern})$`);
const linkPattern = new RegExp(`^(${noncePattern})\\.(\\d{13})\\.(${signaturePattern})$`);

const newNonce = () => randomBytes(nonceBytes).toString("base64url");

const signature = (secret: string, what: string, { email, password }: DeviceAccount, nonce: string) =>
  createHmac("sha256", secret).update([what, email.toLowerCase(), password, nonce].join("\0")).digest();

const isSigned = (signed: string, expected: Buffer) => timingSafeEqual(Buffer.from(signed, "base64url"), expected);

const ofMark = "svc known device";
const ofLink = (until: number) => `svc sign-in link ${until}`;

/** A new mark for the account, as the cookie's value. */
export function markDevice(secret: string, account: DeviceAccount): string {
  const nonce = newNonce();
  return `${nonce}.${signature(secret, ofMark, account, nonce).toString("base64url")}`;
}

/** What names the device of `mark`, if it was made for the account; else null. */
export function knownDevice(secret: string, account: DeviceAccount, mark: string | null): string | null {
  const [, nonce, signed] = markPattern.exec(mark ?? "") ?? [];
  if (nonce === undefined || signed === undefined) return null;
  return isSigned(signed, signature(secret, ofMark, account, nonce)) ? nonce : null;
}

/** What a link to sign in to the account brings along; good until `untilMs`. */
export function linkDevice(secret: string, account: DeviceAccount, untilMs: number): string {
  const nonce = newNonce();
  return `${nonce}.${untilMs}.${signature(secret, ofLink(untilMs), account, nonce).toString("base64url")}`;
}

/** What names the device that came by a link, if the link is for the account and still good; else null. */
export function linkedDevice(secret: string, account: DeviceAccount, link: string, nowMs: number): string | null {
  const [, nonce, until, signed] = linkPattern.exec(link) ?? [];
  if (nonce === undefined || until === undefined || signed === undefined || Number(until) <= nowMs) return null;
  return isSigned(signed, signature(secret, ofLink(Number(until)), account, nonce)) ? nonce : null;
}
