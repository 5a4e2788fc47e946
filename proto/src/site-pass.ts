import { createHmac } from "node:crypto";

/**
 * Whoever brings it has typed the password of the site: the visitor's cookie. Its value of a day is the same for everybody.
 * A browser takes a name that begins so from the host itself and from no other: what a neighbour's site sets for the
 * domain above both would come before it, and keep visitors out.
 */
export const sitePassCookie = "__Host-svc_site_auth";

const msPerDay = 86_400_000;
/** A cookie lasts seven days, and so reaches into the eighth. */
export const sitePassDays = 8;

/** Days since 1970, UTC. */
export const dayOf = (nowMs: number): number => Math.floor(nowMs / msPerDay);
export const msUntilNextDay = (nowMs: number): number => msPerDay - (nowMs % msPerDay);

/**
 * The value that is given out on a day for one channel of a project: what opens production opens no preview. The key is
 * made of the project and its password's hash, and dies with them.
 */
export function sitePassOf(key: Uint8Array, channel: string, day: number): string {
  const token = createHmac("sha256", key).update("svc site cookie 2");
  for (const field of [channel, String(day)].map((text) => Buffer.from(text))) {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(field.length);
    token.update(length).update(field);
  }
  return token.digest("base64url");
}
