import "reflect-metadata";
import { createPrivateKey, X509Certificate } from "node:crypto";
import * as x509 from "@peculiar/x509";

/** What is to be known of a certificate that a CA gave. */
export interface Leaf {
  notBefore: Date;
  notAfter: Date;
  /** Names it for ARI (RFC 9773, 4.1); null when it does not say by which key it was signed. */
  ariId: string | null;
}

/** The chain of a CA is not what was asked for. */
export class BadChain extends Error {
  override readonly name = "BadChain";
}

/**
 * Looks whether a chain (PEM, leaf first) is for `name` and for this key. Throws `BadChain`: what a CA says is not put
 * before visitors unseen.
 */
export function readLeaf(chain: string, keyPem: string, name: string): Leaf {
  const leaf = parse(chain);
  if (!leaf.checkPrivateKey(createPrivateKey(keyPem))) throw new BadChain("the certificate is of another key");
  // A wildcard stands for itself here: Node matches hosts, and "a" is one label as good as any.
  const host = name.startsWith("*.") ? `a${name.slice(1)}` : name;
  if (leaf.checkHost(host, { subject: "never" }) === undefined)
    throw new BadChain(`the certificate is not for ${name}`);
  return { notBefore: leaf.validFromDate, notAfter: leaf.validToDate, ariId: ariIdOf(chain) };
}

function parse(chain: string): X509Certificate {
  try {
    return new X509Certificate(chain);
  } catch (cause) {
    throw new BadChain("what the CA gave is no certificate", { cause });
  }
}

function ariIdOf(chain: string): string | null {
  const leaf = new x509.X509Certificate(chain);
  const keyId = leaf.getExtension(x509.AuthorityKeyIdentifierExtension)?.keyId;
  return keyId === undefined ? null : ariIdFrom(keyId, leaf.serialNumber);
}

/** `base64url(key identifier of the authority).base64url(serial number)`, of the bytes that DER has of both; both are given in hex. */
export function ariIdFrom(keyId: string, serialNumber: string): string {
  const serial = Buffer.from(serialNumber, "hex");
  // A number is positive in DER only with a first bit of 0.
  const bytes = ((serial[0] ?? 0) & 0x80) === 0 ? serial : Buffer.concat([Buffer.of(0), serial]);
  return `${Buffer.from(keyId, "hex").toString("base64url")}.${bytes.toString("base64url")}`;
}
