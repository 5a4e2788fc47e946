// The x509 library registers its classes through this polyfill, so it has to come first.
import "reflect-metadata";
import { createPrivateKey, createPublicKey, webcrypto, X509Certificate } from "node:crypto";
import * as x509 from "@peculiar/x509";
import type { DaemonRole } from "./identity.ts";

/** A fresh P-256 key and the request that proves its possession. */
export interface KeyAndRequest {
  /** PKCS#8 PEM. */
  privateKeyPem: string;
  /** PKCS#10 DER. */
  csr: Uint8Array<ArrayBuffer>;
}

const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };

/** Makes a key and a certificate request. The request's subject is a label only: control ignores it. */
export async function createKeyAndRequest(): Promise<KeyAndRequest> {
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
  const request = await x509.Pkcs10CertificateRequestGenerator.create({
    name: "CN=svc daemon",
    keys,
    signingAlgorithm: algorithm,
  });
  const pkcs8 = await webcrypto.subtle.exportKey("pkcs8", keys.privateKey);
  const privateKeyPem = x509.PemConverter.encode(pkcs8, "PRIVATE KEY");
  return { privateKeyPem: `${privateKeyPem}\n`, csr: new Uint8Array(request.rawData) };
}

/** What a daemon certificate says of its holder, or null when it names none. */
export interface CertificateName {
  clusterId: string;
  role: DaemonRole;
  id: string;
  incarnation: bigint;
}

const namePattern = /(?:^|, )URI:spiffe:\/\/([^/,]+)\/(node|edge)\/([^/,]+)\/([0-9]{1,20})(?:,|$)/;

/** Reads the URI name of a daemon certificate (PEM, leaf first). */
export function certificateName(certificatePem: string): CertificateName | null {
  const match = namePattern.exec(new X509Certificate(certificatePem).subjectAltName ?? "");
  const [, clusterId, role, id, incarnation] = match ?? [];
  if (clusterId === undefined || id === undefined || incarnation === undefined) return null;
  return { clusterId, role: role === "edge" ? "edge" : "node", id, incarnation: BigInt(incarnation) };
}

/** First and last instant of a certificate, in milliseconds since 1970. */
export function certificateLife(certificatePem: string): { fromMs: number; untilMs: number } {
  const certificate = new X509Certificate(certificatePem);
  return { fromMs: Date.parse(certificate.validFrom), untilMs: Date.parse(certificate.validTo) };
}

/** Whether the leaf of `certificatePem` was issued for this private key. */
export function belongsToKey(certificatePem: string, privateKeyPem: string): boolean {
  const certified = new X509Certificate(certificatePem).publicKey;
  return certified.equals(createPublicKey(createPrivateKey(privateKeyPem)));
}
