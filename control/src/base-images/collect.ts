import { limits } from "@svc/proto";
import type { Registry } from "@svc/registry";
import type { Db } from "../db/pool.ts";
import type { Log } from "../log.ts";
import { forgetUnused, listUnused } from "./store.ts";

const perRound = 50;
/** It takes milliseconds, or the registry is not well. Whoever wants to use the image waits. */
const removalMs = 5_000;

/** Deletes in the registry the copies that no build has used for long. Returns how many. */
export async function collectBaseImages(
  { db, registry, log }: { db: Db; registry: Pick<Registry, "deleteManifest">; log: Log },
  signal: AbortSignal,
  keptDays: number = limits.baseImageKeptDays,
): Promise<number> {
  let removed = 0;
  for (const content of await listUnused(db, keptDays, perRound)) {
    if (signal.aborted) break;
    const { repository, digest } = content;
    const remove = () => registry.deleteManifest(repository, digest, { signal: AbortSignal.timeout(removalMs) });
    if (await forgetUnused(db, content, keptDays, remove)) removed += 1;
  }
  if (removed > 0) log.info({ removed }, "base images removed from the registry");
  return removed;
}
