import { createHash, randomBytes, webcrypto, X509Certificate } from "node:crypto";
import { identityOfAltName, identityUri } from "@svc/proto/daemon-identity";
import { beforeAll, expect, test } from "vitest";
import {
  BadCertificateRequest,
  certificateSha256,
  createAuthority,
  createClientCertificate,
  createEntranceCertificate,
  createServerCertificate,
  type KeyAndCertificate,
  readRequest,
} from "./certificates.ts";
import { aCertificateRequest } from "./testing.ts";

const notBefore = new Date("2030-01-01T00:00:00Z");
const notAfter = new Date("2030-01-31T00:00:00Z");
const serial = Buffer.alloc(16, 0xff);
const identity = {
  clusterId: "0b8f6c1e-6f0c-4d8e-9a3b-2f1d5c7e9a01",
  role: "node",
  id: "7d1f2a3b-4c5d-4e6f-8a9b-0c1d2e3f4a5b",
  incarnation: 1,
} as const;

const [serverAuth, clientAuth] = ["1.3.6.1.5.5.7.3.1", "1.3.6.1.5.5.7.3.2"];

let ca: KeyAndCertificate;
beforeAll(async () => {
  ca = await createAuthority(identity.clusterId, { notBefore, notAfter, serial });
});

test("an authority may sign leaves and nothing else", () => {
  const certificate = new X509Certificate(ca.certificate);
  expect(certificate.ca).toBe(true);
  expect(certificate.checkIssued(certificate)).toBe(true);
  expect(certificate.verify(certificate.publicKey)).toBe(true);
});

test("the fingerprint is the sha256 of the DER", () => {
  const { raw } = new X509Certificate(ca.certificate);
  expect(certificateSha256(ca.certificate)).toBe(createHash("sha256").update(raw).digest("hex"));
});

test("a server certificate names its hosts and is signed by the authority", async () => {
  const made = await createServerCertificate(ca, {
    notBefore,
    notAfter,
    serial,
    hosts: ["control.svc.internal", "localhost"],
  });
  const certificate = new X509Certificate(made.certificate);
  const authority = new X509Certificate(ca.certificate);
  expect(certificate.checkIssued(authority)).toBe(true);
  expect(certificate.verify(authority.publicKey)).toBe(true);
  expect(certificate.checkHost("control.svc.internal")).toBe("control.svc.internal");
  expect(certificate.checkHost("other.test")).toBeUndefined();
  expect(certificate.ca).toBe(false);
  expect(certificate.serialNumber).toBe(`7F${"FF".repeat(15)}`);
});

test("a daemon's certificate carries the identity that control decided, not what the request asks for", async () => {
  const { der } = await aCertificateRequest({ subject: "CN=admin", altNames: ["evil.test"] });
  const key = await readRequest(der);
  const pem = await createClientCertificate(ca, key, {
    notBefore,
    notAfter,
    serial: randomBytes(16),
    uri: identityUri(identity),
    subject: `CN=node ${identity.id}`,
  });
  const certificate = new X509Certificate(pem);
  expect(identityOfAltName(certificate.subjectAltName)).toEqual(identity);
  expect(certificate.subject).toBe(`CN=node ${identity.id}`);
  expect(certificate.publicKey.export({ format: "der", type: "spki" })).toEqual(key.spki);
  expect(new Date(certificate.validTo)).toEqual(notAfter);
  // keyUsage of node:crypto is the extended one: client authentication only.
  expect(certificate.keyUsage).toEqual([clientAuth]);
});

test("a daemon that others dial may answer with its certificate, which is good for no host", async () => {
  const key = await readRequest((await aCertificateRequest()).der);
  const pem = await createClientCertificate(ca, key, {
    notBefore,
    notAfter,
    serial: randomBytes(16),
    uri: identityUri(identity),
    subject: `CN=node ${identity.id}`,
    alsoServes: true,
  });
  const certificate = new X509Certificate(pem);
  expect(certificate.keyUsage).toEqual([clientAuth, serverAuth]);
  expect(certificate.checkHost("control.svc.internal")).toBeUndefined();
});

test("the certificate of an entrance is good for its address, and for nothing else", async () => {
  const key = await readRequest((await aCertificateRequest()).der);
  const about = {
    notBefore,
    notAfter,
    serial: randomBytes(16),
    subject: `CN=node ${identity.id}`,
    address: "10.0.0.7",
  };
  const certificate = new X509Certificate(await createEntranceCertificate(ca, key, about));
  expect(certificate.checkIP("10.0.0.7")).toBe("10.0.0.7");
  expect([certificate.checkIP("10.0.0.8"), certificate.checkHost("control.svc.internal")]).toEqual([
    undefined,
    undefined,
  ]);
  expect(identityOfAltName(certificate.subjectAltName)).toBeNull();
  expect(certificate.keyUsage).toEqual([serverAuth]);
});

test("the same key has the same hash in two requests", async () => {
  const { der, keys } = await aCertificateRequest();
  const again = await aCertificateRequest({ keys });
  expect((await readRequest(again.der)).hash).toEqual((await readRequest(der)).hash);
  const other = await aCertificateRequest();
  expect((await readRequest(other.der)).hash).not.toEqual((await readRequest(der)).hash);
});

const p384 = () => webcrypto.subtle.generateKey({ name: "ECDSA", namedCurve: "P-384" }, true, ["sign", "verify"]);
const rsa = () =>
  webcrypto.subtle.generateKey(
    { name: "RSASSA-PKCS1-v1_5", modulusLength: 2048, publicExponent: Uint8Array.of(1, 0, 1), hash: "SHA-256" },
    true,
    ["sign", "verify"],
  );

test.each([
  { when: "it is empty", request: async () => Buffer.alloc(0) },
  { when: "it is not DER", request: async () => Buffer.from("hello") },
  { when: "it is too long", request: async () => Buffer.alloc(5_000, 0x30) },
  { when: "the key is P-384", request: async () => (await aCertificateRequest({ keys: await p384() })).der },
  {
    when: "the key is RSA",
    request: async () => (await aCertificateRequest({ keys: await rsa(), algorithm: "RSASSA-PKCS1-v1_5" })).der,
  },
  {
    when: "the signature was changed",
    request: async () => {
      const { der } = await aCertificateRequest();
      const bytes = Buffer.from(der);
      bytes[bytes.length - 3] = (bytes[bytes.length - 3] ?? 0) ^ 0xff;
      return bytes;
    },
  },
])("a request is refused when $when", async ({ request }) => {
  await expect(readRequest(await request())).rejects.toThrow(BadCertificateRequest);
});
