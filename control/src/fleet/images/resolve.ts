import { lookup } from "node:dns/promises";
import type { Clock } from "@svc/runtime/clock";

/** Every address of a host name; empty when it has none. Rejects when the answer is not known. */
export type ResolveAddresses = (hostname: string, signal: AbortSignal) => Promise<string[]>;

const resolveTimeoutMs = 5_000;

/** What `resolve` says in time. */
export const addressesOf = (clock: Clock, hostname: string, resolve: ResolveAddresses): Promise<string[]> =>
  resolve(hostname, clock.abortAfter(resolveTimeoutMs));

/** As the system resolves names. */
export async function systemAddresses(hostname: string, signal: AbortSignal): Promise<string[]> {
  const aborted = new Promise<never>((_, reject) =>
    signal.addEventListener("abort", () => reject(signal.reason), { once: true }),
  );
  try {
    const found = await Promise.race([lookup(hostname, { all: true, verbatim: true }), aborted]);
    return found.map(({ address }) => address);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOTFOUND") return [];
    throw error;
  }
}
