import { readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { cleanUp } from "@svc/deploy/platform";
import { findSupervisor } from "@svc/deploy/supervisor";

export const clusterDirPrefix = "svc-cluster-";

/** Removes what test runs that were killed left behind: programs, containers and directories. */
export async function sweepAbandonedClusters(dockerSocket: string): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    if (!name.startsWith(clusterDirPrefix)) continue;
    const dir = join(tmpdir(), name);
    if ((await findSupervisor(join(dir, "supervisor.json"))) !== null) continue;
    await cleanUp({ dir, dockerSocket, env: process.env });
    await rm(dir, { recursive: true, force: true });
  }
}
