import { createHash } from "node:crypto";
import { certificateSha256 } from "./certificates.ts";

/**
 * Names a set of authorities, whatever their order. A daemon's certificate carries the name of the set that it was
 * handed out with, so that what its holder trusts is known from what it presents.
 *
 * @param authorities each PEM, one certificate
 */
export const trustOf = (authorities: readonly string[]): string =>
  createHash("sha256").update(authorities.map(certificateSha256).sort().join("\n")).digest("hex").slice(0, 32);

const inSubject = /^OU=trust ([0-9a-f]{32})$/m;

/** The part of a certificate's subject that tells it. */
export const trustUnit = (trust: string): string => `OU=trust ${trust}`;

/** What a subject, one part per line, tells; null when the certificate was issued before it was told. */
export const trustOfSubject = (subject: string): string | null => inSubject.exec(subject)?.[1] ?? null;
