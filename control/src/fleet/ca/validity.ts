// @pure
import type { Validity } from "./certificates.ts";

const dayMs = 86_400_000;

/** From the issue of a daemon's certificate to its end. */
export const daemonValidityMs = 30 * dayMs;

/** Backdated, so that whoever's clock is hours behind, a daemon or another replica, does not refuse it as not yet valid. */
export const validity = (now: Date, lengthMs: number): Validity => ({
  notBefore: new Date(now.getTime() - dayMs),
  notAfter: new Date(now.getTime() + lengthMs),
});
