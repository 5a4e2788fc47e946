import "reflect-metadata";
import { webcrypto } from "node:crypto";
import { join } from "node:path";
import * as x509 from "@peculiar/x509";
import { identityUri } from "@svc/proto/daemon-identity";
import { writeDurably } from "@svc/runtime/durable-file";
import { credentialFiles } from "../peers/credentials.ts";

x509.cryptoProvider.set(webcrypto);
const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
const times = { notBefore: new Date("2020-01-01T00:00:00Z"), notAfter: new Date("2090-01-01T00:00:00Z") };
export const clusterId = "0b8f6c1e-6f0c-4d8e-9a3b-2f1d5c7e9a01";

/** A cluster's authority, with what it would give to a daemon. */
export interface TestAuthority {
  /** Puts a certificate of the daemon where the proxy of its machine looks for it. */
  certify(dir: string, daemon: { id: string; role?: "node" | "edge"; clusterId?: string }): Promise<void>;
}

export async function anAuthority(): Promise<TestAuthority> {
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
  const name = `CN=svc cluster ${clusterId}`;
  const authority = await x509.X509CertificateGenerator.createSelfSigned({
    ...{ name, keys, ...times, signingAlgorithm: algorithm, serialNumber: "01" },
    extensions: [new x509.BasicConstraintsExtension(true, 0, true)],
  });
  return {
    async certify(dir, { id, role = "node", clusterId: of = clusterId }) {
      const own = await webcrypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
      const { clientAuth, serverAuth } = x509.ExtendedKeyUsage;
      const certificate = await x509.X509CertificateGenerator.create({
        ...{ subject: `CN=${role} ${id}`, issuer: name, ...times, publicKey: own.publicKey },
        ...{ signingKey: keys.privateKey, signingAlgorithm: algorithm, serialNumber: "02" },
        extensions: [
          new x509.ExtendedKeyUsageExtension([clientAuth, serverAuth]),
          new x509.SubjectAlternativeNameExtension([
            { type: "url", value: identityUri({ clusterId: of, role, id, incarnation: 1 }) },
          ]),
        ],
      });
      const key = x509.PemConverter.encode(await webcrypto.subtle.exportKey("pkcs8", own.privateKey), "PRIVATE KEY");
      await writeDurably(join(dir, credentialFiles.cert), certificate.toString("pem"));
      await writeDurably(join(dir, credentialFiles.key), key);
      await writeDurably(join(dir, credentialFiles.ca), authority.toString("pem"));
    },
  };
}
