import { certifyTokenKey, createTokenKey } from "../token-key.ts";

const hourMs = 3600_000;

/** A key that a registry of a test may trust, and its certificate. */
export async function aTokenKey(): Promise<{ key: string; certificate: string }> {
  const key = createTokenKey();
  const validity = { notBefore: new Date(Date.now() - hourMs), notAfter: new Date(Date.now() + 24 * hourMs) };
  return { key, certificate: await certifyTokenKey(key, validity) };
}
