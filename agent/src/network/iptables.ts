import { readFile } from "node:fs/promises";
import { run as runCommand } from "@svc/runtime/command";
import type { ProgramName } from "@svc/runtime/programs";
import type { Log } from "../log.ts";
import { type Firewall, parseNameservers, renderFirewall } from "./firewall.ts";

const TIMEOUT_MS = 15_000;
/** Waits for another program that holds the tables. */
const WAIT = ["-w", "5"];
const RESOLVER_FILES = ["/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"];

/** The rules that isolate containers, kept in place. */
export type IsolationGuard = {
  /** Writes the rules, or finds them in place. Repeated from time to time, because other programs reload the tables. */
  assert(): Promise<void>;
  /** Resolves once the rules were in place. Rejects when the host does not let us: then nothing may start. */
  ready(): Promise<void>;
};

/** @param options.buildBridge interface of build steps; null to leave it alone */
export function createIsolationGuard(options: { buildBridge: string | null; log: Log }): IsolationGuard {
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

async function writeRules(options: { buildBridge: string | null; log: Log }): Promise<void> {
  const nameservers = parseNameservers((await Promise.all(RESOLVER_FILES.map(readIfThere))).join("\n"));
  const firewall = renderFirewall(nameservers, options.buildBridge);
  await run("iptables-restore", [...WAIT, "--noflush"], firewall.chains);
  for (const jump of firewall.jumps) await assertJump(jump);
  await closeIpv6(firewall, options.log);
}

async function assertJump([chain = "", ...match]: readonly string[]): Promise<void> {
  if (await succeeds("iptables", [...WAIT, "-C", chain, ...match])) return;
  await run("iptables", [...WAIT, "-I", chain, "1", ...match]);
}

/** Project networks carry no IPv6. These rules only catch what would appear if a host turned it on by itself. */
async function closeIpv6(firewall: Firewall, log: Log): Promise<void> {
  const interfaces = new Set(firewall.jumps.map((jump) => jump[2] ?? ""));
  try {
    for (const name of interfaces) {
      for (const chain of ["INPUT", "FORWARD"]) {
        const match = ["-i", name, "-j", "DROP"];
        if (await succeeds("ip6tables", [...WAIT, "-C", chain, ...match])) continue;
        await run("ip6tables", [...WAIT, "-I", chain, "1", ...match]);
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

async function succeeds(program: ProgramName, args: readonly string[]): Promise<boolean> {
  try {
    await run(program, args);
    return true;
  } catch {
    return false;
  }
}

async function run(program: ProgramName, args: readonly string[], input = ""): Promise<void> {
  await runCommand([program, ...args], { input, timeoutMs: TIMEOUT_MS });
}
