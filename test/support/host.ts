import { mkdir, readdir, readFile, readlink, rmdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { identify, isAlive } from "@svc/deploy/process-id";
import { run } from "@svc/runtime/command";
import type { Argv } from "@svc/runtime/programs";
import { z } from "zod";

/** The tree of control groups that can stop processes. */
const controller = "freezer";
const groupRoot = "/sys/fs/cgroup";

/** Runs a program as root of this machine; what it prints is returned. */
export const asRoot = async (...argv: Argv): Promise<string> => (await run(argv, { timeoutMs: 20_000 })).stdout;

/** Number of the network namespace that a process is in; null when there is no such process. */
export async function networkOf(pid: number | "self"): Promise<string | null> {
  return readlink(`/proc/${pid}/ns/net`).catch(() => null);
}

/** Processes that `pid` has started and that live. */
export async function childrenOf(pid: number): Promise<number[]> {
  const text = await readFile(`/proc/${pid}/task/${pid}/children`, "utf8").catch(() => "");
  return text.split(" ").filter(Boolean).map(Number);
}

const links = z.array(z.looseObject({ ifname: z.string() }));

/** Names of the network interfaces of this machine. */
export async function interfaceNames(): Promise<string[]> {
  return links.parse(JSON.parse(await asRoot("ip", "-json", "link", "show"))).map(({ ifname }) => ifname);
}

const groupPrefix = "svc-faults-";

/** Name of the control group of machine `number` of this test process. */
export const groupName = (number: number): string => `${groupPrefix}${process.pid}-${number}`;

/** Removes the groups of test processes that were killed. */
export async function sweepGroups(): Promise<void> {
  for (const name of await readdir(join(groupRoot, controller))) {
    const owner = /^(\d+)-\d+$/.exec(name.startsWith(groupPrefix) ? name.slice(groupPrefix.length) : "")?.[1];
    if (owner !== undefined && !isAlive(identify(Number(owner)))) await removeGroup(name);
  }
}

/** Makes a control group that holds nothing yet. */
export async function makeGroup(name: string): Promise<void> {
  await mkdir(join(groupRoot, controller, name), { recursive: true });
}

/** Moves every process of the machine whose first process is `init` into the group; containers are below it already. */
export async function gather(name: string, init: number): Promise<void> {
  const machine = await readlink(`/proc/${init}/ns/pid`);
  for (const pid of (await readdir("/proc")).filter((entry) => /^\d+$/.test(entry))) {
    if ((await readlink(`/proc/${pid}/ns/pid`).catch(() => null)) !== machine) continue;
    // It may have ended meanwhile.
    await writeFile(join(groupRoot, controller, name, "cgroup.procs"), pid).catch(() => {});
  }
}

/** Processes of a container of the machine with that group, by their numbers on this machine. */
export async function processesIn(name: string, containerId: string): Promise<number[]> {
  const file = join(groupRoot, controller, name, "containers", containerId, "cgroup.procs");
  return (await readFile(file, "utf8")).split("\n").filter(Boolean).map(Number);
}

/** Stops every process of the group between two instructions, or lets them go on. */
export async function freezeGroup(name: string, frozen: boolean): Promise<void> {
  await writeFile(join(groupRoot, controller, name, "freezer.state"), frozen ? "FROZEN" : "THAWED");
}

/** Removes the group from every controller of this machine, with what engines made below it. */
export async function removeGroup(name: string): Promise<void> {
  for (const tree of await readdir(groupRoot).catch(() => [])) {
    const path = join(groupRoot, tree, name);
    // The kernel lets go of killed processes a moment after they are gone.
    for (let attempt = 0; attempt < 50 && !(await removeTree(path)); attempt += 1) await delay(100);
  }
}

async function removeTree(path: string): Promise<boolean> {
  const entries = await readdir(path, { withFileTypes: true }).catch(() => []);
  for (const entry of entries) if (entry.isDirectory()) await removeTree(join(path, entry.name));
  try {
    await rmdir(path);
    return true;
  } catch (error) {
    return error instanceof Error && "code" in error && error.code === "ENOENT";
  }
}
