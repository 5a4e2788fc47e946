// @pure
import type { Visit } from "../traffic/line.ts";

/** Files that a page is made of, and not pages: of requests that do not say what they are for. */
const assetPattern =
  /\.(?:js|mjs|cjs|css|map|json|xml|txt|ico|png|jpe?g|gif|svg|webp|avif|bmp|woff2?|ttf|otf|eot|mp[34]|webm|ogg|wav|m4a|mov|wasm|zip|gz|br|pdf|webmanifest|rsc)$/i;
const ownPrefix = "/_svc/";
const valueBytesMax = 200;

/** Whether somebody was shown a page: not a part of one, no redirect, and nothing that is not there. */
export function isPageView({
  method,
  status,
  said: { destination, path },
}: Pick<Visit, "method" | "status" | "said">): boolean {
  if (method !== "GET" || !((status >= 200 && status < 300) || status === 304)) return false;
  if (path === "" || path.startsWith(ownPrefix)) return false;
  return destination === "document" || (destination === "" && !assetPattern.test(path));
}

/** A path as people read it; as it was sent where its escapes are none. At most 200 bytes. */
export function pathOf(sent: string): string {
  const path = sent.startsWith("/") ? sent : "/";
  let readable = path;
  try {
    readable = decodeURI(path);
  } catch {
    // Escapes that are no text.
  }
  return clean(/\p{C}|\ufffd/u.test(readable) ? path : readable);
}

/** The host that a referrer names; null without one. */
export function referrerHost(referrer: string): string | null {
  const [, host] = /^https?:\/\/([a-z0-9-]+(?:\.[a-z0-9-]+)*)\.?(?::\d*)?$/i.exec(referrer) ?? [];
  return host === undefined || host.length > valueBytesMax ? null : host.toLowerCase();
}

/** Without what no terminal and no database should be shown, and cut to the length of a value, at a character's end. */
function clean(text: string): string {
  const plain = text.replaceAll(/[\p{C}\ufffd]/gu, "");
  if (Buffer.byteLength(plain) <= valueBytesMax) return plain;
  const cut = Buffer.from(plain).subarray(0, valueBytesMax).toString("utf8");
  return cut.replace(/\ufffd+$/, "");
}
