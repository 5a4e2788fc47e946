import { createHash, createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, sign } from "node:crypto";

/** The key of an ACME account: P-256, for ES256. */
export interface AccountKey {
  /** PKCS#8 in PEM. Secret. */
  pem: string;
  jwk: { crv: "P-256"; kty: "EC"; x: string; y: string };
  /** RFC 7638. */
  thumbprint: string;
  sign(text: string): Buffer;
}

export const createAccountKey = (): AccountKey => readAccountKey(newKeyPem());

/** A new P-256 key: PKCS#8 in PEM. */
export function newKeyPem(): string {
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  return privateKey.export({ format: "pem", type: "pkcs8" }).toString();
}

/** @param pem PKCS#8 of a P-256 key; throws on anything else */
export function readAccountKey(pem: string): AccountKey {
  const key: KeyObject = createPrivateKey(pem);
  const { crv, kty, x, y } = createPublicKey(key).export({ format: "jwk" });
  if (kty !== "EC" || crv !== "P-256" || x === undefined || y === undefined) throw new Error("no P-256 key");
  const jwk = { crv, kty, x, y } as const;
  return {
    pem,
    jwk,
    // Members in this order, without spaces: that is what is hashed.
    thumbprint: sha256(JSON.stringify(jwk)).toString("base64url"),
    sign: (text) => sign("sha256", Buffer.from(text), { key, dsaEncoding: "ieee-p1363" }),
  };
}

/** A flattened JWS (RFC 8555, 6.2). `payload` null is the empty one of POST-as-GET. */
export function signJws(
  key: AccountKey,
  header: { url: string; nonce: string; kid: string | null },
  payload: unknown,
): string {
  const { url, nonce, kid } = header;
  const who = kid === null ? { jwk: key.jwk } : { kid };
  const head = encode(JSON.stringify({ alg: "ES256", ...who, nonce, url }));
  const body = payload === null ? "" : encode(JSON.stringify(payload));
  const signature = key.sign(`${head}.${body}`).toString("base64url");
  return JSON.stringify({ protected: head, payload: body, signature });
}

/** What answers a challenge of type http-01 (RFC 8555, 8.1). */
export const keyAuthorization = (token: string, thumbprint: string): string => `${token}.${thumbprint}`;

/** What stands in the TXT record of a challenge of type dns-01 (RFC 8555, 8.4). */
export const dnsValue = (authorization: string): string => sha256(authorization).toString("base64url");

const encode = (text: string): string => Buffer.from(text).toString("base64url");
const sha256 = (text: string): Buffer => createHash("sha256").update(text).digest();
