import { randomUUID } from "node:crypto";
import { mkdir, open, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { engineEnvironment, engineVersion, findEngine } from "@svc/deploy/engine";
import { environmentOf } from "@svc/deploy/environment";
import type { Platform } from "@svc/deploy/platform";
import { type Argv, argv } from "@svc/runtime/programs";
import { systemClock } from "@svc/runtime/system";
import { z } from "zod";
import { asRoot, freezeGroup, gather, groupName, makeGroup, networkOf, removeGroup } from "../../support/host.ts";
import { holdNamespaces, type Namespaces } from "../../support/namespaces.ts";
import { waitFor } from "../../support/wait-for.ts";
import type { Bridge } from "./bridge.ts";
import { type Inside, startInside } from "./inside.ts";

export interface MachineOptions {
  number: number;
  bridge: Bridge;
  /** Its disk: what it keeps when it is switched off. */
  dir: string;
  /** Size of its disk; null: as large as this machine's. */
  diskMb: number | null;
}

export type Docker = Platform["docker"];

/** Which packets a broken cable loses, seen from the machine behind it. */
export type Loss = "sent" | "received" | "both";

/**
 * A machine of its own as far as programs can tell: its processes, network, mounts, engine and disk are not this
 * machine's, and all of its processes end at once when it is switched off.
 */
export interface Machine extends AsyncDisposable {
  readonly number: number;
  readonly name: string;
  readonly address: string;
  /** Its engine, as an onlooker: the agent has its own connection. Throws before the first engine was started. */
  readonly docker: Docker;
  readonly dockerSocket: string;
  /** Where programs of the machine keep what must outlive a power cut. */
  readonly disk: string;
  /** Where the engine keeps its data. */
  readonly engineDir: string;
  /** Null while it is off. */
  readonly engine: Inside | null;
  readonly on: boolean;
  /** Switches it on: a network, nothing running. */
  boot(): Promise<void>;
  startEngine(): Promise<void>;
  /** Runs a program of the machine. */
  start(name: string, argv: Argv, env: NodeJS.ProcessEnv): Promise<Inside>;
  /** Runs a program of the machine to its end and returns what it printed. */
  run(...argv: Argv): Promise<string>;
  /** Everything on it ends at once and nobody is told: its cable goes dead first. */
  cutPower(): Promise<void>;
  /** Pulls the cable out, or plugs it in again. Connections stay open on both sides. */
  plug(connected: boolean): Promise<void>;
  /** Loses packets from and to these ports of the bridge's end; null: all. `share`: how many of them, from 0 to 1. */
  lose(loss: Loss, ports: readonly number[] | null, share?: number): Promise<void>;
  /** Loses every packet to another machine and from it. */
  loseTo(address: string): Promise<void>;
  /** Makes the cable this slow in both directions; null: as fast as it is. */
  throttle(kilobitsPerSecond: number | null): Promise<void>;
  /** No packet is lost any more, and the cable is in and fast. */
  heal(): Promise<void>;
  /** Stops every process between two instructions, or lets them go on. The kernel goes on accepting connections. */
  freeze(frozen: boolean): Promise<void>;
  /** Lets its processes run for this share of the time only, in slices; null: all of the time. */
  slow(share: number | null): Promise<void>;
}

const engineMs = 60_000;
const cable = "eth0";
/** Larger than one packet, so that one fits at a time. */
const burstBytes = 3_000;

const links = z.array(z.looseObject({ address: z.string() }));

export async function createMachine({ number, bridge, dir, diskMb }: MachineOptions): Promise<Machine> {
  const name = `node-${number}`;
  const group = groupName(number);
  const address = bridge.addressOf(number);
  const hostEnd = bridge.cableOf(number);
  const dockerSocket = join(dir, "docker.sock");
  const [disk, etc, log] = [join(dir, "disk"), join(dir, "etc"), join(dir, "log")];
  const engineDir = join(disk, "docker");
  const diskFile = join(dir, "disk.img");
  for (const each of [disk, etc, log]) await mkdir(each, { recursive: true, mode: 0o700 });
  if (diskMb !== null) {
    const file = await open(diskFile, "w");
    await file.truncate(diskMb * 1024 ** 2);
    await file.close();
    await asRoot("mkfs.ext4", "-q", "-F", "-m", "0", diskFile);
  }
  let power: Namespaces | null = null;
  let engine: Inside | null = null;
  let docker: Docker | null = null;
  let slices: { stop(): Promise<void> } | null = null;

  const init = (): number => {
    if (power === null) throw new Error(`${name} is off`);
    return power.init;
  };
  const enter = (...program: Argv): Promise<string> =>
    asRoot("nsenter", "--target", String(init()), "--net", "--mount", "--pid", "--", ...program);
  const start = async (name: string, argv: Argv, env: NodeJS.ProcessEnv) => {
    // Programs of a machine change its network and mounts: never those of the machine that the tests run on.
    const network = await networkOf(init());
    if (network === null || network === (await networkOf("self"))) throw new Error(`${name} has no network of its own`);
    return startInside({ init: init(), argv, env, logFile: join(log, `${name}.log`) });
  };

  const machine: Machine = {
    number,
    name,
    address,
    get docker() {
      if (docker === null) throw new Error(`${name} has no engine yet`);
      return docker;
    },
    dockerSocket,
    disk,
    engineDir,
    get engine() {
      return engine;
    },
    get on() {
      return power !== null;
    },
    async boot() {
      await makeGroup(group);
      power = await holdNamespaces(["net", "uts", "ipc"]);
      await mountAll(enter, { etc, disk: diskMb === null ? null : { image: diskFile, at: disk }, dir });
      await enter("ip", "link", "set", "lo", "up");
      await asRoot("ip", "link", "add", hostEnd, "type", "veth", "peer", "name", cable, "netns", String(init()));
      await asRoot("ip", "link", "set", hostEnd, "master", bridge.name, "up");
      await enter("ip", "address", "add", `${address}/24`, "dev", cable);
      await enter("ip", "link", "set", cable, "up");
      // Nobody notices by its silence on the bridge that it is gone, as with machines behind a router.
      const [link] = links.parse(JSON.parse(await enter("ip", "-json", "link", "show", "dev", cable)));
      const lladdr = link?.address ?? "";
      await asRoot("ip", "neigh", "replace", address, "lladdr", lladdr, "dev", bridge.name, "nud", "permanent");
    },
    async startEngine() {
      await mkdir(engineDir, { recursive: true });
      const dockerd = argv(
        "dockerd",
        ...["--host", `unix://${dockerSocket}`, "--data-root", engineDir],
        // Users are not remapped: the kernel mounts no /proc in a user namespace of a machine that hides a part of its own.
        // In memory, as on any machine: gone when it is switched off.
        ...["--exec-root", "/run/docker", "--pidfile", "/run/docker.pid", "--cgroup-parent", `/${group}/containers`],
        ...["--insecure-registry", `${bridge.address}/32`, "--log-level", "warn"],
      );
      const env = engineEnvironment(environmentOf(process.env, {}), await engineVersion());
      const started = await start("dockerd", dockerd, env);
      engine = started;
      docker = await waitFor(`the engine of ${name}`, engineMs, async () => {
        if (!started.running) throw new Error(`it has ended; see ${log}/dockerd.log`);
        return findEngine(systemClock, dockerSocket);
      });
    },
    start,
    run: enter,
    async cutPower() {
      if (power === null) return;
      await machine.slow(null);
      await asRoot("ip", "link", "set", hostEnd, "down").catch(() => {});
      // A frozen process does not even die.
      await freezeGroup(group, false);
      await power.end();
      power = null;
      engine = null;
      // The socket belonged to the engine; nothing else on the disk is touched.
      await rm(dockerSocket, { force: true });
      await removeGroup(group);
      await asRoot("ip", "link", "delete", hostEnd).catch(() => {});
    },
    async plug(connected) {
      await asRoot("ip", "link", "set", hostEnd, connected ? "up" : "down");
    },
    async lose(loss, ports, share = 1) {
      const random = share < 1 ? ["-m", "statistic", "--mode", "random", "--probability", String(share)] : [];
      const match = (side: "--sport" | "--dport") =>
        ports === null ? [] : ["-p", "tcp", "-m", "multiport", `${side}s`, ports.join(",")];
      if (loss !== "received") {
        await enter(
          "iptables",
          "-t",
          "mangle",
          "-A",
          "POSTROUTING",
          "-o",
          cable,
          ...match("--dport"),
          ...random,
          "-j",
          "DROP",
        );
      }
      if (loss !== "sent") {
        await enter(
          "iptables",
          "-t",
          "mangle",
          "-A",
          "PREROUTING",
          "-i",
          cable,
          ...match("--sport"),
          ...random,
          "-j",
          "DROP",
        );
      }
    },
    async loseTo(address) {
      const drop = ["-j", "DROP"];
      await enter("iptables", "-t", "mangle", "-A", "POSTROUTING", "-d", address, ...drop);
      await enter("iptables", "-t", "mangle", "-A", "PREROUTING", "-s", address, ...drop);
    },
    async throttle(kilobitsPerSecond) {
      const tc = (run: (...argv: Argv) => Promise<string>, device: string) => {
        if (kilobitsPerSecond === null) return run("tc", "qdisc", "del", "dev", device, "root").catch(() => "");
        const rate = ["rate", `${kilobitsPerSecond}kbit`, "burst", String(burstBytes), "latency", "2s"];
        return run("tc", "qdisc", "replace", "dev", device, "root", "tbf", ...rate);
      };
      await tc(enter, cable);
      await tc(asRoot, hostEnd);
    },
    async heal() {
      await enter("iptables", "-t", "mangle", "-F");
      await machine.throttle(null);
      await machine.plug(true);
    },
    async freeze(frozen) {
      // Twice: what was started between the two is there by then.
      for (let round = 0; frozen && round < 2; round += 1) {
        await gather(group, init());
        await freezeGroup(group, true);
      }
      if (!frozen) await freezeGroup(group, false);
    },
    async slow(share) {
      await slices?.stop();
      slices = null;
      if (share === null) return;
      await gather(group, init());
      slices = runInSlices(group, share);
    },
    async [Symbol.asyncDispose]() {
      if (power !== null) await freezeGroup(group, false).catch(() => {});
      await machine.cutPower();
    },
  };
  return machine;
}

const sliceMs = 100;

/** Lets the processes of the group run for this share of every slice, until told to stop. */
function runInSlices(group: string, share: number): { stop(): Promise<void> } {
  const end = new AbortController();
  const going = (async () => {
    while (!end.signal.aborted) {
      await freezeGroup(group, true);
      await delay(sliceMs * (1 - share));
      await freezeGroup(group, false);
      await delay(sliceMs * share);
    }
  })();
  return {
    stop() {
      end.abort();
      return going;
    },
  };
}

/** Gives the machine what must not be shared: /run, the engine's identity, the number of this boot, and its disk. */
async function mountAll(
  enter: (...argv: Argv) => Promise<string>,
  { etc, disk, dir }: { etc: string; disk: { image: string; at: string } | null; dir: string },
): Promise<void> {
  const bootId = join(dir, "boot-id");
  await writeFile(bootId, `${randomUUID()}\n`);
  await mkdir("/etc/docker", { recursive: true });
  await enter("mount", "-t", "tmpfs", "tmpfs", "/run");
  await enter("mount", "--bind", etc, "/etc/docker");
  await enter("mount", "--bind", bootId, "/proc/sys/kernel/random/boot_id");
  if (disk !== null) await enter("mount", "-o", "loop", disk.image, disk.at);
}
