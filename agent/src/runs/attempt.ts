import type { RunOffer, RunStatus } from "@svc/proto/node";
import type { Clock } from "@svc/runtime/clock";
import { pause } from "@svc/runtime/sleep";
import { createWake } from "@svc/runtime/wake";
import { type Container, type ContainerSpec, type Engine, labels } from "../engine/engine.ts";
import { EngineError, isEngineTrouble } from "../engine/errors.ts";
import { reasonDueMs } from "../engine/kill-reason.ts";
import type { Journal } from "../journal/journal.ts";
import type { RunRecord } from "../journal/records.ts";
import type { Log } from "../log.ts";
import type { LogStream } from "../logs/log-stream.ts";
import type { Networks, ProjectNetwork } from "../network/networks.ts";
import { reservedOf } from "../placements/limits.ts";
import type { Writer } from "../storage/watch.ts";
import { type Gate, gatedCommand, judge } from "./gate.ts";
import type { Gates } from "./gate-files.ts";
import { exitOf, refusalOf, toStatus } from "./outcome.ts";
import { carryOutput, type Output } from "./output.ts";
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
  gates: Gates;
  /** Names this boot of the machine. */
  bootId: string;
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
/** How long the engine may take to say what became of a start before it counts as unknown. */
const unknownAfterMs = 60_000;
const cancelledBefore = "It was cancelled before it started.";
const startTookTooLong = "The engine did not start the command in time.";
const restartedBefore = "The node's agent was restarted before the command started.";

export function createAttempt(initial: RunRecord, deps: AttemptDeps): Attempt {
  const { clock, journal, engine, gates, bootId, signal } = deps;
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
    let gate: string;
    if (signal.aborted) return;
    try {
      const network = await deps.networks.ensure(offer.projectId, offer.channel);
      await engine.createContainer(toContainerSpec(offer, network));
      gate = (await engine.findContainer(name))?.gate ?? "";
      await gates.open(gate);
    } catch (cause) {
      log.warn({ err: cause }, "run could not be prepared");
      move({ kind: "called-off", message: "The container could not be created." });
      return;
    }
    if (cancelled) return void move({ kind: "called-off", message: cancelledBefore });
    // Control has given up on a start that comes later than this.
    if (signal.aborted || !move({ kind: "starting", lateByMs: clock.bootMs() - startByMs, gate, startedIn: bootId }))
      return;
    if (record.state !== "start-sent") return;
    try {
      await engine.startContainer(name);
    } catch (cause) {
      if (isEngineTrouble(cause) || (await gates.shut(gate)) !== "shut") return settle(startTookTooLong);
      const reason = cause instanceof EngineError ? cause.message : "the engine refused";
      move(refusalOf(reason, clock.now().toISOString()));
      return;
    }
    move({ kind: "started", at: clock.now().toISOString() });
    await follow();
  };

  /** Of an attempt that is known to have started it is never looked at again. */
  const findGate = (): Gate | Promise<Gate> =>
    record.gate === undefined || record.startedAt !== "" ? "none" : gates.read(record.gate);

  /**
   * The engine was told to start it, and whether it did is not known: the gate decides that, and the engine says the rest.
   *
   * @param notStarted what to say when it was not
   */
  const settle = async (notStarted: string, isPatient = false): Promise<void> => {
    let untilMs = clock.bootMs() + unknownAfterMs;
    const isSameBoot = record.startedIn === bootId;
    while (!signal.aborted) {
      let gate: Gate | undefined;
      let container: Container | null | undefined;
      try {
        gate = await findGate();
        if (judge({ gate, container: undefined, isSameBoot }) === "shut") gate = await gates.shut(record.gate ?? "");
      } catch (cause) {
        log.warn({ reason: String(cause) }, "the gate of a run could not be shut");
      }
      if (gate !== undefined && gate !== "shut") {
        container = await look();
        if (container === undefined && isPatient) untilMs = clock.bootMs() + unknownAfterMs;
      }
      const found = container === null ? "absent" : container?.state;
      const verdict = gate === undefined ? "shut" : judge({ gate, container: found, isSameBoot });
      if (verdict === "never") return void move({ kind: "held-back", message: notStarted });
      if (verdict === "runs") return attach(container);
      if (verdict === "unknown" || (verdict === "wait" && clock.bootMs() >= untilMs)) {
        const left = found === "created" ? "created" : "absent";
        return void move({ kind: "recovered", container: left, ran: gate === "claimed" });
      }
      await pause(clock, usualLookMs, signal);
    }
  };

  const attach = (container: Container | null | undefined): Promise<void> => {
    move({ kind: "started", at: container?.startedAt ?? clock.now().toISOString() });
    return follow();
  };

  /** From the start to the exit: carries the output, keeps the deadline, ends what was cancelled. */
  const follow = async (): Promise<void> => {
    const output = carry();
    let killAtMs: number | null = null;
    while (!signal.aborted) {
      const container = await look();
      if (container === null) {
        // Somebody removed it: with it went the knowledge how the command ended.
        move({ kind: "recovered", container: "absent" });
        break;
      }
      if (container?.state === "exited") {
        // Whom this agent killed was killed for no other reason.
        const dueMs =
          killAtMs === null && record.overflowMb === undefined ? reasonDueMs(container, clock.now().getTime()) : 0;
        if (dueMs > 0) {
          await wake.wait(dueMs, signal);
          continue;
        }
        await output.finish();
        // An agent that stops leaves the end to the next one, which carries the rest of the output as well.
        if (signal.aborted) break;
        const gate = record.gate === undefined ? "none" : await gates.read(record.gate).catch(() => "gone" as const);
        move(exitOf(container, record, gate, clock.now()));
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
    output.stop();
  };

  /** Infinite without a limit. */
  const timeLeftMs = (container: Container | undefined): number => {
    const { timeoutSeconds } = record.offer;
    const startedMs = Date.parse(container?.startedAt ?? record.startedAt);
    if (timeoutSeconds === 0 || Number.isNaN(startedMs)) return Number.POSITIVE_INFINITY;
    return startedMs + timeoutSeconds * 1000 - clock.now().getTime();
  };

  const carry = (): Output => {
    const { image, redact } = record.offer;
    const stream = deps.openLog(attemptId);
    // With a lost offer it is lost, too, what must not be shown.
    return carryOutput({ clock, engine, name, redact: image === undefined ? null : redact, stream, signal, log });
  };

  const lookBack = async (): Promise<void> => {
    if (record.state === "offer" || record.state === "intent") {
      // The tombstone is on disk before the half-made container goes.
      move({ kind: "recovered", container: "absent" });
      await engine.removeContainer(name);
      return;
    }
    if (record.state === "start-sent") return settle(restartedBefore, true);
    if (record.state !== "exit" && record.state !== "indeterminate") return;
    const container = await engine.findContainer(name);
    if (record.state === "exit") {
      // Control may not have all of its output yet.
      if (container !== null) await carry().finish();
      return;
    }
    if (container?.state === "running" || container?.state === "exited") await attach(container);
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
        // An offer is here only as what the life before had accepted.
        else if (record.state === "offer" || record.state === "start-sent") await lookBack();
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
        // Not accepted in this life. What is remembered of an earlier one has not started; of what is not, nobody knows.
        const isRemembered = record.offer.projectId !== "";
        move(isRemembered ? { kind: "recovered", container: "absent" } : { kind: "granted-unknown", token });
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

function toContainerSpec(offer: RunOffer, network: ProjectNetwork): ContainerSpec {
  const { attemptId, ownerKind, ownerId, projectId, channel, resources } = offer;
  return {
    name: runContainerName(attemptId),
    kind: "run",
    image: offer.image?.reference ?? "",
    command: gatedCommand(offer.command),
    hasGate: true,
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
