import { createTokenKey } from "../token-key.ts";

const hourMs = 3600_000;

/** A key that a registry of a test may trust. */
export const aTokenKey = () =>
  createTokenKey({ notBefore: new Date(Date.now() - hourMs), notAfter: new Date(Date.now() + 24 * hourMs) });
