import { randomInt } from "node:crypto";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { get } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { run } from "../command.ts";
import { argv, spawnProgram } from "../programs.ts";

/** An engine beside the one of the machine, with images, containers and build cache of its own. */
export interface OwnEngine extends AsyncDisposable {
  readonly socketPath: string;
  readonly dataDir: string;
}

export interface OwnEngineOptions {
  /** Its data is in memory, and has this much room; else it is on the disk. */
  dataMb?: number;
  env?: NodeJS.ProcessEnv;
}

/** Directories and bridges of engines are named by this, the process that made them and which one it is. */
const dirPrefix = "svc-engine-";
const bridgePrefix = "svceng";
let started = 0;

const startMs = 120_000;
const stopMs = 30_000;
const pingMs = 3_000;

/**
 * Starts an engine whose network leads nowhere. It writes no rules into this machine's firewall, and ends with the test
 * also when that is killed. Needs root.
 */
export async function startOwnEngine({ dataMb, env }: OwnEngineOptions = {}): Promise<OwnEngine> {
  await sweepEngines();
  await using cleanup = new AsyncDisposableStack();
  const dir = await mkdtemp(join(tmpdir(), `${dirPrefix}${process.pid}-`));
  cleanup.defer(() => discard(dir));
  const [dataDir, socketPath] = [join(dir, "data"), join(dir, "sock")];
  await mkdir(dataDir);
  if (dataMb !== undefined) await run(["mount", "-t", "tmpfs", "-o", `size=${dataMb}m`, "tmpfs", dataDir]);
  // With no bridge at all it would take away the one of the machine's own engine.
  const bridge = `${bridgePrefix}${process.pid.toString(36)}-${++started}`;
  await run(["ip", "link", "add", bridge, "type", "bridge"]);
  cleanup.defer(async () => void (await run(["ip", "link", "delete", bridge])));
  await run(["ip", "address", "add", `10.217.${randomInt(256)}.1/29`, "dev", bridge]);
  const dockerd = argv(
    "dockerd",
    ...["--data-root", dataDir, "--exec-root", join(dir, "exec"), "--pidfile", join(dir, "pid")],
    ...["--host", `unix://${socketPath}`, "--bridge", bridge, "--log-level", "error"],
    ...["--iptables=false", "--ip-masq=false", "--ip-forward=false"],
  );
  const child = spawnProgram(["setpriv", "--pdeathsig", "TERM", ...dockerd], {
    stdio: "ignore",
    ...(env !== undefined && { env }),
  });
  const exited = once(child, "exit").catch(() => {});
  cleanup.defer(async () => {
    // SIGTERM lets it end the containerd that it started, too.
    child.kill("SIGTERM");
    const timer = setTimeout(() => child.kill("SIGKILL"), stopMs);
    await exited;
    clearTimeout(timer);
  });
  const endsAtMs = performance.now() + startMs;
  while (!(await answers(socketPath))) {
    const end = child.exitCode ?? child.signalCode;
    if (end !== null) throw new Error(`the engine ended with ${end}`);
    if (performance.now() > endsAtMs) throw new Error(`the engine did not answer within ${startMs} ms`);
    await delay(100);
  }
  const kept = cleanup.move();
  return { socketPath, dataDir, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

const answers = (socketPath: string): Promise<boolean> =>
  new Promise((resolve) => {
    const signal = AbortSignal.timeout(pingMs);
    get({ socketPath, path: "/_ping", agent: false, signal }, (response) => {
      response.on("error", () => {}).resume();
      resolve(response.statusCode === 200);
    }).on("error", () => resolve(false));
  });

const isAlive = (pid: number): boolean => existsSync(`/proc/${pid}`);

/** Removes what engines of test processes that were killed left. One that has not ended yet is left to a later sweep. */
async function sweepEngines(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    const owner = new RegExp(`^${dirPrefix}(\\d+)-`).exec(name)?.[1];
    const dir = join(tmpdir(), name);
    if (owner === undefined || isAlive(Number(owner)) || (await isInUse(dir))) continue;
    // Another test may be at it, too.
    await discard(dir).catch(() => {});
  }
  for (const name of await readdir("/sys/class/net")) {
    const owner = new RegExp(`^${bridgePrefix}([0-9a-z]+)-\\d+$`).exec(name)?.[1];
    if (owner === undefined || isAlive(Number.parseInt(owner, 36))) continue;
    await run(["ip", "link", "delete", name]).catch(() => {});
  }
}

/** Whether the engine of the directory lives. */
async function isInUse(dir: string): Promise<boolean> {
  const pid = Number(await readFile(join(dir, "pid"), "utf8").catch(() => ""));
  const commandLine = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
  return commandLine.includes(dir);
}

/** Removes the directory and whatever is mounted below it. */
async function discard(dir: string): Promise<void> {
  const mounts = (await readFile("/proc/self/mountinfo", "utf8")).split("\n").map((line) => line.split(" ")[4] ?? "");
  const below = mounts.filter((path) => path.startsWith(`${dir}/`)).reverse();
  // What hangs there may be let go of a moment after the engine has ended.
  for (const path of below) await run(["umount", "--lazy", path]);
  await rm(dir, { recursive: true, force: true });
}
