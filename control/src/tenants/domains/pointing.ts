// @pure
import type { DnsStatus } from "@svc/proto";

/**
 * Where a name leads, by its addresses. A single foreign one counts: visitors and authorities that meet it do not reach us, and
 * a forgotten AAAA is the usual one.
 *
 * @param addresses of the name; empty: it has none
 */
export function pointingOf(
  domain: string,
  addresses: readonly string[],
  isOurs: (address: string) => boolean,
  isProxy: (address: string) => boolean,
): { status: DnsStatus; problem: string | null } {
  if (addresses.length === 0) return { status: "unresolved", problem: `${domain} has no address in DNS yet.` };
  if (addresses.every(isOurs)) return { status: "direct", problem: null };
  if (addresses.every(isProxy)) return { status: "proxied", problem: null };
  const foreign = addresses.filter((address) => !isOurs(address));
  const also = foreign.length < addresses.length ? "also leads" : "leads";
  return { status: "not-pointing", problem: `${domain} ${also} to ${foreign.join(", ")}, which is not this platform.` };
}
