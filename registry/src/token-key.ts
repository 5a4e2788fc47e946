import "reflect-metadata";
import { createPublicKey, generateKeyPairSync, webcrypto } from "node:crypto";
import * as x509 from "@peculiar/x509";
import { readTokenKey } from "./tokens.ts";

/** Keys of the kind that `createTokenSigner` takes. */
const algorithm = { name: "ECDSA", namedCurve: "P-256" };

/** A new key that signs registry tokens; PEM. */
export function createTokenKey(): string {
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: algorithm.namedCurve });
  return privateKey.export({ type: "pkcs8", format: "pem" }).toString();
}

/** A certificate by which a registry knows the key; both PEM. Throws `BadTokenKey`. */
export async function certifyTokenKey(key: string, validity: { notBefore: Date; notAfter: Date }): Promise<string> {
  x509.cryptoProvider.set(webcrypto);
  const privateKey = readTokenKey(key);
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    name: "CN=svc registry tokens",
    ...validity,
    keys: {
      privateKey: privateKey.toCryptoKey(algorithm, false, ["sign"]),
      publicKey: createPublicKey(privateKey).toCryptoKey(algorithm, true, ["verify"]),
    },
    signingAlgorithm: { name: "ECDSA", hash: "SHA-256" },
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
    ],
  });
  return certificate.toString("pem");
}
