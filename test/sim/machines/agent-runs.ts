import { create } from "@bufbuild/protobuf";
import type { RunRecord } from "@svc/agent/journal/records";
import type { Gate } from "@svc/agent/runs/gate";
import { isFinal, type RunEvent } from "@svc/agent/runs/transitions";
import {
  type RunGrant,
  type RunOffer,
  RunOfferSchema,
  RunPhase,
  type RunStatus,
  RunStatusSchema,
} from "@svc/proto/node";
import { createBell, pause, type Scope, type Work, wait } from "../kernel/kernel.ts";
import type { AgentParts } from "./agent.ts";
import { type Container, EngineError, isEngineTrouble } from "./docker.ts";
import { DiskFull } from "./journal.ts";

const lookEveryMs = 5_000;
const killAfterMs = 10_000;
const unknownAfterMs = 60_000;
const resendEveryMs = 5_000;

export const runContainerName = (attemptId: string): string => `svc-r-${attemptId}`;

/** Work that must not run twice: mirrors `agent/src/runs/{runs,attempt}.ts`. */
export class AgentRuns {
  private readonly attempts = new Map<string, Attempt>();
  private readonly preparing = new Map<string, Scope>();
  private send: ((kind: "runAccept" | "runStatus", value: unknown) => void) | null = null;

  readonly parts: AgentParts;
  readonly scope: Scope;

  constructor(parts: AgentParts, scope: Scope) {
    this.parts = parts;
    this.scope = scope;
    for (const record of parts.journal.state.runs.values()) this.enter(record).recover();
    const resend = () => {
      for (const attempt of this.attempts.values()) {
        const evidence = isFinal(attempt.record.state) ? attempt.evidence() : null;
        if (evidence !== null) this.tell(evidence);
      }
      scope.after(resendEveryMs, "resend", resend);
    };
    scope.after(resendEveryMs, "resend", resend);
  }

  tell(status: RunStatus): void {
    this.send?.("runStatus", status);
  }

  private accept(attemptId: string, refusedBecause = ""): void {
    if (refusedBecause === "") this.parts.world.checks.onRunAccept(this.parts.machineId, attemptId);
    this.send?.("runAccept", { attemptId, refusedBecause });
  }

  private enter(record: RunRecord): Attempt {
    const attempt = new Attempt(this, record);
    this.attempts.set(record.offer.attemptId, attempt);
    return attempt;
  }

  private find(attemptId: string): Attempt {
    return this.attempts.get(attemptId) ?? this.enter(offered(create(RunOfferSchema, { attemptId })));
  }

  open(send: (kind: "runAccept" | "runStatus", value: unknown) => void): void {
    this.send = send;
    for (const [id, attempt] of this.attempts) if (attempt.record.state === "offer") this.accept(id);
  }

  close(): void {
    this.send = null;
  }

  offer(offer: RunOffer): void {
    const { attemptId } = offer;
    const known = this.attempts.get(attemptId);
    if (known === undefined) {
      if (!this.preparing.has(attemptId)) this.prepare(offer);
      return;
    }
    if (known.record.state === "offer") {
      known.accepted();
      this.accept(attemptId);
      return;
    }
    const evidence = known.evidence();
    if (evidence !== null) this.tell(evidence);
  }

  private prepare(offer: RunOffer): void {
    const { attemptId } = offer;
    const scope = this.scope.child();
    this.preparing.set(attemptId, scope);
    scope.after(this.parts.process.random.between(20, 1_500), "image ready", () => {
      this.preparing.delete(attemptId);
      const record = offered(offer);
      try {
        this.parts.journal.commit((state) => void state.runs.set(attemptId, record));
      } catch (error) {
        if (!(error instanceof DiskFull)) throw error;
        return this.accept(attemptId, "The node could not prepare the image.");
      }
      this.enter(record).accepted();
      this.accept(attemptId);
    });
  }

  grant({ attemptId, token, startWithinMs }: RunGrant): void {
    this.find(attemptId).grant(token, startWithinMs);
  }

  cancel(attemptId: string): void {
    this.preparing.get(attemptId)?.end();
    this.preparing.delete(attemptId);
    this.find(attemptId).cancel();
  }

  acknowledge(attemptId: string): void {
    const state = this.attempts.get(attemptId)?.record.state;
    if (state === undefined || !(isFinal(state) || state === "offer")) return;
    // The record goes only if the disk lets it; until then it is acknowledged again.
    this.parts.journal.commit((journal) => void journal.runs.delete(attemptId));
    this.attempts.delete(attemptId);
    this.scope.spawn(this.tidy(attemptId), () => {});
  }

  private *tidy(attemptId: string): Work {
    yield* wait(this.parts.docker.remove(runContainerName(attemptId)));
  }

  statuses(): RunStatus[] {
    return [...this.attempts.values()].map((attempt) => attempt.evidence()).filter((status) => status !== null);
  }

  noteContainer(name: string): void {
    for (const [id, attempt] of this.attempts) if (runContainerName(id) === name) attempt.wake();
  }

  *survey(containers: readonly Container[]): Work {
    for (const { kind, id, name, state } of containers) {
      if (kind !== "run") continue;
      const attempt = this.attempts.get(id);
      if (attempt === undefined && state !== "running") yield* wait(this.parts.docker.remove(name));
      if (attempt?.record.state === "indeterminate") attempt.recover();
    }
  }

  *clear(): Work {
    for (const container of yield* wait(this.parts.docker.list())) {
      yield* wait(this.parts.docker.remove(container.name));
    }
  }
}

const offered = (offer: RunOffer): RunRecord => ({
  offer,
  state: "offer",
  token: "",
  exitCode: 0,
  timedOut: false,
  message: "",
  startedAt: "",
  finishedAt: "",
});

class Attempt {
  private acceptedAtMs: number | null = null;
  private startWithinMs = 0;
  private isCancelled = false;
  private readonly bell = createBell();
  private isBusy = false;
  private readonly waiting: (() => Work)[] = [];
  private isUnbornEvidence = false;
  private readonly scope: Scope;

  private readonly runs: AgentRuns;
  record: RunRecord;

  constructor(runs: AgentRuns, record: RunRecord) {
    this.runs = runs;
    this.record = record;
    this.scope = runs.scope.child();
  }

  private get id(): string {
    return this.record.offer.attemptId;
  }

  private get now(): string {
    return this.runs.parts.process.now().toISOString();
  }

  evidence(): RunStatus | null {
    if (this.isUnbornEvidence && this.record.state === "offer") {
      return create(RunStatusSchema, { attemptId: this.id, phase: RunPhase.NOT_STARTED });
    }
    const { state, startedAt, finishedAt, token, exitCode, timedOut, message } = this.record;
    const phases = {
      offer: null,
      intent: null,
      "start-sent": startedAt === "" ? null : RunPhase.STARTED,
      exit: RunPhase.EXITED,
      tombstone: RunPhase.NOT_STARTED,
      indeterminate: RunPhase.INDETERMINATE,
    } as const;
    const phase = phases[state];
    if (phase === null) return null;
    return create(RunStatusSchema, {
      ...{ attemptId: this.id, phase, token, exitCode, timedOut, message, startedAt, finishedAt },
    });
  }

  private move(event: RunEvent): boolean {
    const { parts } = this.runs;
    const next = parts.cores.nextRun(this.record, event);
    if (next === null) return false;
    if (parts.cores.shell.journalsRun(event.kind)) parts.journal.commit((state) => void state.runs.set(this.id, next));
    parts.world.checks.onRunMove(parts.machineId, this.id, this.record.state, next.state);
    this.record = next;
    const status = this.evidence();
    if (status !== null) this.runs.tell(status);
    return true;
  }

  accepted(): void {
    this.acceptedAtMs = this.runs.parts.process.bootMs();
  }

  grant(token: string, startWithinMs: number): void {
    if (this.acceptedAtMs === null) {
      const isForgetful = this.runs.parts.cores.shell.saysNotStartedWithoutTombstone;
      const isRemembered = this.record.offer.projectId !== "" && !isForgetful;
      return void this.move(
        isRemembered ? { kind: "recovered", container: "absent" } : { kind: "granted-unknown", token },
      );
    }
    const lateByMs = this.runs.parts.process.bootMs() - this.acceptedAtMs - startWithinMs;
    this.startWithinMs = startWithinMs;
    if (this.move({ kind: "granted", token, lateByMs }) && this.record.state === "intent") {
      this.undertake(() => this.begin());
    }
  }

  cancel(): void {
    this.isCancelled = true;
    if (this.record.state === "offer") this.move({ kind: "called-off", message: "cancelled" });
    this.bell.ring();
  }

  recover(): void {
    this.undertake(() => this.untilEngineAnswers());
  }

  wake(): void {
    this.bell.ring();
  }

  /** One piece of work at a time; a failure of it is ours. */
  private undertake(work: () => Work): void {
    this.waiting.push(work);
    if (!this.isBusy) this.goOn();
  }

  private goOn(): void {
    const next = this.waiting.shift();
    this.isBusy = next !== undefined;
    if (next === undefined) return;
    this.scope.spawn(
      next(),
      (error) => {
        if (!(error instanceof EngineError || error instanceof DiskFull)) throw error;
        this.runs.parts.world.kernel.note(() => `${this.runs.parts.machineId}: run ${this.id} failed: ${error}`);
        // What could not be written down is found out again a little later.
        this.scope.after(lookEveryMs, "run again", () => this.undertake(() => this.conclude()));
        this.goOn();
      },
      () => this.goOn(),
    );
  }

  private *look(): Work<Container | null | undefined> {
    try {
      return yield* wait(this.runs.parts.docker.find(runContainerName(this.id)));
    } catch (error) {
      if (error instanceof EngineError) return undefined;
      throw error;
    }
  }

  private *begin(): Work {
    const { parts } = this.runs;
    const { docker, process } = parts;
    const name = runContainerName(this.id);
    try {
      yield* wait(
        docker.create({
          name,
          kind: "run",
          id: this.id,
          projectId: this.record.offer.projectId,
          epoch: 0n,
          specHash: "",
          port: 0,
          takesMs: process.random.between(200, 6_000),
        }),
      );
    } catch (error) {
      if (!(error instanceof EngineError)) throw error;
      return void this.move({ kind: "called-off", message: "The container could not be created." });
    }
    if (this.isCancelled) return void this.move({ kind: "called-off", message: "cancelled" });
    // Preparing it may have taken long: the window is looked at again, at the last moment.
    const lateByMs = process.bootMs() - (this.acceptedAtMs ?? 0) - this.startWithinMs;
    const gate = { gate: name, startedIn: parts.bootId };
    if (!this.move({ kind: "starting", lateByMs, ...gate }) || this.record.state !== "start-sent") return;
    try {
      yield* wait(docker.start(name));
    } catch (error) {
      if (!(error instanceof EngineError)) throw error;
      if (isEngineTrouble(error) || docker.shutGate(name) !== "shut") return yield* this.settle(false);
      return void this.move({ kind: "ended", exitCode: 127, at: this.now, message: error.message });
    }
    this.move({ kind: "started", at: this.now });
    yield* this.follow();
  }

  private findGate(): Gate {
    const { gate, startedAt } = this.record;
    return gate === undefined || startedAt !== "" ? "none" : this.runs.parts.docker.readGate(gate);
  }

  private *settle(isPatient: boolean): Work {
    const { process, docker, bootId, cores } = this.runs.parts;
    let untilMs = process.bootMs() + unknownAfterMs;
    const isSameBoot = this.record.startedIn === bootId;
    for (;;) {
      let gate = this.findGate();
      let container: Container | null | undefined;
      if (cores.judge({ gate, container: undefined, isSameBoot }) === "shut")
        gate = docker.shutGate(runContainerName(this.id));
      if (gate !== "shut") {
        container = yield* this.look();
        if (container === undefined && isPatient) untilMs = process.bootMs() + unknownAfterMs;
      }
      const found = container === null ? "absent" : container?.state;
      const verdict = cores.judge({ gate, container: found, isSameBoot });
      if (verdict === "never") return void this.move({ kind: "held-back", message: "" });
      if (verdict === "runs") return yield* this.attach(container);
      if (verdict === "unknown" || (verdict === "wait" && process.bootMs() >= untilMs)) {
        const left = found === "created" ? "created" : "absent";
        return void this.move({ kind: "recovered", container: left, ran: gate === "claimed" });
      }
      yield* wait(pause(lookEveryMs));
    }
  }

  private *attach(container: Container | null | undefined): Work {
    this.move({ kind: "started", at: container?.startedAt ?? this.now });
    yield* this.follow();
  }

  private *follow(): Work {
    const { docker, process } = this.runs.parts;
    const name = runContainerName(this.id);
    let killAtMs: number | null = null;
    for (;;) {
      const container = yield* this.look();
      if (container === null) {
        this.move({ kind: "recovered", container: "absent" });
        return;
      }
      if (container?.state === "exited") {
        const { exitCode, finishedAt } = container;
        this.move({ kind: "ended", exitCode, at: finishedAt ?? this.now, message: "" });
        return;
      }
      const startedMs = Date.parse(container?.startedAt ?? this.record.startedAt);
      const leftMs = Number.isNaN(startedMs)
        ? Number.POSITIVE_INFINITY
        : startedMs + this.record.offer.timeoutSeconds * 1_000 - process.wallMs();
      if (leftMs <= 0) this.move({ kind: "timed-out" });
      if (leftMs <= 0 || this.isCancelled) {
        killAtMs ??= process.wallMs() + killAfterMs;
        try {
          yield* wait(process.wallMs() >= killAtMs ? docker.kill(name) : docker.stop(name));
        } catch (error) {
          if (!(error instanceof EngineError)) throw error;
        }
      }
      const untilKillMs = killAtMs === null ? leftMs : killAtMs - process.wallMs();
      yield* wait(this.bell.wait(Math.min(lookEveryMs, Math.max(50, untilKillMs))));
    }
  }

  private *untilEngineAnswers(): Work {
    for (;;) {
      try {
        return yield* this.lookBack();
      } catch (error) {
        if (!isEngineTrouble(error)) throw error;
        yield* wait(pause(lookEveryMs));
      }
    }
  }

  /** After work that broke off: nothing of an `intent` has reached the engine's start, the rest is for the engine to say. */
  private *conclude(): Work {
    if (this.record.state === "intent")
      return void this.move({ kind: "called-off", message: "The node's disk was full." });
    yield* this.untilEngineAnswers();
  }

  private *lookBack(): Work {
    const { docker, cores } = this.runs.parts;
    const name = runContainerName(this.id);
    const { state } = this.record;
    if (state === "offer" || state === "intent") {
      if (cores.shell.saysNotStartedWithoutTombstone) {
        yield* wait(docker.remove(name));
        this.isUnbornEvidence = true;
        const status = this.evidence();
        if (status !== null) this.runs.tell(status);
        return;
      }
      this.move({ kind: "recovered", container: "absent" });
      yield* wait(docker.remove(name));
      return;
    }
    if (state === "start-sent") return yield* this.settle(true);
    if (state !== "indeterminate") return;
    const container = yield* wait(docker.find(name));
    if (container?.state === "running" || container?.state === "exited") yield* this.attach(container);
  }
}
