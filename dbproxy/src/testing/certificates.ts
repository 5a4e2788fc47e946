import "reflect-metadata";
import { webcrypto } from "node:crypto";
import { join } from "node:path";
import * as x509 from "@peculiar/x509";
import { identityUri } from "@svc/proto/daemon-identity";
import { entranceFiles } from "@svc/proto/entrances";
import { writeDurably } from "@svc/runtime/durable-file";
import { credentialFiles } from "../peers/credentials.ts";

x509.cryptoProvider.set(webcrypto);
const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
const times = { notBefore: new Date("2020-01-01T00:00:00Z"), notAfter: new Date("2090-01-01T00:00:00Z") };
export const clusterId = "0b8f6c1e-6f0c-4d8e-9a3b-2f1d5c7e9a01";

/** Whose certificate it is, and for what. */
export interface TestDaemon {
  id: string;
  role?: "node" | "edge";
  clusterId?: string;
  /** Its time is over. */
  isOver?: boolean;
}

/** A cluster's authority, with what it would give to a daemon. */
export interface TestAuthority {
  /** PEM. */
  ca: string;
  issue(daemon: TestDaemon): Promise<{ cert: string; key: string }>;
  /** Puts a certificate of the daemon where the proxy of its machine looks for it. With an address also one for edges. */
  certify(dir: string, daemon: TestDaemon & { address?: string }): Promise<void>;
}

export async function anAuthority(): Promise<TestAuthority> {
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
  const name = `CN=svc cluster ${clusterId}`;
  const authority = await x509.X509CertificateGenerator.createSelfSigned({
    ...{ name, keys, ...times, signingAlgorithm: algorithm, serialNumber: "01" },
    extensions: [new x509.BasicConstraintsExtension(true, 0, true)],
  });
  const ca = authority.toString("pem");
  const sign = async (
    publicKey: webcrypto.CryptoKey,
    { subject, altName, isOver }: { subject: string; altName: x509.JsonGeneralName; isOver: boolean },
  ): Promise<string> => {
    const { clientAuth, serverAuth } = x509.ExtendedKeyUsage;
    const certificate = await x509.X509CertificateGenerator.create({
      ...{ subject, issuer: name, ...times, publicKey },
      ...(isOver && { notAfter: new Date("2021-01-01T00:00:00Z") }),
      ...{ signingKey: keys.privateKey, signingAlgorithm: algorithm, serialNumber: "02" },
      extensions: [
        new x509.ExtendedKeyUsageExtension([clientAuth, serverAuth]),
        new x509.SubjectAlternativeNameExtension([altName]),
      ],
    });
    return certificate.toString("pem");
  };
  const issueFor = async ({ id, role = "node", clusterId: of = clusterId, isOver = false }: TestDaemon) => {
    const own = await webcrypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
    const altName = { type: "url", value: identityUri({ clusterId: of, role, id, incarnation: 1 }) } as const;
    const cert = await sign(own.publicKey, { subject: `CN=${role} ${id}`, altName, isOver });
    const key = x509.PemConverter.encode(await webcrypto.subtle.exportKey("pkcs8", own.privateKey), "PRIVATE KEY");
    return { cert, key, publicKey: own.publicKey };
  };
  return {
    ca,
    issue: issueFor,
    async certify(dir, { address, ...daemon }) {
      const { cert, key, publicKey } = await issueFor(daemon);
      await writeDurably(join(dir, credentialFiles.key), key);
      await writeDurably(join(dir, credentialFiles.ca), ca);
      if (address !== undefined) {
        const about = {
          subject: `CN=node ${daemon.id}`,
          altName: { type: "ip", value: address } as const,
          isOver: false,
        };
        await writeDurably(join(dir, entranceFiles.certificate), await sign(publicKey, about));
      }
      await writeDurably(join(dir, credentialFiles.cert), cert);
    },
  };
}
