import "reflect-metadata";
import { createHash, createPrivateKey, createPublicKey, type KeyObject, webcrypto } from "node:crypto";
import * as x509 from "@peculiar/x509";

x509.cryptoProvider.set(webcrypto);

const keyAlgorithm = { name: "ECDSA", namedCurve: "P-256" };
const signingAlgorithm = { name: "ECDSA", hash: "SHA-256" };

/** The certificate request cannot be used. The message says why and quotes nothing of it. */
export class BadCertificateRequest extends Error {
  override readonly name = "BadCertificateRequest";
}

export interface KeyAndCertificate {
  /** PEM. */
  certificate: string;
  /** PKCS#8 in PEM. */
  privateKey: string;
}

export interface Validity {
  notBefore: Date;
  notAfter: Date;
}

/** A positive serial number: 16 bytes with the top bit cleared. */
function serialNumber(serial: Uint8Array): string {
  if (serial.length !== 16) throw new RangeError("a serial number is 16 bytes long");
  const bytes = Buffer.from(serial);
  bytes[0] = (bytes[0] ?? 0) & 0x7f;
  return bytes.toString("hex");
}

/** A new P-256 key pair. */
async function createKeys(): Promise<{ keys: webcrypto.CryptoKeyPair; pem: string }> {
  const keys = await webcrypto.subtle.generateKey(keyAlgorithm, true, ["sign", "verify"]);
  const pkcs8 = Buffer.from(await webcrypto.subtle.exportKey("pkcs8", keys.privateKey));
  const pem = createPrivateKey({ key: pkcs8, format: "der", type: "pkcs8" }).export({ format: "pem", type: "pkcs8" });
  return { keys, pem: pem.toString() };
}

/** It signs leaves only: no certificate made from it can sign another, but a certificate of its own successor. */
const authorityExtensions = async (publicKey: x509.PublicKeyType) => [
  new x509.BasicConstraintsExtension(true, 0, true),
  new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
  await x509.SubjectKeyIdentifierExtension.create(publicKey),
];

/** A new self-signed authority for one cluster. All those of one cluster have the same name. */
export async function createAuthority(
  clusterId: string,
  { notBefore, notAfter, serial }: Validity & { serial: Uint8Array },
): Promise<KeyAndCertificate> {
  const { keys, pem } = await createKeys();
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    serialNumber: serialNumber(serial),
    name: `CN=svc cluster ${clusterId}`,
    notBefore,
    notAfter,
    keys,
    signingAlgorithm,
    extensions: await authorityExtensions(keys.publicKey),
  });
  return { certificate: certificate.toString("pem"), privateKey: pem };
}

/**
 * The authority `next` (PEM) signed by `issuer`, the one that it replaces: whoever trusts only that one accepts through
 * it what the next one signs. Both have the same name, so it does not count as a further step of the chain, of which
 * an authority allows none (RFC 5280, 4.2.1.9: self-issued certificates). It ends when the first of the two does.
 */
export async function crossSign(issuer: KeyAndCertificate, next: string, serial: Uint8Array): Promise<string> {
  const [old, fresh] = [new x509.X509Certificate(issuer.certificate), new x509.X509Certificate(next)];
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: serialNumber(serial),
    subject: fresh.subject,
    issuer: old.subject,
    notBefore: fresh.notBefore,
    notAfter: old.notAfter < fresh.notAfter ? old.notAfter : fresh.notAfter,
    publicKey: fresh.publicKey,
    signingKey: await importSigningKey(issuer.privateKey),
    signingAlgorithm,
    extensions: [
      ...(await authorityExtensions(fresh.publicKey)),
      await x509.AuthorityKeyIdentifierExtension.create(old),
    ],
  });
  return certificate.toString("pem");
}

function importSigningKey(privateKey: string): Promise<webcrypto.CryptoKey> {
  const pkcs8 = createPrivateKey(privateKey).export({ format: "der", type: "pkcs8" });
  return webcrypto.subtle.importKey("pkcs8", pkcs8, keyAlgorithm, false, ["sign"]);
}

interface Leaf extends Validity {
  serial: Uint8Array;
  subject: string;
  usages: readonly ("serverAuth" | "clientAuth")[];
  altNames: x509.JsonGeneralName[];
}

async function sign(issuer: KeyAndCertificate, publicKey: x509.PublicKeyType, leaf: Leaf): Promise<string> {
  const authority = new x509.X509Certificate(issuer.certificate);
  const signingKey = await importSigningKey(issuer.privateKey);
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: serialNumber(leaf.serial),
    subject: leaf.subject,
    issuer: authority.subject,
    notBefore: leaf.notBefore,
    notAfter: leaf.notAfter,
    publicKey,
    signingKey,
    signingAlgorithm,
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
      new x509.ExtendedKeyUsageExtension(leaf.usages.map((usage) => x509.ExtendedKeyUsage[usage])),
      new x509.SubjectAlternativeNameExtension(leaf.altNames),
      await x509.AuthorityKeyIdentifierExtension.create(authority),
    ],
  });
  return certificate.toString("pem");
}

/** A new key and a certificate for a server that answers under `hosts`. */
export async function createServerCertificate(
  issuer: KeyAndCertificate,
  { hosts, ...leaf }: Validity & { serial: Uint8Array; hosts: readonly string[] },
): Promise<KeyAndCertificate> {
  const { keys, pem } = await createKeys();
  const altNames = hosts.map((value) => ({ type: "dns", value }) as const);
  const subject = `CN=${hosts[0] ?? "control"}`;
  return {
    privateKey: pem,
    certificate: await sign(issuer, keys.publicKey, { ...leaf, usages: ["serverAuth"], subject, altNames }),
  };
}

/**
 * A client certificate whose holder is `uri`, for a key that `readRequest` accepted. One that `alsoServes` is good for a server,
 * too: database proxies dial one another. It names no host, so nobody who dials control takes it for control's.
 */
export async function createClientCertificate(
  issuer: KeyAndCertificate,
  key: RequestedKey,
  about: Validity & { serial: Uint8Array; uri: string; subject: string; alsoServes?: boolean },
): Promise<string> {
  const { uri, alsoServes = false, ...leaf } = about;
  const publicKey = new x509.PublicKey(key.spki);
  const usages = alsoServes ? (["clientAuth", "serverAuth"] as const) : (["clientAuth"] as const);
  return sign(issuer, publicKey, { ...leaf, usages, altNames: [{ type: "url", value: uri }] });
}

/** A certificate for a server that is dialled at an address, for a key that `readRequest` accepted. It names nobody. */
export async function createEntranceCertificate(
  issuer: KeyAndCertificate,
  key: RequestedKey,
  { address, ...leaf }: Validity & { serial: Uint8Array; subject: string; address: string },
): Promise<string> {
  const publicKey = new x509.PublicKey(key.spki);
  return sign(issuer, publicKey, { ...leaf, usages: ["serverAuth"], altNames: [{ type: "ip", value: address }] });
}

/** The public key that a request asks to certify. Nothing else of the request is used. */
export interface RequestedKey {
  /** SubjectPublicKeyInfo in DER. */
  spki: Buffer;
  /** sha256 of `spki`: which key it is, for binding a bootstrap token to it. */
  hash: Buffer;
}

const maxRequestBytes = 4_096;

function readP256(spki: Buffer): KeyObject {
  const key = createPublicKey({ key: spki, format: "der", type: "spki" });
  if (key.asymmetricKeyType !== "ec" || key.asymmetricKeyDetails?.namedCurve !== "prime256v1") {
    throw new BadCertificateRequest("the key of a certificate request must be P-256");
  }
  return key;
}

/**
 * Checks a PKCS#10 request in DER: well formed, P-256, signed by the key that it names.
 * Throws `BadCertificateRequest`.
 */
export async function readRequest(der: Uint8Array): Promise<RequestedKey> {
  if (der.length === 0 || der.length > maxRequestBytes) {
    throw new BadCertificateRequest(`a certificate request has between 1 and ${maxRequestBytes} bytes`);
  }
  try {
    const request = new x509.Pkcs10CertificateRequest(Buffer.from(der));
    const key = readP256(Buffer.from(request.publicKey.rawData));
    if (!(await request.verify()))
      throw new BadCertificateRequest("the certificate request is not signed by its own key");
    const spki = key.export({ format: "der", type: "spki" });
    return { spki, hash: createHash("sha256").update(spki).digest() };
  } catch (error) {
    if (error instanceof BadCertificateRequest) throw error;
    throw new BadCertificateRequest("the certificate request cannot be read", { cause: error });
  }
}

/** sha256 of a certificate's DER in hex: what a bootstrap token promises about the authority. */
export function certificateSha256(pem: string): string {
  return createHash("sha256")
    .update(Buffer.from(new x509.X509Certificate(pem).rawData))
    .digest("hex");
}
