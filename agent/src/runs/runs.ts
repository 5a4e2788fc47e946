import { setTimeout as delay } from "node:timers/promises";
import { create } from "@bufbuild/protobuf";
import {
  type RunAccept,
  RunAcceptSchema,
  type RunGrant,
  type RunOffer,
  RunOfferSchema,
  RunPhase,
  type RunStatus,
  RunStatusSchema,
} from "@svc/proto/node";
import { bootClockMs } from "../boot-clock.ts";
import { type Container, type Engine, labels } from "../engine/engine.ts";
import { EngineError, isEngineTrouble } from "../engine/errors.ts";
import type { Images } from "../images/images.ts";
import type { Journal } from "../journal/journal.ts";
import type { RunRecord } from "../journal/records.ts";
import type { Log } from "../log.ts";
import type { LogStream } from "../logs/log-stream.ts";
import type { Networks } from "../network/networks.ts";
import { TaskFailure } from "../placements/failure.ts";
import { isFinal, nextRun, type RunEvent } from "./transitions.ts";

/** The work that must not run twice: offered, accepted, granted, then started at most once. */
export type Runs = AsyncDisposable & {
  /** A session is open: evidence and answers go through `send` until `close`. */
  open(send: (message: Outgoing) => void): void;
  close(): void;
  offer(offer: RunOffer): void;
  grant(grant: RunGrant): void;
  cancel(attemptId: string): void;
  acknowledge(attemptId: string): void;
  /** The evidence of every attempt that has any, for the inventory. */
  statuses(): RunStatus[];
  isNetworkNeeded(projectId: string, channel: string, except: string): boolean;
  noteContainer(name: string): void;
  survey(containers: readonly Container[]): Promise<void>;
};

export type Outgoing = { case: "runAccept"; value: RunAccept } | { case: "runStatus"; value: RunStatus };

export const runContainerName = (attemptId: string): string => `svc-r-${attemptId}`;

const LOOK_EVERY_MS = 5_000;
const KILL_AFTER_MS = 10_000;
const RESEND_EVERY_MS = 5_000;
/** How long a start whose answer was lost is looked for before it counts as unknown. */
const UNKNOWN_AFTER_MS = 60_000;
const COMMAND_NOT_STARTED = 127;
const idPattern = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/;

type Attempt = {
  record: RunRecord;
  acceptedAtMs: number;
  wake: () => void;
  cancelled: boolean;
  work: Promise<void> | null;
};

export function createRuns(options: {
  journal: Journal;
  engine: Engine;
  images: Images;
  networks: Networks;
  openLog(attemptId: string): LogStream;
  /** Whether a placement needs the network too. */
  isNetworkNeeded(projectId: string, channel: string): boolean;
  log: Log;
}): Runs {
  const { journal, engine, images, networks, log } = options;
  const attempts = new Map<string, Attempt>();
  const closing = new AbortController();
  const { signal } = closing;
  /** Offers whose image is being fetched. */
  const preparing = new Map<string, AbortController>();
  let send: ((message: Outgoing) => void) | null = null;

  const enter = (record: RunRecord): Attempt => {
    const attempt: Attempt = { record, acceptedAtMs: 0, wake: () => {}, cancelled: false, work: null };
    attempts.set(record.offer.attemptId, attempt);
    return attempt;
  };

  /** Journals the next record and returns whether the event applied. Only then may anything be done about it. */
  const move = (attempt: Attempt, event: RunEvent): boolean => {
    const next = nextRun(attempt.record, event);
    if (next === null) return false;
    const from = attempt.record.state;
    journal.saveRun(next);
    attempt.record = next;
    log.info({ attemptId: next.offer.attemptId, from, to: next.state, event: event.kind }, "run moved");
    return true;
  };

  const report = (attempt: Attempt): void => {
    const status = toStatus(attempt.record);
    if (status !== null) send?.({ case: "runStatus", value: status });
  };

  const accept = (attemptId: string, refusedBecause = ""): void =>
    send?.({ case: "runAccept", value: create(RunAcceptSchema, { attemptId, refusedBecause }) });

  /** From the grant to the start. Whatever goes wrong before the order to start is certain not to have run. */
  const begin = async (attempt: Attempt): Promise<void> => {
    const { offer } = attempt.record;
    const name = runContainerName(offer.attemptId);
    try {
      const network = await networks.ensure(offer.projectId, offer.channel);
      await engine.createContainer(toContainerSpec(offer, network));
    } catch (cause) {
      log.warn({ attemptId: offer.attemptId, err: cause }, "run could not be prepared");
      if (move(attempt, { kind: "called-off", message: "The container could not be created." })) report(attempt);
      return;
    }
    if (attempt.cancelled && move(attempt, { kind: "called-off", message: "It was cancelled before it started." })) {
      report(attempt);
      return;
    }
    if (signal.aborted || !move(attempt, { kind: "starting" })) return;
    try {
      await engine.startContainer(name);
    } catch (cause) {
      if (isEngineTrouble(cause)) return findOut(attempt);
      const message = `The command could not be started: ${cause instanceof EngineError ? cause.message.slice(0, 500) : "the engine refused"}`;
      const at = new Date().toISOString();
      if (move(attempt, { kind: "ended", exitCode: COMMAND_NOT_STARTED, at, message })) report(attempt);
      return;
    }
    move(attempt, { kind: "started", at: new Date().toISOString() });
    report(attempt);
    await follow(attempt);
  };

  /** The engine did not say whether it started the container: looks for a while. */
  const findOut = async (attempt: Attempt): Promise<void> => {
    const untilMs = bootClockMs() + UNKNOWN_AFTER_MS;
    while (!signal.aborted && bootClockMs() < untilMs) {
      const container = await lookAt(attempt);
      if (container?.state === "running" || container?.state === "exited") {
        move(attempt, { kind: "started", at: container.startedAt ?? new Date().toISOString() });
        report(attempt);
        return follow(attempt);
      }
      await pause(LOOK_EVERY_MS);
    }
    if (!signal.aborted && move(attempt, { kind: "recovered", container: "absent" })) report(attempt);
  };

  /** From the start to the exit: carries the output, keeps the deadline. */
  const follow = async (attempt: Attempt): Promise<void> => {
    const { attemptId, timeoutSeconds } = attempt.record.offer;
    const name = runContainerName(attemptId);
    const stream = options.openLog(attemptId);
    const output = copyOutput(name, stream);
    let killAtMs: number | null = null;
    while (!signal.aborted) {
      const container = await lookAt(attempt);
      if (container === null) {
        // Somebody removed it: with it went the knowledge how the command ended.
        stream.end();
        if (move(attempt, { kind: "recovered", container: "absent" })) report(attempt);
        return;
      }
      if (container?.state === "exited") {
        await Promise.race([output, pause(LOOK_EVERY_MS)]);
        stream.end();
        const { exitCode, oomKilled } = container;
        const message = oomKilled ? "The command was killed because it used more memory than the plan allows." : "";
        const at = container.finishedAt ?? new Date().toISOString();
        if (move(attempt, { kind: "ended", exitCode, at, message })) report(attempt);
        return;
      }
      const startedMs = Date.parse(container?.startedAt ?? attempt.record.startedAt) || Date.now();
      const isLate = timeoutSeconds > 0 && Date.now() - startedMs >= timeoutSeconds * 1000;
      if (isLate) move(attempt, { kind: "timed-out" });
      if (isLate || attempt.cancelled) {
        killAtMs ??= Date.now() + KILL_AFTER_MS;
        await engine.killContainer(name, Date.now() >= killAtMs ? "SIGKILL" : "SIGTERM").catch(() => {});
      }
      const leftMs = timeoutSeconds > 0 ? startedMs + timeoutSeconds * 1000 - Date.now() : LOOK_EVERY_MS;
      const untilKillMs = killAtMs === null ? LOOK_EVERY_MS : killAtMs - Date.now();
      const nextMs = isLate ? untilKillMs : Math.min(LOOK_EVERY_MS, untilKillMs, leftMs);
      await Promise.race([pause(Math.max(50, nextMs)), woken(attempt)]);
    }
    stream.end();
  };

  const copyOutput = async (name: string, stream: LogStream): Promise<void> => {
    try {
      await engine.followLog(name, (chunk) => stream.write(chunk), signal);
    } catch (cause) {
      log.warn({ name, err: cause }, "the output of a run could not be read");
    }
  };

  /** Null when there is no container, undefined when the engine does not say. */
  const lookAt = async (attempt: Attempt): Promise<Container | null | undefined> => {
    try {
      return await engine.findContainer(runContainerName(attempt.record.offer.attemptId));
    } catch (cause) {
      log.warn({ attemptId: attempt.record.offer.attemptId, reason: String(cause) }, "a run could not be looked at");
      return undefined;
    }
  };

  const woken = (attempt: Attempt): Promise<void> =>
    new Promise((resolve) => {
      attempt.wake = resolve;
    });
  const pause = async (timeMs: number): Promise<void> => {
    await delay(timeMs, undefined, { signal }).catch(() => {});
  };

  const work = (attempt: Attempt, effect: Promise<void>): void => {
    attempt.work = effect.catch((cause: unknown) => {
      log.error({ attemptId: attempt.record.offer.attemptId, err: cause }, "run failed unexpectedly");
    });
  };

  const prepare = async (offer: RunOffer): Promise<void> => {
    const abort = new AbortController();
    preparing.set(offer.attemptId, abort);
    try {
      if (offer.image === undefined) throw new TaskFailure("NODE_TASK_FAILED", "The offer names no image.");
      const needs = { command: false, projectId: offer.projectId, onPull: () => {} };
      await images.ensure(offer.image, needs, AbortSignal.any([signal, abort.signal]));
      const attempt = enter({
        offer,
        state: "offer",
        token: "",
        exitCode: 0,
        timedOut: false,
        message: "",
        startedAt: "",
        finishedAt: "",
      });
      journal.saveRun(attempt.record);
      attempt.acceptedAtMs = bootClockMs();
      accept(offer.attemptId);
    } catch (cause) {
      if (signal.aborted || abort.signal.aborted) return;
      log.warn({ attemptId: offer.attemptId, reason: String(cause) }, "offer refused");
      accept(offer.attemptId, cause instanceof TaskFailure ? cause.message : "The node could not prepare the image.");
    } finally {
      preparing.delete(offer.attemptId);
    }
  };

  /** After a restart: reports what is certain, attaches to what runs, starts nothing. */
  const recover = async (attempt: Attempt): Promise<void> => {
    const name = runContainerName(attempt.record.offer.attemptId);
    const { state } = attempt.record;
    if (state === "offer" || state === "intent") {
      // The tombstone is on disk before the half-made container goes.
      move(attempt, { kind: "recovered", container: "absent" });
      report(attempt);
      await engine.removeContainer(name);
      return;
    }
    if (state !== "start-sent" && state !== "indeterminate") return;
    const container = await engine.findContainer(name);
    const seen = container === null || container.state === "other" ? "absent" : container.state;
    if (seen === "running" || seen === "exited") {
      move(attempt, { kind: "started", at: container?.startedAt ?? "" });
      report(attempt);
      return follow(attempt);
    }
    if (move(attempt, { kind: "recovered", container: seen })) report(attempt);
  };

  for (const record of journal.listRuns()) {
    const attempt = enter(record);
    work(
      attempt,
      untilEngineAnswers(() => recover(attempt), signal),
    );
  }
  const resending = setInterval(() => {
    for (const attempt of attempts.values()) if (isFinal(attempt.record.state)) report(attempt);
  }, RESEND_EVERY_MS);

  return {
    open(newSend) {
      send = newSend;
    },
    close() {
      send = null;
    },
    offer(offer) {
      if (!idPattern.test(offer.attemptId)) return accept(offer.attemptId, "The offer has a malformed id.");
      const known = attempts.get(offer.attemptId);
      if (known === undefined) {
        if (!preparing.has(offer.attemptId)) void prepare(offer);
        return;
      }
      if (known.record.state !== "offer") return report(known);
      known.acceptedAtMs = bootClockMs();
      accept(offer.attemptId);
    },
    grant({ attemptId, token, startWithinMs }) {
      const attempt = attempts.get(attemptId) ?? enter(unknownRun(attemptId));
      if (attempt.record.offer.command === "" && attempt.acceptedAtMs === 0 && attempt.record.state === "offer") {
        // The record of the offer is lost, and with it the knowledge whether it was started before.
        if (move(attempt, { kind: "granted-unknown", token })) report(attempt);
        return;
      }
      const lateByMs = bootClockMs() - attempt.acceptedAtMs - startWithinMs;
      if (!move(attempt, { kind: "granted", token, lateByMs })) return;
      if (attempt.record.state === "intent") work(attempt, begin(attempt));
      else report(attempt);
    },
    cancel(attemptId) {
      preparing.get(attemptId)?.abort();
      const attempt = attempts.get(attemptId) ?? enter(unknownRun(attemptId));
      attempt.cancelled = true;
      // Once granted, the one who starts it looks at the flag before and after.
      if (attempt.record.state === "offer")
        move(attempt, { kind: "called-off", message: "It was cancelled before it started." });
      if (isFinal(attempt.record.state)) report(attempt);
      attempt.wake();
    },
    acknowledge(attemptId) {
      const attempt = attempts.get(attemptId);
      if (attempt === undefined || !(isFinal(attempt.record.state) || attempt.record.state === "offer")) return;
      attempts.delete(attemptId);
      journal.forgetRun(attemptId);
      const { projectId, channel } = attempt.record.offer;
      const tidy = async (): Promise<void> => {
        await engine.removeContainer(runContainerName(attemptId));
        if (projectId !== "") {
          await networks.release(
            projectId,
            channel,
            () => options.isNetworkNeeded(projectId, channel) || needs(attempts, projectId, channel),
          );
        }
      };
      tidy().catch((cause: unknown) =>
        log.warn({ attemptId, err: cause }, "a finished run could not be tidied up yet"),
      );
    },
    statuses: () => [...attempts.values()].map(({ record }) => toStatus(record)).filter((status) => status !== null),
    isNetworkNeeded: (projectId, channel) => needs(attempts, projectId, channel),
    noteContainer(name) {
      for (const [id, attempt] of attempts) if (runContainerName(id) === name) attempt.wake();
    },
    async survey(containers) {
      for (const container of containers) {
        const id = container.labels[labels.placement];
        if (container.labels[labels.kind] !== "run" || id === undefined || container.name !== runContainerName(id))
          continue;
        const attempt = attempts.get(id);
        // Acknowledged, or never written down: in both cases nobody waits for it. One that runs is left alone.
        if (attempt === undefined && container.state !== "running") await engine.removeContainer(container.name);
        if (attempt?.record.state === "indeterminate") work(attempt, recover(attempt));
      }
    },
    async [Symbol.asyncDispose]() {
      clearInterval(resending);
      closing.abort();
      for (const abort of preparing.values()) abort.abort();
      for (const attempt of attempts.values()) attempt.wake();
      await Promise.all([...attempts.values()].map((attempt) => attempt.work));
    },
  };
}

const needs = (attempts: ReadonlyMap<string, Attempt>, projectId: string, channel: string): boolean =>
  [...attempts.values()].some(
    ({ record }) => record.offer.projectId === projectId && record.offer.channel === channel && !isFinal(record.state),
  );

function toStatus({
  offer,
  state,
  token,
  exitCode,
  timedOut,
  message,
  startedAt,
  finishedAt,
}: RunRecord): RunStatus | null {
  const phases = {
    offer: null,
    intent: null,
    // Not before the engine has confirmed it.
    "start-sent": startedAt === "" ? null : RunPhase.STARTED,
    exit: RunPhase.EXITED,
    tombstone: RunPhase.NOT_STARTED,
    indeterminate: RunPhase.INDETERMINATE,
  } as const;
  const phase = phases[state];
  if (phase === null) return null;
  const { attemptId } = offer;
  return create(RunStatusSchema, { attemptId, token, phase, exitCode, timedOut, message, startedAt, finishedAt });
}

const unknownRun = (attemptId: string): RunRecord => ({
  offer: create(RunOfferSchema, { attemptId }),
  state: "offer",
  token: "",
  exitCode: 0,
  timedOut: false,
  message: "",
  startedAt: "",
  finishedAt: "",
});

function toContainerSpec(offer: RunOffer, network: string) {
  return {
    name: runContainerName(offer.attemptId),
    kind: "run" as const,
    image: offer.image?.reference ?? "",
    command: ["/bin/sh", "-c", offer.command],
    env: offer.env,
    labels: {
      [labels.placement]: offer.attemptId,
      [labels.epoch]: "0",
      [labels.specHash]: "",
      [labels.project]: offer.projectId,
      [labels.channel]: offer.channel,
    },
    memoryMb: offer.resources?.memoryMb ?? 0,
    cpuMillicores: offer.resources?.cpuMillicores ?? 0,
    pidsLimit: offer.resources?.pidsLimit ?? 0,
    network,
    publish: null,
  };
}

/** Repeats a first look until the engine is there: at the boot of a machine it may come up after the agent. */
async function untilEngineAnswers(work: () => Promise<void>, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    try {
      return await work();
    } catch (cause) {
      if (!isEngineTrouble(cause)) throw cause;
      await delay(LOOK_EVERY_MS, undefined, { signal }).catch(() => {});
    }
  }
}
