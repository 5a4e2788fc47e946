import { HealthState, Observed, type ServeSpec } from "@svc/proto/node";
import { edgesReach } from "../../entrances/rules.ts";
import { proveHealthy } from "../../health/prove.ts";
import { TaskFailure, toFailure } from "../failure.ts";
import type { LastWords } from "../last-words.ts";
import type { Task } from "../task.ts";
import type { Executor, RunnerDeps } from "./executor.ts";
import { watchHealth } from "./watch.ts";

const probeTimeoutMs = 5_000;

/** Whether a container that runs answers visitors, first and from time to time. */
export function serveExecutor(
  deps: Pick<RunnerDeps, "clock" | "machine" | "tails" | "address"> & { lastWords: LastWords },
): Executor<"prove" | "watch"> {
  const { clock, machine, lastWords } = deps;
  return {
    async prove({ startedMs, untilMs }, { task, container, signal }) {
      const spec = serveSpec(task);
      const upstream = container?.upstream ?? "";
      const subject = { upstream, path: healthPath(spec), port: spec.port, pid: container?.pid ?? null };
      const problem = await proveHealthy(clock, machine, { ...subject, startedMs, untilMs }, signal);
      if (signal.aborted) return;
      if (problem === null) {
        task.update({
          observed: Observed.RUNNING,
          health: HealthState.HEALTHY,
          upstream: edgesReach(task.record(), upstream, deps.address) ?? "",
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

    async watch(_, turn) {
      const path = healthPath(serveSpec(turn.task));
      const upstream = turn.container?.upstream ?? "";
      await watchHealth(deps, turn, async () => {
        const { healthy } = await machine.probe(upstream, path, probeTimeoutMs, turn.signal);
        return healthy;
      });
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
