import { limits } from "@svc/proto";
import type { Registry } from "@svc/registry";
import type { Clock } from "@svc/runtime/clock";
import type { Log } from "../../log.ts";
import type { Db } from "../../stores/db/pool.ts";
import { forgetUnused, listUnused } from "./store.ts";

const perRound = 50;
/** It takes milliseconds, or the registry is not well. Whoever wants to use the image waits. */
const removalMs = 5_000;

/** Deletes in the registry the copies that no build has used for long. Returns how many. */
export async function collectBaseImages(
  { clock, db, registry, log }: { clock: Clock; db: Db; registry: Pick<Registry, "deleteManifest">; log: Log },
  signal: AbortSignal,
  keptDays: number = limits.baseImageKeptDays,
): Promise<number> {
  let removed = 0;
  for (const content of await listUnused(db, keptDays, perRound)) {
    if (signal.aborted) break;
    const { repository, digest } = content;
    const remove = () => registry.deleteManifest(repository, digest, { signal: clock.abortAfter(removalMs) });
    if (await forgetUnused(db, content, keptDays, remove)) removed += 1;
  }
  if (removed > 0) log.info({ removed }, "base images removed from the registry");
  return removed;
}
