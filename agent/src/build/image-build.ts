import { pause } from "@svc/runtime/sleep";
import { TaskFailure } from "../placements/failure.ts";
import { pauseMs } from "../storage/watch.ts";
import type { Archive } from "./archive.ts";
import { packContext } from "./context.ts";
import { namespaceArg } from "./dockerfile.ts";
import { fromBuild, wroteTooMuch } from "./failures.ts";
import type { Job } from "./job.ts";
import { boundOutput } from "./output-bound.ts";
import type { Recipe } from "./recipe-result.ts";
import { buildMark, type StepGroup } from "./step-limits.ts";
import { caSecret } from "./user-dockerfile.ts";

/**
 * A step that has run for this long without being limited will not be any more. The engine counts from before it makes
 * the step's container, which takes seconds on a busy machine.
 */
const unlimitedMaxMs = 30_000;
const usualLookMs = 500;
const diskEveryMs = 1_000;
const mb = 1024 * 1024;

/** Builds an image under `name`, its steps held to the limits of the request. */
export async function buildImage(
  job: Job,
  source: Archive,
  recipe: Exclude<Recipe, { kind: "files" }>,
  name: string,
): Promise<void> {
  const { engine, spec, output, progress, owner, request } = job;
  const own = recipe.kind === "image" ? (recipe.own ?? null) : null;
  const mark = buildMark(owner, spec.cacheNamespace);
  progress.leaveOut(recipe.isOurs);
  await using steps = await openSteps(job, mark);
  await using watched = watchLimits(job, steps);
  await using storage = watchStorage(job, steps);
  const said = boundOutput(progress);
  const signal = AbortSignal.any([job.signal, watched.broken, storage.ended, said.ended]);
  const kill = (): void => void steps.kill();
  signal.addEventListener("abort", kill, { once: true });
  try {
    await engine.buildImage(
      (contextOwner) => packContext(source, recipe, contextOwner),
      {
        tag: name,
        dockerfile: recipe.dockerfile,
        buildArgs: own === null ? { [namespaceArg]: spec.cacheNamespace } : {},
        hosts: { [mark]: "127.0.0.1" },
        noCache: spec.noCache,
        secrets:
          own === null || spec.caBundle === ""
            ? recipe.secrets
            : new Map([...recipe.secrets, [caSecret, Buffer.from(spec.caBundle)]]),
      },
      (trace) => {
        output.write(progress.add(trace));
        said.add(trace);
      },
      signal,
    );
    // What the last step wrote between two looks.
    await storage.check();
  } catch (cause) {
    job.signal.throwIfAborted();
    if (storage.ended.aborted) throw storage.ended.reason;
    if (said.ended.aborted) throw said.ended.reason;
    if (watched.broken.aborted) throw cannotLimit(watched.broken.reason);
    throw fromBuild(cause, progress, {
      output: recipe.kind === "site" ? recipe.output : null,
      lines: own?.lines ?? null,
      limits: request.limits,
      pressure: await steps.pressure(),
    });
  } finally {
    signal.removeEventListener("abort", kill);
  }
}

async function openSteps({ limiter, request, log }: Job, mark: string): Promise<StepGroup> {
  try {
    return await limiter.open(mark, request.limits);
  } catch (cause) {
    log.error({ err: cause }, "builds cannot be limited on this node: the agent needs root and control groups");
    throw cannotLimit(cause);
  }
}

/** Notices steps that run outside their group: an engine that starts them in a way this agent does not know. */
function watchLimits({ clock, progress, log }: Job, steps: StepGroup): AsyncDisposable & { broken: AbortSignal } {
  const missed = new AbortController();
  const over = new AbortController();
  const look = async (): Promise<void> => {
    let sinceMs: number | null = null;
    while (!over.signal.aborted && steps.caught() === 0 && !missed.signal.aborted) {
      await pause(clock, usualLookMs, over.signal);
      const isRunning = progress.running()?.step.startsWith("RUN ") === true;
      sinceMs = isRunning ? (sinceMs ?? clock.now().getTime()) : null;
      if (sinceMs === null || clock.now().getTime() - sinceMs < unlimitedMaxMs || steps.caught() > 0) continue;
      log.error({}, "a build step of the engine was not found, so nothing would limit it");
      missed.abort(new Error("a step was not found"));
    }
  };
  const looking = look();
  return {
    broken: AbortSignal.any([steps.broken, missed.signal]),
    async [Symbol.asyncDispose]() {
      over.abort();
      await looking;
    },
  };
}

/** Ends the build once its steps wrote more than they may, or the disk has too little room left. */
function watchStorage(job: Job, steps: StepGroup): AsyncDisposable & { ended: AbortSignal; check(): Promise<void> } {
  const { clock, progress, checkDisk, lookEveryMs, log } = job;
  const { storageMb } = job.request.limits;
  const ended = new AbortController();
  const over = new AbortController();

  /** Trouble with looking is no reason to end anything: the next look may do better. */
  const endIf = async (look: () => Promise<void>): Promise<void> => {
    try {
      await look();
    } catch (cause) {
      log.warn({ reason: String(cause) }, "the disk is in the way of a build, or cannot be looked at");
      if (cause instanceof TaskFailure) ended.abort(cause);
    }
  };
  const lookAtSteps = async (): Promise<void> => {
    const enough = storageMb * mb;
    if (enough > 0 && (await steps.written(enough)) > enough) throw wroteTooMuch(storageMb, progress);
  };
  const repeat = async (look: () => Promise<void>, everyMs: number): Promise<void> => {
    while (!over.signal.aborted && !ended.signal.aborted) {
      const startedMs = clock.steadyMs();
      await endIf(look);
      await pause(clock, pauseMs(clock.steadyMs() - startedMs, everyMs), over.signal);
    }
  };
  // What the engine itself copies is no step's, and fast.
  const looking = Promise.all([repeat(lookAtSteps, lookEveryMs), repeat(checkDisk, diskEveryMs)]);
  return {
    ended: ended.signal,
    async check() {
      await endIf(lookAtSteps);
      ended.signal.throwIfAborted();
    },
    async [Symbol.asyncDispose]() {
      over.abort();
      await looking;
    },
  };
}

const cannotLimit = (cause: unknown): TaskFailure =>
  new TaskFailure(
    "NODE_TASK_FAILED",
    "The platform's machine cannot hold builds to their limits. Its administrator finds the reason in the agent's log.",
    { cause },
  );
