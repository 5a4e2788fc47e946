import { createHash } from "node:crypto";
import { lookup } from "node:dns/promises";
import { parseAddress } from "@svc/proto";
import type { Clock } from "@svc/runtime/clock";
import { within } from "@svc/runtime/deadline";
import type { Log } from "../log.ts";
import { assertJump, run, wait } from "./commands.ts";
import { type EgressMode, type EgressTarget, egressChain, renderEgress } from "./egress.ts";
import { bridgePrefix, parseNameservers } from "./firewall.ts";
import { isLoopback } from "./loopback.ts";
import { withMachineLock } from "./machine-lock.ts";

export interface HostEgressOptions {
  clock: Clock;
  mode: EgressMode;
  /** What the operator named. */
  allow: readonly EgressTarget[];
  /** host:port of control, of the registry and of other machines' database proxies, as they are known now. */
  servers(): readonly string[];
  /** The agent's own directory: no two agents of a machine share one. */
  dir: string;
  buildBridge: string | null;
  log: Log;
}

const lookupMs = 5_000;
const programs = { 4: "iptables", 6: "ip6tables" } as const;
const restore = { 4: "iptables-restore", 6: "ip6tables-restore" } as const;

/** Keeps programs of this machine from what they must not begin to speak to, see `renderEgress`. */
export interface HostEgress {
  /** Writes the rules again, with the addresses that names have now. Rejects when the host does not let us. */
  write(resolvConf: string): Promise<void>;
}

export function createHostEgress(options: HostEgressOptions): HostEgress {
  const { clock, dir, buildBridge, log } = options;
  const key = createHash("sha256").update(dir).digest("hex").slice(0, 12);
  const bridges = [`${bridgePrefix}+`, ...(buildBridge === null ? [] : [buildBridge])];
  /** By host: a resolver that is away must not cut the node off. */
  const known = new Map<string, string[]>();

  const addressesOf = async (host: string): Promise<string[]> => {
    if (parseAddress(host) !== null) return [host];
    try {
      const found = await within(clock, lookupMs, lookup(host, { all: true }), () => {
        throw new Error("no answer in time");
      });
      known.set(
        host,
        found.map(({ address }) => address),
      );
    } catch (cause) {
      log.warn({ host, reason: String(cause) }, "a server's name has no address now");
    }
    return known.get(host) ?? [];
  };
  /** Null while nobody knows where it is. */
  const targetsOf = async (server: string): Promise<EgressTarget[] | null> => {
    const { hostname, port } = new URL(`https://${server}`);
    const addresses = await addressesOf(hostname.replace(/^\[|\]$/g, ""));
    if (addresses.length === 0) return null;
    return addresses.flatMap((address) => {
      const length = parseAddress(address)?.length;
      if (length === undefined || isLoopback(address)) return [];
      const family = length === 4 ? 4 : 6;
      return [{ network: `${address}/${length * 8}`, family, port: Number(port || 443) } as const];
    });
  };

  const write = async (
    family: 4 | 6,
    wish: { mode: EgressMode; allow: readonly EgressTarget[] },
    resolvConf: string,
  ): Promise<void> => {
    const program = programs[family];
    // What others want is read and written again, so nobody may write in between.
    await withMachineLock(clock, `svc-egress-${family}`, async () => {
      // Of the whole table: it is there before the chain is.
      const listed = await run(program, [...wait, "-S"]);
      const rules = renderEgress({
        ...{ family, ...wish, bridges, key },
        nameservers: parseNameservers(resolvConf, family),
        minute: Math.floor(clock.now().getTime() / 60_000),
        present: listed.split("\n"),
      });
      await run(restore[family], [...wait, "--noflush"], rules);
      await assertJump(program, ["OUTPUT", "-j", egressChain]);
    });
  };

  return {
    async write(resolvConf) {
      const servers = [...new Set(options.servers())];
      const found = await Promise.all(servers.map(targetsOf));
      // Without an address of control the node would lock itself out, and of a private network it may well be.
      const isLost = found.some((targets) => targets === null);
      const wish = {
        mode: isLost && options.mode === "closed" ? ("metadata" as const) : options.mode,
        allow: [...options.allow, ...found.flatMap((targets) => targets ?? [])],
      };
      await write(4, wish, resolvConf);
      await write(6, wish, resolvConf).catch((cause: unknown) => {
        log.debug({ reason: String(cause) }, "IPv6 rules are not available");
      });
    },
  };
}
