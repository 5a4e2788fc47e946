import "reflect-metadata";
import { webcrypto } from "node:crypto";
import * as x509 from "@peculiar/x509";

/** Keys of the kind that `createTokenSigner` takes. */
const algorithm = { name: "ECDSA", namedCurve: "P-256" };

/** A new key that signs registry tokens, and the certificate by which a registry knows it; both PEM. */
export async function createTokenKey(validity: {
  notBefore: Date;
  notAfter: Date;
}): Promise<{ key: string; certificate: string }> {
  x509.cryptoProvider.set(webcrypto);
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    name: "CN=svc registry tokens",
    ...validity,
    keys,
    signingAlgorithm: { name: "ECDSA", hash: "SHA-256" },
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
    ],
  });
  const pkcs8 = await webcrypto.subtle.exportKey("pkcs8", keys.privateKey);
  return { key: x509.PemConverter.encode(pkcs8, "PRIVATE KEY"), certificate: certificate.toString("pem") };
}
