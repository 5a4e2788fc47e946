import "reflect-metadata";
import { webcrypto } from "node:crypto";
import * as x509 from "@peculiar/x509";

type KeyPair = webcrypto.CryptoKeyPair;

/** What a daemon makes before it joins: a key pair, and a request signed with it. */
export async function aCertificateRequest(
  options: { subject?: string; altNames?: string[]; keys?: KeyPair; algorithm?: string } = {},
): Promise<{ der: Buffer; keys: KeyPair; privateKeyPem: string }> {
  x509.cryptoProvider.set(webcrypto);
  const keys =
    options.keys ??
    (await webcrypto.subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, true, ["sign", "verify"]));
  const request = await x509.Pkcs10CertificateRequestGenerator.create({
    name: options.subject ?? "CN=daemon",
    keys,
    signingAlgorithm: { name: options.algorithm ?? "ECDSA", hash: "SHA-256" },
    extensions: [
      new x509.SubjectAlternativeNameExtension((options.altNames ?? []).map((value) => ({ type: "dns", value }))),
    ],
  });
  const pkcs8 = Buffer.from(await webcrypto.subtle.exportKey("pkcs8", keys.privateKey));
  const privateKeyPem = `-----BEGIN PRIVATE KEY-----\n${pkcs8.toString("base64")}\n-----END PRIVATE KEY-----\n`;
  return { der: Buffer.from(request.rawData), keys, privateKeyPem };
}
