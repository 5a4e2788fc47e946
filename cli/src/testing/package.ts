import { cp, mkdir, mkdtemp, readFile, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { runProgramSync, thisNode } from "@svc/runtime/programs";

const repository = fileURLToPath(new URL("../../..", import.meta.url));

/** The package as `npm install -g` lays it out: the program, and the manifest that was published. */
export interface Installed {
  program: string;
  manifest: Record<string, unknown>;
}

/**
 * Packs the command line with npm and installs the archive below `prefix`, with nothing but what is in it. A copy of the
 * sources is packed: npm rewrites the manifest while it does so, which other tests read.
 */
export async function installPackage(prefix: string): Promise<Installed> {
  const work = await mkdtemp(join(tmpdir(), "svc-cli-pack-"));
  const inWork = (cwd: string, ...args: string[]) =>
    runProgramSync(["npm", ...args, "--offline", "--no-audit", "--no-fund", "--no-update-notifier"], {
      cwd,
      env: { PATH: [dirname(thisNode), process.env["PATH"]].join(delimiter), HOME: work },
      stdio: ["ignore", "pipe", "pipe"],
      timeout: 120_000,
    });
  try {
    await symlink(join(repository, "node_modules"), join(work, "node_modules"));
    await cp(join(repository, "cli"), join(work, "cli"), { recursive: true });
    inWork(join(work, "cli"), "pack", "--pack-destination", work);
    await mkdir(prefix, { recursive: true });
    const { version } = JSON.parse(await readFile(join(work, "cli", "package.json"), "utf8"));
    inWork(work, "install", "-g", "--prefix", prefix, join(work, `svc-cli-${version}.tgz`));
  } finally {
    await rm(work, { recursive: true, force: true });
  }
  const manifest = join(prefix, "lib", "node_modules", "svc-cli", "package.json");
  return { program: join(prefix, "bin", "svc"), manifest: JSON.parse(await readFile(manifest, "utf8")) };
}
