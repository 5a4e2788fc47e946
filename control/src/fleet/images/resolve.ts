import { Resolver } from "node:dns/promises";
import { readFile } from "node:fs/promises";
import { isIP } from "node:net";
import type { Clock } from "@svc/runtime/clock";

/** Every address of a host name; empty when it has none. Rejects when the answer is not known. */
export type ResolveAddresses = (hostname: string, signal: AbortSignal) => Promise<string[]>;

const resolveTimeoutMs = 5_000;

/** What `resolve` says in time. */
export const addressesOf = (clock: Clock, hostname: string, resolve: ResolveAddresses): Promise<string[]> =>
  resolve(hostname, clock.abortAfter(resolveTimeoutMs));

/** A server that does not answer is asked again after that, and then the next one. */
const serverTimeoutMs = 1_500;
/** How c-ares says that there is nothing. All else is no knowledge. */
const absentCodes: ReadonlySet<string> = new Set(["ENOTFOUND", "ENODATA"]);

/**
 * As the machine's hosts file says, or DNS: `servers`, or those of the machine. The system's own way takes a thread for as long as a
 * name's servers keep silent, and has two: whoever owns such a name would keep control from looking up anything else.
 */
export function createSystemAddresses({
  hostsFile = "/etc/hosts",
  servers = [],
}: {
  hostsFile?: string;
  servers?: readonly string[];
} = {}): ResolveAddresses {
  return async (hostname, signal) => {
    const known = addressesIn(await readFile(hostsFile, "utf8").catch(() => ""), hostname);
    if (known.length > 0) return known;
    signal.throwIfAborted();
    const resolver = new Resolver({ timeout: serverTimeoutMs, tries: 2 });
    if (servers.length > 0) resolver.setServers(servers);
    const end = (): void => resolver.cancel();
    signal.addEventListener("abort", end, { once: true });
    try {
      const [v4, v6] = await Promise.allSettled([resolver.resolve4(hostname), resolver.resolve6(hostname)]);
      const found = [v4, v6].flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
      const unknown = [v4, v6].find(
        (answer) => answer.status === "rejected" && !absentCodes.has(answer.reason?.code ?? ""),
      );
      if (found.length === 0 && unknown?.status === "rejected") throw signal.aborted ? signal.reason : unknown.reason;
      return found;
    } finally {
      signal.removeEventListener("abort", end);
    }
  };
}

export const systemAddresses: ResolveAddresses = createSystemAddresses();

/** What a hosts file says of a name. */
function addressesIn(hosts: string, hostname: string): string[] {
  const wanted = hostname.toLowerCase();
  return hosts.split("\n").flatMap((line) => {
    const [address = "", ...names] = line.replace(/#.*/, "").trim().split(/\s+/);
    return isIP(address) !== 0 && names.some((name) => name.toLowerCase() === wanted) ? [address] : [];
  });
}
