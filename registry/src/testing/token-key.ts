import "reflect-metadata";
import { webcrypto } from "node:crypto";
import * as x509 from "@peculiar/x509";

const minuteMs = 60_000;

/** A key that signs registry tokens, and the certificate by which a registry knows it; both PEM. */
export async function aTokenKey(): Promise<{ key: string; certificate: string }> {
  x509.cryptoProvider.set(webcrypto);
  const keys = await webcrypto.subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, true, ["sign", "verify"]);
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    name: "CN=registry tokens of a test",
    notBefore: new Date(Date.now() - minuteMs),
    notAfter: new Date(Date.now() + 24 * 60 * minuteMs),
    keys,
    signingAlgorithm: { name: "ECDSA", hash: "SHA-256" },
  });
  const pkcs8 = Buffer.from(await webcrypto.subtle.exportKey("pkcs8", keys.privateKey));
  return { key: x509.PemConverter.encode(pkcs8, "PRIVATE KEY"), certificate: certificate.toString("pem") };
}
