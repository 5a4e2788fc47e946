import { dayOf, msUntilNextDay, sitePassCookie, sitePassDays, sitePassOf } from "@svc/proto/site-pass";

export { dayOf, msUntilNextDay };
export const cookieName = sitePassCookie;
export const tokenOf = sitePassOf;
/** What a value looks like; nothing else is ever looked up. */
export const tokenPattern = "^[A-Za-z0-9_-]{43}$";

/** The values that open a channel on a day. */
export const validTokens = (key: Uint8Array, channel: string, day: number): string[] =>
  Array.from({ length: sitePassDays }, (_, ago) => tokenOf(key, channel, day - ago));

/** For this host and no other, out of reach of scripts, and gone with the browser's week. */
export const cookieHeader = (token: string, maxAgeSeconds: number): string =>
  `${cookieName}=${token}; Path=/; Max-Age=${maxAgeSeconds}; HttpOnly; Secure; SameSite=Lax`;
