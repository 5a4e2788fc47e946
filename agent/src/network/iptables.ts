import { readFile } from "node:fs/promises";
import type { Log } from "../log.ts";
import { assertJump, run, wait } from "./commands.ts";
import { type Firewall, parseNameservers, renderFirewall } from "./firewall.ts";
import type { HostEgress } from "./host-egress.ts";

const resolverFiles = ["/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"];

/** The rules that isolate containers, and keep this machine's own programs to what they need, kept in place. */
export interface IsolationGuard {
  /** Writes the rules, or finds them in place. Repeated from time to time, because other programs reload the tables. */
  assert(): Promise<void>;
  /** Resolves once the rules were in place. Rejects when the host does not let us: then nothing may start. */
  ready(): Promise<void>;
}

interface GuardOptions {
  /** Interface of build steps; null to leave it alone. */
  buildBridge: string | null;
  egress: HostEgress;
  log: Log;
}

export function createIsolationGuard(options: GuardOptions): IsolationGuard {
  let first: Promise<void> | null = null;
  const assert = async (): Promise<void> => {
    const attempt = writeRules(options);
    first ??= attempt;
    try {
      await attempt;
    } catch (cause) {
      if (first === attempt) first = null;
      throw cause;
    }
  };
  return { assert, ready: () => first ?? assert() };
}

async function writeRules(options: GuardOptions): Promise<void> {
  const resolvConf = (await Promise.all(resolverFiles.map(readIfThere))).join("\n");
  // These first: the others need the engine to have made its chains.
  await options.egress.write(resolvConf);
  const firewall = renderFirewall(parseNameservers(resolvConf, 4), options.buildBridge);
  await run("iptables-restore", [...wait, "--noflush"], firewall.chains);
  for (const jump of firewall.jumps) await assertJump("iptables", jump);
  await closeIpv6(firewall, options.log);
}

/** Project networks carry no IPv6. These rules only catch what would appear if a host turned it on by itself. */
async function closeIpv6(firewall: Firewall, log: Log): Promise<void> {
  const interfaces = new Set(firewall.jumps.map((jump) => jump[2] ?? ""));
  try {
    for (const name of interfaces) {
      for (const chain of ["INPUT", "FORWARD"]) {
        await assertJump("ip6tables", [chain, "-i", name, "-j", "DROP"]);
      }
    }
  } catch (cause) {
    log.debug({ reason: String(cause) }, "IPv6 rules are not available");
  }
}

async function readIfThere(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch {
    return "";
  }
}
