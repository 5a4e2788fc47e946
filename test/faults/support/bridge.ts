import { identify, isAlive } from "@svc/deploy/process-id";
import { asRoot, interfaceNames } from "../../support/host.ts";

/**
 * Interfaces of fault tests begin with this; then come the process that made them and which one it is. It must not be
 * what the bridges of projects begin with: agents of this machine close those.
 */
const prefix = "fault";
const firstOctets = "10.77";

/** The cable between the machines and this one: an own subnet that nothing routes anywhere else. */
export interface Bridge extends AsyncDisposable {
  name: string;
  /** This machine's end, where control, the registry and the edge are. */
  address: string;
  /** Address of machine `number`, counted from 1. */
  addressOf(number: number): string;
  /** This machine's end of the cable of machine `number`. */
  cableOf(number: number): string;
}

/** Removes what test processes that were killed left of their networks. */
export async function sweepBridges(): Promise<void> {
  for (const name of await interfaceNames()) {
    const owner = new RegExp(`^${prefix}([0-9a-z]+)$`).exec(name)?.[1];
    if (owner === undefined) continue;
    if (isAlive(identify(Number.parseInt(owner, 36)))) continue;
    await remove(name).catch(() => {});
  }
}

/** The engine of this machine has what goes over a bridge judged as what is routed, and lets nothing pass that is not its own. */
const passing = (name: string): string[] => ["-i", name, "-o", name, "-j", "ACCEPT"];

async function remove(name: string): Promise<void> {
  await asRoot("iptables", "--wait", "-D", "FORWARD", ...passing(name)).catch(() => {});
  await asRoot("ip", "link", "delete", name);
}

/** Makes the bridge of this test process, of which there is one at a time. */
export async function makeBridge(): Promise<Bridge> {
  await sweepBridges();
  const name = `${prefix}${process.pid.toString(36)}`;
  const taken = await asRoot("ip", "-brief", "address", "show");
  const third = Array.from({ length: 200 }, (_, index) => (process.pid + index) % 250).find(
    (octet) => !taken.includes(`${firstOctets}.${octet}.`),
  );
  if (third === undefined) throw new Error(`no subnet is free in ${firstOctets}.0.0/16`);
  const subnet = `${firstOctets}.${third}`;
  await asRoot("ip", "link", "add", name, "type", "bridge");
  await asRoot("ip", "address", "add", `${subnet}.1/24`, "dev", name);
  await asRoot("ip", "link", "set", name, "up");
  await asRoot("iptables", "--wait", "-I", "FORWARD", ...passing(name));
  return {
    name,
    address: `${subnet}.1`,
    addressOf: (number) => `${subnet}.${10 + number}`,
    cableOf: (number) => `${name}-${number}`,
    async [Symbol.asyncDispose]() {
      await remove(name);
    },
  };
}
