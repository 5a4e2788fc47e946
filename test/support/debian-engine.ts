import { randomInt } from "node:crypto";
import { once } from "node:events";
import { join } from "node:path";
import { type Engine, findEngine } from "@svc/deploy/engine";
import { identify, isAlive } from "@svc/deploy/process-id";
import type { Suite } from "@svc/deploy/rootfs";
import { argv, spawnProgram } from "@svc/runtime/programs";
import { systemClock } from "@svc/runtime/system";
import { openDebianRoot } from "./debian-root.ts";
import { asRoot, childrenOf, interfaceNames, removeGroup } from "./host.ts";
import { waitFor } from "./wait-for.ts";

/** An engine as a release of Debian has it, with images, containers and build cache of its own. */
export interface DebianEngine extends AsyncDisposable {
  /** Where it listens, on the machine of the tests. */
  readonly socketPath: string;
  readonly docker: Engine["docker"];
  /** The interface of the network that build steps and containers without one are in. */
  readonly bridge: string;
  /** The directory that the engine and its containers' host processes have as their root. */
  readonly dir: string;
}

export interface DebianEngineOptions {
  suite: Suite;
  /** Packages of that release that it takes. */
  packages?: readonly string[];
  /** Whether root of a container is nobody on the machine (user-namespace remapping). */
  userns: boolean;
}

/** Bridges and control groups of engines begin with this; then come the process that made them and which one it is. */
const prefix = "svcdeb";
let started = 0;

const startMs = 120_000;
const stopMs = 30_000;

/** Removes what engines of test processes that were killed left. */
async function sweepEngines(): Promise<void> {
  for (const name of await interfaceNames()) {
    const owner = new RegExp(`^${prefix}([0-9a-z]+)-`).exec(name)?.[1];
    if (owner === undefined || isAlive(identify(Number.parseInt(owner, 36)))) continue;
    await removeGroup(name);
    await asRoot("ip", "link", "delete", name).catch(() => {});
  }
}

/**
 * Starts the engine of a release of Debian in a root of its own on this machine. It writes no rules into this
 * machine's firewall, and its network leads no farther than this machine. Needs root.
 */
export async function startEngineOf({
  suite,
  packages = ["docker.io", "iptables"],
  userns,
}: DebianEngineOptions): Promise<DebianEngine> {
  await sweepEngines();
  await using cleanup = new AsyncDisposableStack();
  const root = cleanup.use(await openDebianRoot({ suite, packages }));
  const name = `${prefix}${process.pid.toString(36)}-${++started}`;
  const socketPath = join(root.dir, "docker.sock");
  cleanup.defer(() => removeGroup(name));
  await asRoot("ip", "link", "add", name, "type", "bridge");
  cleanup.defer(async () => void (await asRoot("ip", "link", "delete", name)));
  await asRoot("ip", "address", "add", `10.216.${randomInt(256)}.1/24`, "dev", name);
  const dockerd = argv(
    "dockerd",
    ...["--host", "unix:///docker.sock", "--data-root", "/var/lib/docker", "--log-level", "warn"],
    ...["--bridge", name, "--iptables=false", "--ip6tables=false", "--ip-masq=false", "--ip-forward=false"],
    ...["--cgroup-parent", `/${name}`, "--insecure-registry", "127.0.0.0/8"],
    ...(userns ? ["--userns-remap", "default"] : []),
  );
  const child = spawnProgram(["setpriv", "--pdeathsig", "KILL", "--", ...root.enter, ...dockerd], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  const exited = once(child, "exit");
  let said = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    said = (said + text).slice(-10_000);
  });
  cleanup.defer(async () => {
    // The outer process only waits for the engine, which has to take down what it has set up.
    const [engine] = await childrenOf(child.pid ?? 0);
    if (engine !== undefined) process.kill(engine, "SIGTERM");
    const timer = setTimeout(() => child.kill("SIGKILL"), stopMs);
    await exited;
    clearTimeout(timer);
  });
  const docker = await waitFor(`the engine of ${suite}`, startMs, async () => {
    if (child.exitCode !== null) throw new Error(`it has ended: ${said}`);
    return findEngine(systemClock, socketPath);
  });
  const kept = cleanup.move();
  return { socketPath, docker, bridge: name, dir: root.dir, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}
