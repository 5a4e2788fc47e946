import "reflect-metadata";
import { createPrivateKey, createPublicKey, webcrypto } from "node:crypto";
import * as x509 from "@peculiar/x509";

const algorithm = { name: "ECDSA", namedCurve: "P-256" };

/**
 * A request (PKCS#10, DER) for `names`, signed by the key that is to have the certificate. It has no subject: names are
 * told by the extension alone, and a common name has room for 64 characters only.
 *
 * @param keyPem PKCS#8 of a P-256 key
 */
export async function createRequest(keyPem: string, names: readonly string[]): Promise<Buffer> {
  const key = createPrivateKey(keyPem);
  const { subtle } = webcrypto;
  const pkcs8 = key.export({ format: "der", type: "pkcs8" });
  const spki = createPublicKey(key).export({ format: "der", type: "spki" });
  const request = await x509.Pkcs10CertificateRequestGenerator.create(
    {
      keys: {
        privateKey: await subtle.importKey("pkcs8", pkcs8, algorithm, false, ["sign"]),
        publicKey: await subtle.importKey("spki", spki, algorithm, true, ["verify"]),
      },
      signingAlgorithm: { name: "ECDSA", hash: "SHA-256" },
      extensions: [new x509.SubjectAlternativeNameExtension(names.map((value) => ({ type: "dns", value })))],
    },
    webcrypto,
  );
  return Buffer.from(request.rawData);
}
