import { HealthState, Observed } from "@svc/proto/node";
import { pause } from "@svc/runtime/sleep";
import type { Container } from "../../engine/engine.ts";
import { edgesReach } from "../../entrances/rules.ts";
import { probePauseMs } from "../../health/probe.ts";
import { steadyMs } from "../crash.ts";
import type { LastWords } from "../last-words.ts";
import type { RunnerDeps, Turn } from "./executor.ts";

const watchEveryMs = 10_000;
/** So many misses in a row before a healthy container counts as unhealthy. */
const missesMax = 3;

/** Looks from time to time whether a container that was healthy once is, and tells what changes, until the signal aborts. */
export async function watchHealth(
  { clock, tails, address, lastWords }: Pick<RunnerDeps, "clock" | "tails" | "address"> & { lastWords: LastWords },
  { task, container, signal }: Turn,
  isHealthy: () => Promise<boolean>,
): Promise<void> {
  const upstream = edgesReach(task.record(), container?.upstream ?? null, address) ?? "";
  const startedMs = clock.now().getTime();
  let misses = 0;
  while (!signal.aborted) {
    const healthy = await isHealthy();
    if (signal.aborted) return;
    misses = healthy ? 0 : misses + 1;
    const { status } = task.record();
    const isKnownHealthy = status.health === HealthState.HEALTHY;
    if (healthy && !(isKnownHealthy && status.upstream === upstream)) {
      task.update({ observed: Observed.RUNNING, health: HealthState.HEALTHY, upstream, failure: null });
      // What is being kept of the end before it comes first.
      await lastWords.followed(task.id);
      await tails.drop(task.id);
    }
    if (status.crashing !== undefined && isSteady(container, clock.now())) task.update({ crashing: null });
    if (misses >= missesMax && isKnownHealthy) task.update({ health: HealthState.UNHEALTHY });
    // After a restart visitors are waiting, so the first good answer should be noticed at once.
    const isStarting = !healthy && !isKnownHealthy;
    await pause(clock, isStarting ? probePauseMs(clock.now().getTime() - startedMs) : watchEveryMs, signal);
  }
}

/** Whether it has run long enough that what was before is over. */
const isSteady = (container: Container | null, now: Date): boolean =>
  now.getTime() - Date.parse(container?.startedAt ?? "") >= steadyMs;
