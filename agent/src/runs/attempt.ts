import { create } from "@bufbuild/protobuf";
import { type RunOffer, RunPhase, type RunStatus, RunStatusSchema } from "@svc/proto/node";
import type { Clock } from "@svc/runtime/clock";
import { pause } from "@svc/runtime/sleep";
import { createWake } from "@svc/runtime/wake";
import { type Container, type ContainerSpec, type Engine, labels } from "../engine/engine.ts";
import { EngineError, isEngineTrouble } from "../engine/errors.ts";
import { reasonDueMs } from "../engine/kill-reason.ts";
import type { OomScope } from "../engine/oom-scope.ts";
import type { Journal } from "../journal/journal.ts";
import type { RunRecord } from "../journal/records.ts";
import type { Log } from "../log.ts";
import { createSafeLines } from "../logs/lines.ts";
import type { LogStream } from "../logs/log-stream.ts";
import type { Networks, ProjectNetwork } from "../network/networks.ts";
import { reservedOf } from "../placements/limits.ts";
import type { Writer } from "../storage/watch.ts";
import { nextRun, type RunEvent } from "./transitions.ts";

/** One attempt at something that must not run twice. */
export interface Attempt {
  record(): RunRecord;
  /** What is known for certain, or null while there is nothing to tell. */
  evidence(): RunStatus | null;
  /** The window for the grant counts from here. */
  accepted(): void;
  grant(token: string, startWithinMs: number): void;
  cancel(): void;
  /** Looks at what a former life of the agent left, and reports. Never starts anything. */
  recover(): void;
  /** Its container, while that may run and may write so much to the disk and no more. */
  writer(): Writer | null;
  /** Something happened to the container. */
  wake(): void;
  /** Settles when nothing is under way. */
  settled(): Promise<void>;
}

export interface AttemptDeps {
  clock: Clock;
  journal: Journal;
  engine: Engine;
  networks: Networks;
  openLog(attemptId: string): LogStream;
  /** New evidence is on disk. */
  onEvidence(status: RunStatus): void;
  signal: AbortSignal;
  log: Log;
}

export const runContainerName = (attemptId: string): string => `svc-r-${attemptId}`;

const usualLookMs = 5_000;
const shortestPauseMs = 50;
const killAfterMs = 10_000;
/** How long a start whose answer was lost is looked for before it counts as unknown. */
const unknownAfterMs = 60_000;
/** What a shell says of a command that it could not start. */
const commandNotStarted = 127;
const cancelledBefore = "It was cancelled before it started.";

export function createAttempt(initial: RunRecord, deps: AttemptDeps): Attempt {
  const { clock, journal, engine, signal } = deps;
  const { attemptId } = initial.offer;
  const name = runContainerName(attemptId);
  const log = deps.log.child({ attemptId });
  let record = initial;
  let acceptedAtMs: number | null = null;
  /** When the grant has run out, on the clock of `acceptedAtMs`. */
  let startByMs = Number.POSITIVE_INFINITY;
  let cancelled = false;
  const wake = createWake(clock);
  let work = Promise.resolve();

  const evidence = (): RunStatus | null => toStatus(record);

  /** Journals the next record, then reports it. False when the event does not apply: then nothing may be done about it. */
  const move = (event: RunEvent): boolean => {
    const next = nextRun(record, event);
    if (next === null) return false;
    journal.saveRun(next);
    log.info({ from: record.state, to: next.state, event: event.kind }, "run moved");
    record = next;
    const status = evidence();
    if (status !== null) deps.onEvidence(status);
    return true;
  };

  /** Null when there is no container, undefined when the engine does not say. */
  const look = async (): Promise<Container | null | undefined> => {
    try {
      return await engine.findContainer(name);
    } catch (cause) {
      log.warn({ reason: String(cause) }, "a run could not be looked at");
      return undefined;
    }
  };

  /** From the grant to the start. Whatever goes wrong before the order to start is certain not to have run. */
  const begin = async (): Promise<void> => {
    const { offer } = record;
    try {
      const network = await deps.networks.ensure(offer.projectId, offer.channel);
      await engine.createContainer(toContainerSpec(offer, network));
    } catch (cause) {
      log.warn({ err: cause }, "run could not be prepared");
      move({ kind: "called-off", message: "The container could not be created." });
      return;
    }
    if (cancelled) return void move({ kind: "called-off", message: cancelledBefore });
    // Control has given up on a start that comes later than this.
    if (signal.aborted || !move({ kind: "starting", lateByMs: clock.bootMs() - startByMs })) return;
    if (record.state !== "start-sent") return;
    try {
      await engine.startContainer(name);
    } catch (cause) {
      if (isEngineTrouble(cause)) return findOut();
      const reason = cause instanceof EngineError ? cause.message.slice(0, 500) : "the engine refused";
      const message = `The command could not be started: ${reason}`;
      move({ kind: "ended", exitCode: commandNotStarted, at: clock.now().toISOString(), message });
      return;
    }
    move({ kind: "started", at: clock.now().toISOString() });
    await follow();
  };

  /** The engine did not say whether it started the container: looks for a while. */
  const findOut = async (): Promise<void> => {
    const untilMs = clock.bootMs() + unknownAfterMs;
    while (!signal.aborted && clock.bootMs() < untilMs) {
      const container = await look();
      if (container?.state === "running" || container?.state === "exited") return attach(container);
      await pause(clock, usualLookMs, signal);
    }
    if (!signal.aborted) move({ kind: "recovered", container: "absent" });
  };

  const attach = (container: Container): Promise<void> => {
    move({ kind: "started", at: container.startedAt ?? clock.now().toISOString() });
    return follow();
  };

  /** From the start to the exit: carries the output, keeps the deadline, ends what was cancelled. */
  const follow = async (): Promise<void> => {
    const stream = deps.openLog(attemptId);
    const output = copyOutput(stream);
    let killAtMs: number | null = null;
    while (!signal.aborted) {
      const container = await look();
      if (container === null) {
        // Somebody removed it: with it went the knowledge how the command ended.
        move({ kind: "recovered", container: "absent" });
        break;
      }
      if (container?.state === "exited") {
        await Promise.race([output, pause(clock, usualLookMs, signal)]);
        // Whom this agent killed was killed for no other reason.
        const dueMs =
          killAtMs === null && record.overflowMb === undefined ? reasonDueMs(container, clock.now().getTime()) : 0;
        if (dueMs > 0) {
          await wake.wait(dueMs, signal);
          continue;
        }
        move(exitOf(container, record, clock.now()));
        break;
      }
      const leftMs = timeLeftMs(container);
      if (leftMs <= 0) move({ kind: "timed-out" });
      if (leftMs <= 0 || cancelled) {
        killAtMs ??= clock.now().getTime() + killAfterMs;
        await engine.killContainer(name, clock.now().getTime() >= killAtMs ? "SIGKILL" : "SIGTERM").catch(() => {});
      }
      const untilKillMs = killAtMs === null ? leftMs : killAtMs - clock.now().getTime();
      const waitMs = Math.min(usualLookMs, Math.max(shortestPauseMs, untilKillMs));
      await wake.wait(waitMs, signal);
    }
    stream.end();
  };

  /** Infinite without a limit. */
  const timeLeftMs = (container: Container | undefined): number => {
    const { timeoutSeconds } = record.offer;
    const startedMs = Date.parse(container?.startedAt ?? record.startedAt);
    if (timeoutSeconds === 0 || Number.isNaN(startedMs)) return Number.POSITIVE_INFINITY;
    return startedMs + timeoutSeconds * 1000 - clock.now().getTime();
  };

  const copyOutput = async (stream: LogStream): Promise<void> => {
    // With a lost offer it is lost, too, what must not be shown.
    if (record.offer.image === undefined) return;
    try {
      const lines = createSafeLines(record.offer.redact);
      const write = (safe: readonly string[]): void => {
        if (safe.length > 0) stream.write(`${safe.join("\n")}\n`);
      };
      await engine.followLog(name, (chunk) => write(lines.push(chunk)), signal);
      // An agent that stops leaves the half of a line to the next one, which reads from the beginning.
      if (!signal.aborted) write(lines.end());
    } catch (cause) {
      log.warn({ err: cause }, "the output of a run could not be read");
    }
  };

  const lookBack = async (): Promise<void> => {
    if (record.state === "offer" || record.state === "intent") {
      // The tombstone is on disk before the half-made container goes.
      move({ kind: "recovered", container: "absent" });
      await engine.removeContainer(name);
      return;
    }
    if (record.state !== "start-sent" && record.state !== "indeterminate") return;
    const container = await engine.findContainer(name);
    if (container?.state === "running" || container?.state === "exited") return attach(container);
    move({ kind: "recovered", container: container?.state === "created" ? "created" : "absent" });
  };

  /** One piece of work at a time; a failure of it is ours, and the attempt comes to an end all the same. */
  const undertake = (effect: () => Promise<void>): void => {
    work = work.then(effect).catch((cause: unknown) => {
      log.error({ err: cause }, "run failed unexpectedly");
      return makeUp();
    });
  };

  /** Goes on where work broke off because something could not be written, for as long as that takes. */
  const makeUp = async (): Promise<void> => {
    while (!signal.aborted) {
      await pause(clock, usualLookMs, signal);
      if (signal.aborted) return;
      try {
        // The order to start is written before it is given.
        if (record.state === "intent") move({ kind: "called-off", message: "The node could not record its start." });
        else if (record.state === "start-sent") await lookBack();
        return;
      } catch (cause) {
        log.warn({ reason: String(cause) }, "a run is still held up");
      }
    }
  };

  return {
    record: () => record,
    evidence,
    wake: wake.signal,
    writer() {
      const storageMb = record.offer.resources?.storageMb ?? 0;
      if (record.state !== "start-sent" || storageMb === 0) return null;
      return {
        name,
        storageMb,
        async end() {
          move({ kind: "overflowed", storageMb });
          await engine.killContainer(name, "SIGKILL");
        },
      };
    },
    settled: () => work,
    accepted() {
      acceptedAtMs = clock.bootMs();
    },
    grant(token, startWithinMs) {
      if (acceptedAtMs === null) {
        // Never accepted in this life, so whether an earlier one started it is not known here.
        move({ kind: "granted-unknown", token });
        return;
      }
      startByMs = acceptedAtMs + startWithinMs;
      const lateByMs = clock.bootMs() - startByMs;
      if (move({ kind: "granted", token, lateByMs }) && record.state === "intent") undertake(begin);
    },
    cancel() {
      cancelled = true;
      // Once granted, the one who starts it looks at the flag before and after.
      if (record.state === "offer") move({ kind: "called-off", message: cancelledBefore });
      wake.signal();
    },
    recover: () => undertake(() => untilEngineAnswers(clock, lookBack, signal)),
  };
}

function toStatus({ offer, state, ...rest }: RunRecord): RunStatus | null {
  const phases = {
    offer: null,
    intent: null,
    // Not before the engine has confirmed it.
    "start-sent": rest.startedAt === "" ? null : RunPhase.STARTED,
    exit: RunPhase.EXITED,
    tombstone: RunPhase.NOT_STARTED,
    indeterminate: RunPhase.INDETERMINATE,
  } as const;
  const phase = phases[state];
  return phase === null ? null : create(RunStatusSchema, { attemptId: offer.attemptId, phase, ...rest });
}

const outOfMemory: Readonly<Record<OomScope, string>> = {
  limit: "The command was killed because it used more memory than the plan allows.",
  machine:
    "The command was killed for want of memory on the platform's machine. Deploy again, or tell the administrator.",
  unknown: "The command was killed for want of memory.",
};

function exitOf(
  { exitCode, oomKilled, oomScope, finishedAt }: Container,
  { overflowMb }: RunRecord,
  now: Date,
): RunEvent {
  const message =
    overflowMb !== undefined && exitCode !== 0
      ? `The command was ended because it wrote more than the ${overflowMb} MB of disk that the plan allows.`
      : oomKilled
        ? outOfMemory[oomScope]
        : "";
  return { kind: "ended", exitCode, at: finishedAt ?? now.toISOString(), message };
}

function toContainerSpec(offer: RunOffer, network: ProjectNetwork): ContainerSpec {
  const { attemptId, ownerKind, ownerId, projectId, channel, resources } = offer;
  return {
    name: runContainerName(attemptId),
    kind: "run",
    image: offer.image?.reference ?? "",
    command: ["/bin/sh", "-c", offer.command],
    env: offer.env,
    labels: {
      ...{ [labels.placement]: attemptId, [labels.ownerKind]: ownerKind, [labels.owner]: ownerId },
      ...{ [labels.project]: projectId, [labels.channel]: channel },
    },
    memoryMb: resources?.memoryMb ?? 0,
    cpuMillicores: resources?.cpuMillicores ?? 0,
    pidsLimit: resources?.pidsLimit ?? 0,
    storageMb: resources?.storageMb ?? 0,
    reserved: reservedOf(resources),
    network: network.name,
    databaseAt: offer.databaseId === "" ? null : network.address,
    publish: null,
  };
}

/** Repeats a first look until the engine is there: at the boot of a machine it may come up after the agent. */
async function untilEngineAnswers(clock: Clock, work: () => Promise<void>, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    try {
      return await work();
    } catch (cause) {
      if (!isEngineTrouble(cause)) throw cause;
      await pause(clock, usualLookMs, signal);
    }
  }
}
