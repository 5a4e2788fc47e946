import { mkdtemp, readdir, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { cleanUp, discard } from "@svc/deploy/discard";
import { identify } from "@svc/deploy/process-id";
import { findSupervisor } from "@svc/deploy/supervisor";
import { writeDurably } from "@svc/runtime/durable-file";
import { systemClock } from "@svc/runtime/system";

const prefix = "svc-cluster-";
/** A directory without its owner's name may just have been made. */
const unnamedMs = 60_000;

const ownerFile = (dir: string) => join(dir, "owner.json");

/** Where a cluster's platform keeps everything. */
export const platformDir = (dir: string) => join(dir, "platform");

/** A new directory for one cluster, marked as that of this process. */
export async function makeClusterDir(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), prefix));
  await writeDurably(ownerFile(dir), JSON.stringify(identify(process.pid)));
  return dir;
}

async function isAbandoned(dir: string): Promise<boolean> {
  if ((await findSupervisor(ownerFile(dir))) !== null) return false;
  const { mtimeMs } = await stat(dir);
  return Date.now() - mtimeMs > unnamedMs;
}

/** Removes what test runs that were killed left behind: programs, containers and directories. */
export async function sweepAbandonedClusters(dockerSocket: string): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    const dir = join(tmpdir(), name);
    // Another test run may be doing the same.
    if (!name.startsWith(prefix) || !(await isAbandoned(dir).catch(() => false))) continue;
    await discardCluster(dir, dockerSocket).catch((error: unknown) => console.error(`  not swept: ${error}`));
  }
}

/** Removes a cluster that does not run any more; with SVC_TEST_KEEP=1 its files stay, for whoever looks for a cause. */
export async function discardCluster(dir: string, dockerSocket: string): Promise<void> {
  const place = { dir: platformDir(dir), dockerSocket, env: process.env };
  if (process.env["SVC_TEST_KEEP"] === "1") {
    await cleanUp(systemClock, place);
    console.error(`  kept ${dir}`);
    return;
  }
  await discard(systemClock, place);
  await rm(dir, { recursive: true, force: true });
}
