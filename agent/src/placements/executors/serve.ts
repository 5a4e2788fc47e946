import { HealthState, Observed, type ServeSpec } from "@svc/proto/node";
import { pause } from "@svc/runtime/sleep";
import type { Container } from "../../engine/engine.ts";
import { probe, probePauseMs } from "../../health/probe.ts";
import { proveHealthy } from "../../health/prove.ts";
import { steadyMs } from "../crash.ts";
import { TaskFailure, toFailure } from "../failure.ts";
import type { LastWords } from "../last-words.ts";
import type { Task } from "../task.ts";
import type { Executor, RunnerDeps } from "./executor.ts";

const watchEveryMs = 10_000;
const probeTimeoutMs = 5_000;
/** So many misses in a row before a healthy container counts as unhealthy. */
const missesMax = 3;

/** Whether a container that runs answers visitors, first and from time to time. */
export function serveExecutor(
  deps: Pick<RunnerDeps, "clock" | "tails"> & { lastWords: LastWords },
): Executor<"prove" | "watch"> {
  const { clock, tails, lastWords } = deps;
  return {
    async prove({ startedMs, untilMs }, { task, container, signal }) {
      const spec = serveSpec(task);
      const upstream = container?.upstream ?? "";
      const subject = { upstream, path: healthPath(spec), port: spec.port, pid: container?.pid ?? null };
      const problem = await proveHealthy(clock, { ...subject, startedMs, untilMs }, signal);
      if (signal.aborted) return;
      if (problem === null) {
        task.update({
          observed: Observed.RUNNING,
          health: HealthState.HEALTHY,
          upstream,
          failure: null,
          memory: { wasHealthy: true },
        });
        return;
      }
      const exit = { code: null, oomKilled: false, reason: problem, at: clock.now().toISOString() };
      const message = await lastWords.take(task, exit, container?.startedAt ?? null);
      task.update({
        observed: Observed.FAILED,
        health: HealthState.UNHEALTHY,
        upstream: "",
        failure: toFailure({ code: "HEALTH_CHECK_FAILED", message }),
      });
    },

    async watch(_, { task, container, signal }) {
      const path = healthPath(serveSpec(task));
      const upstream = container?.upstream ?? "";
      const startedMs = clock.now().getTime();
      let misses = 0;
      while (!signal.aborted) {
        const { healthy } = await probe(clock, upstream, path, probeTimeoutMs, signal);
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
    },
  };
}

function serveSpec(task: Task): ServeSpec {
  const { spec } = task.record().placement;
  if (spec.case === "serve") return spec.value;
  throw new TaskFailure("NODE_TASK_FAILED", "The assignment says nothing that can be served.");
}

/** A path of the manifest, with a slash in front whatever control sent. */
const healthPath = ({ health }: ServeSpec): string =>
  health?.path.startsWith("/") ? health.path : `/${health?.path ?? ""}`;

/** Whether it has run long enough that what was before is over. */
const isSteady = (container: Container | null, now: Date): boolean =>
  now.getTime() - Date.parse(container?.startedAt ?? "") >= steadyMs;
