import { readdir, readlink } from "node:fs/promises";
import { join } from "node:path";
import type { Cluster } from "../cluster.ts";
import { waitFor } from "./wait-for.ts";

/**
 * Waits until no process of a killed Postgres is left. Its sessions are processes of their own, which end when they see
 * that the server is gone; while one is there, its memory is in use and no other server starts.
 */
export async function postgresEnded({ platform }: Cluster): Promise<void> {
  const data = join(platform.layout.postgres, "data");
  await waitFor("the last of Postgres to end", 30_000, async () => {
    const directories = (await readdir("/proc")).map((pid) => readlink(`/proc/${pid}/cwd`).catch(() => ""));
    return !(await Promise.all(directories)).includes(data);
  });
}
