import { mkdir, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { defaultCacheDir } from "@svc/deploy/paths";
import { identify, isAlive } from "@svc/deploy/process-id";
import { layDebian, type Suite } from "@svc/deploy/rootfs";
import { run } from "@svc/runtime/command";
import { type Argv, argv } from "@svc/runtime/programs";
import { systemClock } from "@svc/runtime/system";
import { asRoot } from "./host.ts";
import { holdNamespaces } from "./namespaces.ts";

/** A Debian of its own below a directory, with its own processes and mounts; the network is this machine's. */
export interface DebianRoot extends AsyncDisposable {
  /** Where its files are, seen from the machine of the tests. */
  readonly dir: string;
  /** The words before a command that make it run in there, on its own PATH. */
  readonly enter: Argv;
  /** Runs a command in there to its end and returns what it printed. */
  run(command: Argv, timeoutMs?: number): Promise<string>;
}

export interface DebianRootOptions {
  suite: Suite;
  /** What it has besides the packages without which nothing is a Debian. */
  packages: readonly string[];
  /** Adds files to `dir` before anything runs in it. */
  prepare?: (dir: string) => Promise<void>;
  /** Directories of this machine that are seen in there, read-only, under the same path. */
  sees?: readonly string[];
}

const prefix = "svc-debian-";
const debianMs = 900_000;
/** Where the root of this machine hangs for a moment while the other one takes its place. */
const formerRoot = "mnt";

/** Removes what test processes that were killed left. */
async function sweepRoots(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    const owner = new RegExp(`^${prefix}(\\d+)-`).exec(name)?.[1];
    if (owner === undefined || isAlive(identify(Number(owner)))) continue;
    await rm(join(tmpdir(), name), { recursive: true, force: true });
  }
}

/** Unpacks a Debian and makes it the root of namespaces of its own. Needs root. When it is disposed of nothing is left. */
export async function openDebianRoot({ suite, packages, prepare, sees = [] }: DebianRootOptions): Promise<DebianRoot> {
  await sweepRoots();
  const temporary = await mkdtemp(join(tmpdir(), `${prefix}${process.pid}-`));
  const dir = join(temporary, "root");
  const discard = () => rm(temporary, { recursive: true, force: true });
  try {
    await mkdir(dir);
    const signal = AbortSignal.timeout(debianMs);
    await layDebian(dir, { clock: systemClock, suite, packages, cacheDir: defaultCacheDir(process.env), signal });
    await prepare?.(dir);
    const namespaces = await holdNamespaces(["ipc", "uts"]);
    try {
      await mountRoot(namespaces.init, dir, sees);
    } catch (error) {
      await namespaces.end();
      throw error;
    }
    const enter = argv("nsenter", ...into(namespaces.init), ...argv("env", "--ignore-environment", ...environment));
    return {
      dir,
      enter,
      run: async (command, timeoutMs = 60_000) => (await run([...enter, ...command], { timeoutMs })).stdout,
      async [Symbol.asyncDispose]() {
        await namespaces.end();
        await discard();
      },
    };
  } catch (error) {
    await discard();
    throw error;
  }
}

/** The PATH is the one of root on a Debian that nobody has set up. */
const environment = ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8"];

const into = (init: number) => ["--target", String(init), "--mount", "--uts", "--ipc", "--pid", "--"];

/**
 * A changed root directory (chroot) would not do: the kernel lets nobody make a namespace of users in one, nor change
 * the root again, as engines do for every container.
 */
async function mountRoot(init: number, dir: string, sees: readonly string[]): Promise<void> {
  const mount = (...args: string[]) => asRoot("nsenter", ...into(init), ...argv("mount", ...args));
  await mount("--bind", dir, dir);
  await mount("-t", "proc", "proc", join(dir, "proc"));
  await mount("-t", "tmpfs", "tmpfs", join(dir, "run"));
  await mount("-t", "tmpfs", "tmpfs", join(dir, "tmp"));
  for (const path of ["/dev", "/sys"]) await mount("--rbind", path, join(dir, path));
  for (const path of sees) {
    await mkdir(join(dir, path), { recursive: true });
    await mount("--bind", "--options", "ro", path, join(dir, path));
  }
  await asRoot("nsenter", ...into(init), ...argv("pivot_root", dir, join(dir, formerRoot)));
  await asRoot("nsenter", ...into(init), ...argv("umount", "--lazy", `/${formerRoot}`));
}
