import { createPrivateKey, type KeyObject, sign, X509Certificate } from "node:crypto";
import { registryTokenAudience, registryTokenIssuer } from "@svc/proto/cluster-registry";
import { limits } from "@svc/proto/limits";
import type { Random } from "@svc/runtime/random";

/** One right, in the words of the token specification of registries. Nobody here lists repositories. */
export interface Access {
  type: "repository";
  name: string;
  actions: readonly ("pull" | "push" | "delete")[];
}

export interface IssuedToken {
  token: string;
  expiresInSeconds: number;
}

/** Makes the tokens that the cluster's own registry goes by: whoever has one may do exactly what it says, until it ends. */
export type TokenSigner = (subject: string, access: readonly Access[], now: Date) => IssuedToken;

/** The key or the certificate cannot be used. The message says why and quotes nothing of the key. */
export class BadTokenKey extends Error {
  override readonly name = "BadTokenKey";
}

/** The registry and control may read different clocks. It allows for a minute itself; this is for those that do not. */
const clockToleranceSeconds = 60;

/** What signs tokens and what the registry knows it by, as PEM. */
export interface TokenPair {
  key: string;
  certificate: string;
}

/** Both, read. Throws `BadTokenKey` when tokens cannot be signed with them now. */
export function checkTokenPair(pem: TokenPair, now: Date): { key: KeyObject; certificate: X509Certificate } {
  const { key, certificate } = readPair(pem);
  if (!certificate.checkPrivateKey(key)) throw new BadTokenKey("the certificate is not that of the key");
  if (now < certificate.validFromDate || now > certificate.validToDate)
    throw new BadTokenKey(`the certificate is valid from ${certificate.validFrom} to ${certificate.validTo}, not now`);
  return { key, certificate };
}

/**
 * A signer by a P-256 key. The registry trusts it through `certificate`, which travels in each token (x5c): naming the
 * key by an id instead (kid) is spelled differently by different versions of the registry. Throws `BadTokenKey`.
 */
export function createTokenSigner(random: Random, pem: TokenPair, now: Date): TokenSigner {
  const { key, certificate } = checkTokenPair(pem, now);
  const header = encode({ typ: "JWT", alg: "ES256", x5c: [certificate.raw.toString("base64")] });
  return (subject, access, at) => {
    const seconds = Math.floor(at.getTime() / 1000);
    const claims = {
      iss: registryTokenIssuer,
      aud: registryTokenAudience,
      sub: subject,
      iat: seconds,
      nbf: seconds - clockToleranceSeconds,
      exp: seconds + limits.registryTokenSeconds,
      jti: random.uuid(),
      access,
    };
    const signed = `${header}.${encode(claims)}`;
    const signature = sign("sha256", Buffer.from(signed), { key, dsaEncoding: "ieee-p1363" });
    return {
      token: `${signed}.${signature.toString("base64url")}`,
      expiresInSeconds: limits.registryTokenSeconds,
    };
  };
}

const encode = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64url");

function readPair(pem: TokenPair): { key: KeyObject; certificate: X509Certificate } {
  const key = readTokenKey(pem.key);
  return { key, certificate: readPem("certificate", () => new X509Certificate(pem.certificate)) };
}

/** Whether the certificate is that of the key. Throws `BadTokenKey` when they are something else. */
export function isTokenPair(pem: TokenPair): boolean {
  const { key, certificate } = readPair(pem);
  return certificate.checkPrivateKey(key);
}

/** Reads a P-256 key. Throws `BadTokenKey`. */
export function readTokenKey(pem: string): KeyObject {
  const key = readPem("key", () => createPrivateKey(pem));
  if (key.asymmetricKeyType !== "ec" || key.asymmetricKeyDetails?.namedCurve !== "prime256v1")
    throw new BadTokenKey("the key is not one of the curve P-256");
  return key;
}

function readPem<T>(what: string, parse: () => T): T {
  try {
    return parse();
  } catch {
    // The library's error may quote what it could not read.
    throw new BadTokenKey(`the ${what} is not PEM`);
  }
}
