import { splitLastLines } from "@svc/proto";
import { HealthState, Observed, type Placement } from "@svc/proto/node";
import { pause } from "@svc/runtime/sleep";
import { type Container, type Limits, labels } from "../../engine/engine.ts";
import { EngineError } from "../../engine/errors.ts";
import { hiddenAddress } from "../../entrances/rules.ts";
import { hasOpen } from "../../health/open.ts";
import { isMissingImage } from "../../images/images.ts";
import { freshMemory } from "../../journal/records.ts";
import type { Exit } from "../../logs/tails.ts";
import type { ProjectNetwork } from "../../network/networks.ts";
import { TaskFailure, toFailure } from "../failure.ts";
import { giveLimits } from "../give-limits.ts";
import { kindOf } from "../kinds/index.ts";
import type { ContainerShape } from "../kinds/kind.ts";
import type { LastWords } from "../last-words.ts";
import { afterMiss, differs, limitsKey, pauseOf, reservedOf, reservesOther, withSaid } from "../limits.ts";
import { containerName } from "../names.ts";
import { heldPort, type Task } from "../task.ts";
import { isTerminal } from "../view.ts";
import type { Executor, RunnerDeps } from "./executor.ts";

/** How soon after its last connection a container that is to go is asked to end. */
const drainLookMs = 250;
/** So often a port that edges know is tried again before another takes its place. */
const portMissesMax = 3;

type ContainerSteps =
  | "pull"
  | "create"
  | "start"
  | "limit"
  | "count-crash"
  | "explain-crash"
  | "discard"
  | "drain"
  | "stop"
  | "remove"
  | "fail";

/** The life of a container, whatever its kind: from its image to its end, again and again, and what is said of that. */
export function containerExecutor(deps: RunnerDeps & { lastWords: LastWords }): Executor<ContainerSteps> {
  const { clock, databases, engine, machine, images, networks, ports, tails, lastWords, log } = deps;

  /** Another one than what `task` had turned out to be somebody's. */
  const missPort = (task: Task, cause?: unknown): TaskFailure => {
    task.update({ memory: { portMisses: task.record().memory.portMisses + 1 } });
    const message = "The container's port or network was not available.";
    return new TaskFailure("NODE_TASK_FAILED", message, { isTransient: true, cause });
  };

  /**
   * Where the placement is published: at the port that it holds, or one that it holds from now on, which is on disk before
   * anything listens there. What edges know of it stays as it is, in the clear or behind an entrance.
   */
  const holdPort = async (task: Task): Promise<{ address: string; hostPort: number }> => {
    const { memory } = task.record();
    const own = heldPort(task.record());
    const behindEntrance = own === 0 ? await deps.entrances.isWanted() : memory.behindEntrance;
    const address = behindEntrance ? hiddenAddress : deps.address;
    if (own !== 0 && memory.portMisses < (memory.wasHealthy ? portMissesMax : 1)) {
      if (!(await ports.isFree(address, own))) throw missPort(task);
      task.update({ memory: { hostPort: own } });
      return { address, hostPort: own };
    }
    const hold = (hostPort: number): void => task.update({ memory: { hostPort, behindEntrance, portMisses: 0 } });
    const taken = await ports.take([...new Set([address, deps.address])], deps.isPortHeld, hold);
    if (taken === null) {
      const message = "The node has no port left for another container. Try again later.";
      throw new TaskFailure("NODE_CAPACITY_UNAVAILABLE", message, { isTransient: true });
    }
    if (own !== 0) ports.rest(own);
    return { address, hostPort: taken };
  };

  /** Edges are not told of it before they can come in. What they know already is not kept down by it. */
  const openEntrance = async (task: Task, signal: AbortSignal): Promise<void> => {
    const { behindEntrance, hostPort, wasHealthy } = task.record().memory;
    if (!behindEntrance || (await deps.entrances.isOpen(hostPort, signal)) || signal.aborted) return;
    log.warn({ placementId: task.id, hostPort }, "the database proxy does not listen for edges at its entrance");
    if (wasHealthy) return;
    const message = "The node's way in for visitors is not open. Try again later.";
    throw new TaskFailure("NODE_TASK_FAILED", message, { isTransient: true });
  };

  return {
    async pull(_, { task, signal }) {
      const { placement } = task.record();
      const { image, mayBeLocal, command } = shapeOf(placement);
      if (image === undefined) throw new TaskFailure("NODE_TASK_FAILED", "The assignment names no image.");
      const needs = {
        command: command.length === 0,
        mayBeLocal,
        projectId: placement.projectId,
        workId: task.id,
        onPull: () => task.update({ observed: Observed.PULLING }),
      };
      await images.ensure(image, needs, signal);
      task.imageReady = true;
    },

    async create(_, { task }) {
      const { placement, memory, status } = task.record();
      const network = await networks.ensure(placement.projectId, placement.channel);
      const at = { network, ...(await holdPort(task)) };
      let { resources } = placement;
      try {
        await engine.createContainer(toContainerSpec(placement, resources, at));
      } catch (cause) {
        if (isMissingImage(cause)) {
          task.imageReady = false;
          return;
        }
        const { resources: before } = status;
        const isRefusal = cause instanceof EngineError && cause.kind === "failed";
        if (!isRefusal || !resources || !before || !differs(before, resources)) throw cause;
        // Limits that this machine does not give must not keep down what ran on it with others.
        resources = { ...before, ...withSaid(resources, before) };
        await engine.createContainer(toContainerSpec(placement, resources, at));
      }
      task.update({
        observed: Observed.CREATED,
        upstream: "",
        ...(resources !== undefined && { limits: { inForce: resources, problem: "" } }),
        ...(memory.wasHealthy && { restarted: true, health: HealthState.STARTING }),
      });
    },

    async start(_, { task, container, signal }) {
      const { memory, placement } = task.record();
      const { databaseId } = shapeOf(placement);
      if (databaseId !== "") await databases.reachable(databaseId, placement, signal);
      await openEntrance(task, signal);
      // Something else may be wanted by now.
      if (signal.aborted) return;
      try {
        await engine.startContainer(containerName(task.id));
      } catch (cause) {
        if (!(cause instanceof EngineError) || cause.kind === "stalled" || cause.kind === "unreachable") throw cause;
        // A port that somebody took, or a network that went: a new container is attached anew.
        if (/port is already allocated|address already in use|network .*not found/i.test(cause.message)) {
          await engine.removeContainer(containerName(task.id));
          throw missPort(task, cause);
        }
        throw new TaskFailure("START_FAILED", `The container could not be started: ${plainEngineText(cause.message)}`, {
          cause,
        });
      }
      task.update({
        observed: Observed.STARTING,
        health: HealthState.STARTING,
        ...(memory.wasHealthy && container?.state === "exited" && { restarted: true }),
        memory: { portMisses: 0 },
      });
    },

    async limit(_, { task, container }) {
      const { placement, status } = task.record();
      const { resources: wanted } = placement;
      if (container === null || wanted === undefined) return;
      // Done by a former life of this agent, or never different: only control does not know.
      const reserved = reservedOf(wanted);
      const isGiven = !differs(wanted, container.limits) && !reservesOther(reserved, container.reserved);
      const given = isGiven
        ? { inForce: container.limits, reserved: container.reserved, problem: "" }
        : await giveLimits(engine, container, wanted, reserved);
      if (given === null) return;
      const { inForce, problem } = given;
      // What it may write to the disk is this agent's to watch, and holds from now on.
      const { storageMb, generation } = wanted;
      // Who keeps its limits keeps what is set aside for them.
      const { reservedMemoryMb = 0, reservedCpuMillicores = 0 } = problem === "" ? wanted : (status.resources ?? {});
      const limits = {
        inForce: { ...inForce, storageMb, reservedMemoryMb, reservedCpuMillicores, generation },
        problem,
      };
      const change = { placementId: task.id, from: container.limits, to: limitsKey(wanted) };
      const isAsWanted = problem === "" && !reservesOther(reserved, given.reserved);
      if (isAsWanted) {
        if (!isGiven) log.info(change, "limits changed");
        const { limitsTried, limitsMisses, limitsRetryAtMs, limitsPause } = freshMemory;
        return task.update({ limits, memory: { limitsTried, limitsMisses, limitsRetryAtMs, limitsPause } });
      }
      const miss = { wanted, pause: pauseOf(container), nowMs: clock.now().getTime() };
      const memory = afterMiss(task.record().memory, miss);
      const reason = problem === "" ? "the container engine set nothing aside for them" : problem;
      log.warn({ ...change, inForce, misses: memory.limitsMisses, reason }, "limits not changed");
      task.update({ limits, memory });
    },

    async "count-crash"({ crash, code, ...end }, { task, container }) {
      const { crashes, countedExit, delayMs } = crash;
      const { exitCode, oomKilled } = end;
      const retrySinceMs = clock.now().getTime();
      const retryAtMs = retrySinceMs + delayMs;
      const lastAt = container?.finishedAt ?? clock.now().toISOString();
      const { since = lastAt } = (crashes > 1 && task.record().status.crashing) || {};
      const tell = (message: string) => ({
        failure: toFailure({ code, message, exitCode, oomKilled }),
        crashing: {
          ...{ since, lastAt, count: crashes, reason: splitLastLines(message).reason },
          nextStartAt: new Date(retryAtMs).toISOString(),
        },
      });
      const counted = {
        health: HealthState.BACKOFF,
        memory: { crashes, countedExit, countedCode: exitCode, countedOom: oomKilled, retrySinceMs, retryAtMs },
      };
      const words = lastWords.take(task, exitOf(end, container, clock.now()), container?.startedAt ?? null);
      const goes = task.record().memory.overflowOf === container?.id;
      if (delayMs > 0 || goes) return task.update({ ...counted, ...tell(await words) });
      // Visitors wait for the start: what it wrote last is read meanwhile.
      task.update({ ...counted, ...tell(end.message) });
      const telling = words
        .then((message) => {
          const { status, memory } = task.record();
          const isKnown = memory.countedExit === countedExit && memory.countedOom === oomKilled;
          if (!isKnown || isTerminal(status.observed)) return;
          const { failure, crashing } = tell(message);
          task.update({ crashing, ...(status.failure !== undefined && { failure }) });
        })
        .catch((cause: unknown) => log.warn({ placementId: task.id, reason: String(cause) }, "last words are lost"));
      lastWords.follow(task.id, telling);
    },

    async "explain-crash"({ code, message, exitCode, oomKilled }, { task }) {
      const { crashing, failure } = task.record().status;
      task.update({
        ...(crashing !== undefined && { crashing: { ...crashing, reason: message } }),
        ...(failure !== undefined && { failure: toFailure({ code, message, exitCode, oomKilled }) }),
        memory: { countedOom: true },
      });
    },

    discard: (_, { task }) => engine.removeContainer(containerName(task.id)),

    async drain({ untilMs }, { task, container, signal }) {
      const { port } = shapeOf(task.record().placement);
      // On disk before the first wait, and when it became shorter: whoever looks again goes on counting.
      if (task.record().memory.drainUntilMs !== untilMs) task.update({ memory: { drainUntilMs: untilMs } });
      while (
        !signal.aborted &&
        clock.now().getTime() < untilMs &&
        (await hasOpen(machine.tcpTables, container?.pid ?? null, port))
      ) {
        await pause(clock, Math.min(drainLookMs, Math.max(0, untilMs - clock.now().getTime())), signal);
      }
    },

    async stop(_, { task }) {
      await engine.stopContainer(containerName(task.id), graceSecondsOf(task.record().placement));
    },

    async remove(_, { task, container }) {
      const { placement } = task.record();
      if (container?.state === "running") await engine.stopContainer(containerName(task.id), graceSecondsOf(placement));
      await engine.removeContainer(containerName(task.id));
      // Of what was told to go nobody asks how it ended. The tail of what failed stays for a while.
      if (task.record().status.observed !== Observed.FAILED) await tails.drop(task.id);
      await networks.release(placement.projectId, placement.channel, () =>
        deps.isNetworkNeeded(placement.projectId, placement.channel, task.id),
      );
    },

    async fail({ code, ...end }, { task, container }) {
      const message = await lastWords.take(task, exitOf(end, container, clock.now()), container?.startedAt ?? null);
      const { exitCode, oomKilled } = end;
      const { crashing } = task.record().status;
      task.update({
        observed: Observed.FAILED,
        health: HealthState.UNSPECIFIED,
        upstream: "",
        failure: toFailure({ code, message, exitCode, oomKilled }),
        ...(crashing !== undefined && { crashing: { ...crashing, nextStartAt: "" } }),
      });
    },
  };
}

/** What says on a container whose it is. */
export const placementLabels = (placement: Placement): Record<string, string> => ({
  [labels.placement]: placement.placementId,
  [labels.epoch]: placement.epoch.toString(),
  [labels.specHash]: placement.specHash,
  [labels.ownerKind]: placement.ownerKind,
  [labels.owner]: placement.ownerId,
  [labels.project]: placement.projectId,
  [labels.channel]: placement.channel,
});

function toContainerSpec(
  placement: Placement,
  resources: Limits | undefined,
  at: { network: ProjectNetwork; hostPort: number; address: string },
) {
  const { image, command, env, databaseId, port } = shapeOf(placement);
  return {
    name: containerName(placement.placementId),
    kind: kindOf(placement)?.name ?? "",
    image: image?.reference ?? "",
    command,
    env,
    labels: placementLabels(placement),
    memoryMb: resources?.memoryMb ?? 0,
    cpuMillicores: resources?.cpuMillicores ?? 0,
    pidsLimit: resources?.pidsLimit ?? 0,
    storageMb: placement.resources?.storageMb ?? 0,
    reserved: reservedOf(placement.resources),
    network: at.network.name,
    databaseAt: databaseId === "" ? null : at.network.address,
    publish: { address: at.address, hostPort: at.hostPort, containerPort: port },
  };
}

function shapeOf(placement: Placement): ContainerShape {
  const shape = kindOf(placement)?.container ?? null;
  if (shape === null)
    throw new TaskFailure("NODE_TASK_FAILED", "The assignment says nothing that runs in a container.");
  return shape;
}

/** Of what was found without a journal nobody knows how long it may take. */
const graceSecondsOf = (placement: Placement): number => kindOf(placement)?.container?.stopGraceSeconds ?? 10;

/** How a container ended, as it is kept with its last lines. */
const exitOf = (
  { exitCode, oomKilled, message }: { exitCode: number; oomKilled: boolean; message: string },
  container: Container | null,
  now: Date,
): Exit => ({
  code: exitCode,
  oomKilled,
  reason: message,
  at: container?.finishedAt ?? now.toISOString(),
});

/** The runtime's reason without the path of calls it came through. */
function plainEngineText(text: string): string {
  const reason = /(?:exec: |starting container process caused: )(.+)$/s.exec(text)?.[1] ?? text;
  return reason.trim().slice(0, 500);
}
