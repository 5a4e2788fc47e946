// @pure
import type { Validity } from "./certificates.ts";

const hourMs = 3_600_000;

/** From the issue of a daemon's certificate to its end. */
export const daemonValidityMs = 30 * 86_400_000;

/** Backdated, so that a daemon whose clock is behind does not refuse a certificate as not yet valid. */
export const validity = (now: Date, lengthMs: number): Validity => ({
  notBefore: new Date(now.getTime() - hourMs),
  notAfter: new Date(now.getTime() + lengthMs),
});
