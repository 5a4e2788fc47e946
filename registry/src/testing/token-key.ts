import { certifyTokenKey, createTokenKey } from "../token-key.ts";

/** A key that a registry of a test may trust, and its certificate. */
export async function aTokenKey(): Promise<{ key: string; certificate: string }> {
  const key = createTokenKey();
  const validity = { notBefore: new Date("2000-01-01"), notAfter: new Date("2099-12-31") };
  return { key, certificate: await certifyTokenKey(key, validity) };
}
