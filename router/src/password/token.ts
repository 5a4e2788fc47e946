import { createHmac } from "node:crypto";

/** Whoever brings it has typed the password: the visitor's cookie. Its value of a day is the same for everybody. */
export const cookieName = "svc_site_auth";
/** What a value looks like; nothing else is ever looked up. */
export const tokenPattern = "^[A-Za-z0-9_-]{43}$";

const msPerDay = 86_400_000;
/** A cookie lasts seven days, and so reaches into the eighth. */
const validDays = 8;

/** Days since 1970, UTC. */
export const dayOf = (nowMs: number): number => Math.floor(nowMs / msPerDay);
export const msUntilNextDay = (nowMs: number): number => msPerDay - (nowMs % msPerDay);

/** The value that is given out on a day. The key is made of the project and its password's hash, and dies with them. */
export function tokenOf(key: Uint8Array, day: number): string {
  const field = Buffer.from(String(day));
  const length = Buffer.alloc(4);
  length.writeUInt32BE(field.length);
  return createHmac("sha256", key).update("svc site cookie 1").update(length).update(field).digest("base64url");
}

/** The values that open a site on a day. */
export const validTokens = (key: Uint8Array, day: number): string[] =>
  Array.from({ length: validDays }, (_, ago) => tokenOf(key, day - ago));

/** For this host and no other, out of reach of scripts, and gone with the browser's week. */
export const cookieHeader = (token: string, maxAgeSeconds: number): string =>
  `${cookieName}=${token}; Path=/; Max-Age=${maxAgeSeconds}; HttpOnly; Secure; SameSite=Lax`;
