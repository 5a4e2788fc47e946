import { X509Certificate } from "node:crypto";
import type { Authority } from "../ca/authority.ts";
import { LinkError } from "./errors.ts";

/** A daemon's certificate as it is kept for as long as its stream: the bytes, since one that is read takes some ten times as much. */
export interface Leaf {
  readonly fingerprint256: string;
  /** DER. */
  readonly raw: Uint8Array;
}

/** Whether daemons' certificates are of an authority that is in force. TLS asks that once per connection, and a connection may outlive an authority. */
export interface LeafCheck {
  /** By the authorities that this replica knows of. */
  isInForce(leaf: Leaf): boolean;
  /**
   * Reads the authorities again before it refuses: another replica may have replaced them a moment ago.
   * Throws `LinkError` UNAUTHENTICATED.
   */
  require(leaf: Leaf): Promise<void>;
}

/** Leaves whose signature is remembered; the oldest are forgotten first. */
const rememberedMax = 20_000;
const inPem = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

export function createLeafCheck(authority: Pick<Authority, "trusted" | "trust" | "refresh">): LeafCheck {
  let known = { trust: authority.trust, authorities: readAuthorities(authority.trusted) };
  /** By the leaf's fingerprint, that of the authority that signed it: true for ever, whoever is in force. */
  const signers = new Map<string, string>();

  function inForce(): readonly X509Certificate[] {
    if (known.trust !== authority.trust) {
      known = { trust: authority.trust, authorities: readAuthorities(authority.trusted) };
    }
    return known.authorities;
  }

  function isInForce(leaf: Leaf): boolean {
    const remembered = signers.get(leaf.fingerprint256);
    if (remembered !== undefined) return inForce().some(({ fingerprint256 }) => fingerprint256 === remembered);
    // All authorities of a cluster have the same name, so only the signature tells.
    const certificate = new X509Certificate(leaf.raw);
    const signer = inForce().find((each) => certificate.checkIssued(each) && certificate.verify(each.publicKey));
    if (signer === undefined) return false;
    for (const oldest of signers.keys()) {
      if (signers.size < rememberedMax) break;
      signers.delete(oldest);
    }
    signers.set(leaf.fingerprint256, signer.fingerprint256);
    return true;
  }

  return {
    isInForce,
    async require(leaf) {
      if (isInForce(leaf)) return;
      await authority.refresh();
      if (isInForce(leaf)) return;
      throw new LinkError("UNAUTHENTICATED", "the client certificate is of an authority that was replaced");
    },
  };
}

const readAuthorities = (pem: string): X509Certificate[] =>
  (pem.match(inPem) ?? []).map((one) => new X509Certificate(one));
