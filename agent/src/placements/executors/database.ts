import { type DatabaseEngine, databaseEngines, failureMessage } from "@svc/proto";
import { type DatabaseSpec, HealthState, Observed } from "@svc/proto/node";
import { pause } from "@svc/runtime/sleep";
import { serverSettings } from "../../databases/settings.ts";
import { socketPathOf } from "../../databases/socket-dir.ts";
import type { DatabaseContainerSpec } from "../../engine/engine.ts";
import { EngineError } from "../../engine/errors.ts";
import { probePauseMs } from "../../health/probe.ts";
import { isMissingImage } from "../../images/images.ts";
import { momentOf } from "../../keepers/moment.ts";
import { TaskFailure, toFailure } from "../failure.ts";
import type { LastWords } from "../last-words.ts";
import { reservedOf } from "../limits.ts";
import { containerName } from "../names.ts";
import type { Task } from "../task.ts";
import { placementLabels } from "./container.ts";
import type { Executor, RunnerDeps } from "./executor.ts";
import { watchHealth } from "./watch.ts";

const probeTimeoutMs = 5_000;

type DatabaseSteps = "create-database" | "start-database" | "prove-database" | "watch-database";

/** What of a database's server is not as in every container: what it is made of, and how it is known to serve. */
export function databaseExecutor(
  deps: Pick<RunnerDeps, "clock" | "engine" | "machine" | "owner" | "proxyIds" | "tails" | "address"> & {
    lastWords: LastWords;
    /** The same as of every other container. */
    start: Executor<"start">["start"];
  },
): Executor<DatabaseSteps> {
  const { clock, engine, machine, owner, lastWords } = deps;

  const probe = (task: Task, signal: AbortSignal): Promise<boolean> => {
    const { databaseId, engine: kind } = databaseSpec(task);
    const socketPath = socketPathOf(owner, databaseId, kind);
    return machine.probeDatabase({ engine: kind, socketPath }, probeTimeoutMs, signal);
  };

  return {
    async "create-database"(_, { task }) {
      const { placement, memory } = task.record();
      const {
        databaseId,
        engine: kind,
        image,
        adminVerifier,
        init,
        sizeMb,
        connections,
        readOnly,
      } = databaseSpec(task);
      const { generation, restore } = restoreOf(task);
      const { memoryMb = 0, cpuMillicores = 0, pidsLimit = 0 } = placement.resources ?? {};
      await machine.laySocketDir(owner, databaseId, await engine.describe(), (await deps.proxyIds()).gid);
      try {
        await engine.createDatabaseContainer({
          name: containerName(task.id),
          databaseId,
          engine: kind,
          image: image?.reference ?? "",
          settings: serverSettings(kind, { memoryMb, sizeMb, connections, readOnly }),
          readOnly,
          generation,
          // What has served has data, and would never be right without.
          init: init && !memory.wasHealthy ? { verifier: adminVerifier } : null,
          restore: memory.wasHealthy ? null : restore,
          labels: placementLabels(placement),
          reserved: reservedOf(placement.resources),
          ...{ memoryMb, cpuMillicores, pidsLimit },
        });
      } catch (cause) {
        if (!isMissingImage(cause)) throw explained(cause, restore);
        task.imageReady = false;
        return;
      }
      task.update({
        observed: Observed.CREATED,
        ...(placement.resources !== undefined && { limits: { inForce: placement.resources, problem: "" } }),
        ...(memory.wasHealthy && { restarted: true, health: HealthState.STARTING }),
      });
    },

    async "start-database"(_, turn) {
      // It is in memory, and went with the last boot.
      const { databaseId } = databaseSpec(turn.task);
      await machine.laySocketDir(owner, databaseId, await engine.describe(), (await deps.proxyIds()).gid);
      await deps.start({ do: "start" }, turn);
    },

    async "prove-database"({ startedMs, untilMs }, { task, container, signal }) {
      while (!signal.aborted && clock.now().getTime() < untilMs) {
        if (await probe(task, signal)) {
          const memory = { wasHealthy: true };
          return task.update({ observed: Observed.RUNNING, health: HealthState.HEALTHY, failure: null, memory });
        }
        await pause(clock, probePauseMs(clock.now().getTime() - startedMs), signal);
      }
      if (signal.aborted) return;
      const code = "DATABASE_NOT_ANSWERING";
      const exit = { code: null, oomKilled: false, reason: failureMessage(code), at: clock.now().toISOString() };
      const message = await lastWords.take(task, exit, container?.startedAt ?? null);
      task.update({ observed: Observed.FAILED, health: HealthState.UNHEALTHY, failure: toFailure({ code, message }) });
    },

    "watch-database": (_, turn) => watchHealth(deps, turn, () => probe(turn.task, turn.signal)),
  };
}

/** What control says of the database. Throws a `TaskFailure` when that cannot be one. */
function databaseSpec(task: Task): Omit<DatabaseSpec, "engine"> & { engine: DatabaseEngine } {
  const { spec } = task.record().placement;
  const engine = databaseEngines.find((known) => spec.case === "database" && known === spec.value.engine);
  if (
    spec.case !== "database" ||
    engine === undefined ||
    !isDatabaseId(spec.value.databaseId) ||
    spec.value.sizeMb === 0
  ) {
    throw new TaskFailure("DATABASE_SPEC_INVALID", failureMessage("DATABASE_SPEC_INVALID"));
  }
  return { ...spec.value, engine };
}

/** Which volume it is over, and what that is filled from when it is empty. */
function restoreOf(task: Task): Pick<DatabaseContainerSpec, "generation" | "restore"> {
  const { generation, restore, adminVerifier: verifier } = databaseSpec(task);
  if (restore === undefined) return { generation, restore: null };
  const { copyId } = restore;
  const until = restore.until === "" ? null : momentOf(restore.until);
  if (!isDatabaseId(copyId) || (until === null && restore.until !== "")) {
    throw new TaskFailure("DATABASE_SPEC_INVALID", failureMessage("DATABASE_SPEC_INVALID"));
  }
  return { generation, restore: { copyId, until, verifier } };
}

/** That the copy is not here is no trouble of the engine's, and does not go by. */
const explained = (cause: unknown, restore: DatabaseContainerSpec["restore"]): unknown =>
  restore !== null && cause instanceof EngineError && cause.kind === "not-found"
    ? new TaskFailure("DATABASE_COPY_MISSING", failureMessage("DATABASE_COPY_MISSING"), { cause })
    : cause;

const uuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
export const isDatabaseId = (text: string): boolean => uuid.test(text);
