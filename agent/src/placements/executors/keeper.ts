import { databaseEngines, failureMessage } from "@svc/proto";
import { HealthState, type KeeperSpec, Observed } from "@svc/proto/node";
import { isMissingImage } from "../../images/images.ts";
import { TaskFailure } from "../failure.ts";
import type { LastWords } from "../last-words.ts";
import { reservedOf } from "../limits.ts";
import { containerName } from "../names.ts";
import type { Task } from "../task.ts";
import { placementLabels } from "./container.ts";
import { isDatabaseId } from "./database.ts";
import type { Executor, RunnerDeps } from "./executor.ts";
import { watchHealth } from "./watch.ts";

/** What of a copy's keeper is not as in every container: its volume, and the door by which it reaches the server. */
export function keeperExecutor(
  deps: Pick<RunnerDeps, "clock" | "engine" | "machine" | "owner" | "proxyIds" | "tails" | "address" | "copyLookMs"> & {
    lastWords: LastWords;
    /** The same as of every other container. */
    start: Executor<"start">["start"];
  },
): Executor<"create-keeper" | "start-keeper" | "watch-keeper"> {
  const { engine, machine, owner } = deps;
  const layDoor = async (copyId: string): Promise<void> =>
    machine.layCopyDoor(owner, copyId, await engine.describe(), await deps.proxyIds());

  return {
    async "create-keeper"(_, { task }) {
      const { placement, memory } = task.record();
      const { copyId, databaseId, engine: kind, image, password, ...spec } = keeperSpec(task);
      const { memoryMb = 0, cpuMillicores = 0, pidsLimit = 0 } = placement.resources ?? {};
      await layDoor(copyId);
      try {
        await engine.createKeeperContainer({
          name: containerName(task.id),
          ...{ copyId, databaseId, engine: kind, image: image?.reference ?? "", password },
          ...{ sizeMb: spec.sizeMb, baseEverySeconds: spec.baseEverySeconds, keepSeconds: spec.keepSeconds },
          lookEveryMs: deps.copyLookMs,
          labels: placementLabels(placement),
          reserved: reservedOf(placement.resources),
          ...{ memoryMb, cpuMillicores, pidsLimit },
        });
      } catch (cause) {
        if (!isMissingImage(cause)) throw cause;
        task.imageReady = false;
        return;
      }
      task.update({
        observed: Observed.CREATED,
        ...(placement.resources !== undefined && { limits: { inForce: placement.resources, problem: "" } }),
        ...(memory.wasHealthy && { restarted: true, health: HealthState.STARTING }),
      });
    },

    async "start-keeper"(_, turn) {
      // It is in memory, and went with the last boot.
      await layDoor(keeperSpec(turn.task).copyId);
      await deps.start({ do: "start" }, turn);
    },

    async "watch-keeper"(_, turn) {
      if (!turn.task.record().memory.wasHealthy) turn.task.update({ memory: { wasHealthy: true } });
      await watchHealth(deps, turn, async () => true);
    },
  };
}

/** What control says of the copy. Throws a `TaskFailure` when that cannot be one. */
function keeperSpec(task: Task): Omit<KeeperSpec, "engine"> & { engine: (typeof databaseEngines)[number] } {
  const { spec } = task.record().placement;
  const engine = databaseEngines.find((known) => spec.case === "keeper" && known === spec.value.engine);
  if (spec.case === "keeper" && engine !== undefined) {
    const { copyId, databaseId, sizeMb, baseEverySeconds, keepSeconds } = spec.value;
    const isWhole = isDatabaseId(copyId) && isDatabaseId(databaseId);
    if (isWhole && sizeMb > 0 && baseEverySeconds > 0 && keepSeconds > 0) return { ...spec.value, engine };
  }
  throw new TaskFailure("DATABASE_SPEC_INVALID", failureMessage("DATABASE_SPEC_INVALID"));
}
