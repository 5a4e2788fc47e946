import { createHmac, hash, timingSafeEqual } from "node:crypto";

/** What a request presents to say who it is from, before any of it is checked. */
export type Credential =
  | { via: "key"; key: string }
  /** A session token as the device flow hands it out, or the signed form that sign-in returns. */
  | { via: "bearer"; token: string }
  | { via: "cookie"; signedToken: string };

export interface CredentialHeaders {
  "x-api-key"?: string | string[] | undefined;
  authorization?: string | undefined;
  cookie?: string | undefined;
}

/** Two credentials that might disagree, or one that cannot be read: nobody is who they say. */
export type Presented = Credential | "none" | "ambiguous";

/**
 * The one credential of a request. A header names it on purpose and wins over the cookie, which a browser
 * sends by itself; two headers at once, or one given twice, prove nothing.
 */
export function presentedCredential(headers: CredentialHeaders, cookieName: string): Presented {
  const key = headers["x-api-key"];
  const { authorization } = headers;
  if (key !== undefined && authorization !== undefined) return "ambiguous";
  if (key !== undefined) return typeof key === "string" && isKeyShaped(key) ? { via: "key", key } : "ambiguous";
  if (authorization !== undefined) {
    const token = /^Bearer ([\x21-\x7e]{1,512})$/i.exec(authorization)?.[1];
    return token === undefined ? "ambiguous" : { via: "bearer", token };
  }
  const signedToken = cookieValue(headers.cookie ?? "", cookieName);
  return signedToken === null ? "none" : { via: "cookie", signedToken };
}

/** Node joins a header that comes twice with ", ", which no key contains. */
const isKeyShaped = (key: string) => /^[\x21-\x2b\x2d-\x7e]{1,512}$/.test(key);

/** The decoded value of the cookie, null when it is absent, given twice with different values, or not decodable. */
function cookieValue(header: string, name: string): string | null {
  const values = header
    .split(";")
    .map((pair) => pair.trim())
    .filter((pair) => pair.startsWith(`${name}=`))
    .map((pair) => pair.slice(name.length + 1));
  const [value] = values;
  if (value === undefined || values.some((other) => other !== value)) return null;
  try {
    return decodeURIComponent(value);
  } catch {
    return null;
  }
}

/** The session token inside `signed` ("token.signature"), null unless `secret` signed it. */
export function openSignedToken(signed: string, secret: string): string | null {
  const dot = signed.lastIndexOf(".");
  if (dot <= 0) return null;
  const token = signed.slice(0, dot);
  const given = Buffer.from(signed.slice(dot + 1), "base64");
  const expected = createHmac("sha256", secret).update(token).digest();
  return given.length === expected.length && timingSafeEqual(given, expected) ? token : null;
}

/** Begins every key, so that people and scanners of leaked secrets know one when they see it. */
export const keyPrefix = "svc_";
/** Random bytes of a key. */
export const keyBytes = 36;
const issuedKey = new RegExp(`^${keyPrefix}[A-Za-z0-9_-]{${(keyBytes / 3) * 4}}$`);

/** Whether we could have issued `key`: anything else need not be looked up. */
export const isIssuedKey = (key: string): boolean => issuedKey.test(key);

/**
 * What is stored of a key; the key itself never is. 36 random bytes need no slow hash, and the hash is also what keys
 * are looked up by: how long an index takes to find it tells how a hash begins, which says nothing about the key.
 */
export const hashKey = (key: string): Buffer => hash("sha256", key, "buffer");
