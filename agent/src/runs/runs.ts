import { create } from "@bufbuild/protobuf";
import {
  type RunAccept,
  RunAcceptSchema,
  type RunGrant,
  type RunOffer,
  RunOfferSchema,
  type RunStatus,
} from "@svc/proto/node";
import { type Clock, every } from "@svc/runtime/clock";
import type { DatabaseTables } from "../databases/table-writer.ts";
import { type Container, type Engine, labels } from "../engine/engine.ts";
import type { Images } from "../images/images.ts";
import type { Journal } from "../journal/journal.ts";
import type { RunRecord } from "../journal/records.ts";
import type { Log } from "../log.ts";
import type { LogStream } from "../logs/log-stream.ts";
import type { Networks } from "../network/networks.ts";
import type { Machine } from "../node/machine.ts";
import { TaskFailure } from "../placements/failure.ts";
import type { Writer } from "../storage/watch.ts";
import { type Attempt, createAttempt, runContainerName } from "./attempt.ts";
import { isFinal } from "./transitions.ts";

/** The work that must not run twice: offered, accepted, granted, then started at most once. */
export type Runs = AsyncDisposable & {
  /** A session is open: evidence and answers go through `send` until `close`. */
  open(send: (message: Outgoing) => void): void;
  close(): void;
  offer(offer: RunOffer): void;
  grant(grant: RunGrant): void;
  cancel(attemptId: string): void;
  /** Control has the evidence: record and container may go. */
  acknowledge(attemptId: string): void;
  /** The evidence of every attempt that has any, for the inventory. */
  statuses(): RunStatus[];
  isNetworkNeeded(projectId: string, channel: string): boolean;
  /** The containers that may write so much to the disk and no more. */
  writers(): Writer[];
  noteContainer(name: string): void;
  survey(containers: readonly Container[]): Promise<void>;
};

export type Outgoing = { case: "runAccept"; value: RunAccept } | { case: "runStatus"; value: RunStatus };

const resendEveryMs = 5_000;
/** Ids become names of containers. */
const idPattern = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/;

/** Goes on with each journaled attempt where it stood. */
export function createRuns(options: {
  clock: Clock;
  journal: Journal;
  engine: Engine;
  images: Images;
  networks: Networks;
  databases: Pick<DatabaseTables, "reachable">;
  machine: Pick<Machine, "bootId" | "gates">;
  openLog(attemptId: string): LogStream;
  /** Whether a placement needs the network too. */
  isNetworkNeeded(projectId: string, channel: string): boolean;
  log: Log;
}): Runs {
  const { clock, journal, engine, images, networks, databases, log } = options;
  const { bootId, gates } = options.machine;
  const attempts = new Map<string, Attempt>();
  /** Offers that are not accepted yet. */
  const preparing = new Map<string, { offer: RunOffer; abort: AbortController }>();
  const closing = new AbortController();
  const { signal } = closing;
  let send: ((message: Outgoing) => void) | null = null;

  const tell = (status: RunStatus): void => send?.({ case: "runStatus", value: status });
  const accept = (attemptId: string, refusedBecause = ""): void =>
    send?.({ case: "runAccept", value: create(RunAcceptSchema, { attemptId, refusedBecause }) });

  const enter = (record: RunRecord): Attempt => {
    const { openLog } = options;
    const deps = { clock, journal, engine, networks, gates, bootId, openLog, onEvidence: tell, signal, log };
    const attempt = createAttempt(record, deps);
    attempts.set(record.offer.attemptId, attempt);
    return attempt;
  };
  /** The attempt, or an empty one: what nobody remembers is answered for like everything else. */
  const find = (attemptId: string): Attempt =>
    attempts.get(attemptId) ?? enter(offered(create(RunOfferSchema, { attemptId })));

  /** Whatever takes long comes first, so that the window between grant and start is not spent on it. */
  const prepare = async (offer: RunOffer): Promise<void> => {
    const { attemptId, projectId, channel, image, databaseId } = offer;
    const abort = new AbortController();
    const within = AbortSignal.any([signal, abort.signal]);
    preparing.set(attemptId, { offer, abort });
    try {
      if (image === undefined) throw new TaskFailure("NODE_TASK_FAILED", "The offer names no image.");
      const needs = { command: false, mayBeLocal: false, projectId, workId: attemptId, onPull: () => {} };
      await images.ensure(image, needs, within);
      if (databaseId !== "") {
        // The way to the database begins at the network, so that has to be there.
        await networks.ensure(projectId, channel);
        await databases.reachable(databaseId, offer, within);
      }
      within.throwIfAborted();
      const record = offered(offer);
      journal.saveRun(record);
      enter(record).accepted();
      accept(attemptId);
    } catch (cause) {
      if (signal.aborted || abort.signal.aborted) return;
      log.warn({ attemptId, reason: String(cause) }, "offer refused");
      accept(attemptId, cause instanceof TaskFailure ? cause.message : "The node could not prepare the image.");
    } finally {
      preparing.delete(attemptId);
    }
  };

  const isNetworkNeeded = (projectId: string, channel: string): boolean =>
    [
      ...[...preparing.values()].map(({ offer }) => offer),
      ...[...attempts.values()]
        .map((attempt) => attempt.record())
        .filter(({ state }) => !isFinal(state))
        .map(({ offer }) => offer),
    ].some((offer) => offer.projectId === projectId && offer.channel === channel);

  const tidy = async ({ attemptId, projectId, channel }: RunOffer): Promise<void> => {
    await engine.removeContainer(runContainerName(attemptId));
    const isNeeded = (): boolean => options.isNetworkNeeded(projectId, channel) || isNetworkNeeded(projectId, channel);
    if (projectId !== "") await networks.release(projectId, channel, isNeeded);
  };

  for (const record of journal.listRuns()) enter(record).recover();
  const resending = every(clock, resendEveryMs, () => {
    for (const attempt of attempts.values()) {
      const evidence = isFinal(attempt.record().state) ? attempt.evidence() : null;
      if (evidence !== null) tell(evidence);
    }
  });

  return {
    isNetworkNeeded,
    open(newSend) {
      send = newSend;
      // Control may have called an offer off while nobody was there to hear it; its answer to this says so.
      for (const [id, attempt] of attempts) if (attempt.record().state === "offer") accept(id);
    },
    close() {
      send = null;
    },
    offer(offer) {
      const { attemptId } = offer;
      if (!idPattern.test(attemptId)) return accept(attemptId, "The offer has a malformed id.");
      const known = attempts.get(attemptId);
      if (known === undefined) {
        if (!preparing.has(attemptId)) void prepare(offer);
        return;
      }
      if (known.record().state === "offer") {
        known.accepted();
        return accept(attemptId);
      }
      const evidence = known.evidence();
      if (evidence !== null) tell(evidence);
    },
    grant({ attemptId, token, startWithinMs }) {
      if (idPattern.test(attemptId)) find(attemptId).grant(token, startWithinMs);
    },
    cancel(attemptId) {
      preparing.get(attemptId)?.abort.abort();
      if (idPattern.test(attemptId)) find(attemptId).cancel();
    },
    acknowledge(attemptId) {
      const { offer, state } = attempts.get(attemptId)?.record() ?? {};
      if (offer === undefined || state === undefined || !(isFinal(state) || state === "offer")) return;
      attempts.delete(attemptId);
      journal.forgetRun(attemptId);
      tidy(offer).catch((cause: unknown) =>
        log.warn({ attemptId, err: cause }, "a finished run was not tidied up yet"),
      );
    },
    statuses: () => [...attempts.values()].map((attempt) => attempt.evidence()).filter((status) => status !== null),
    writers: () => [...attempts.values()].map((attempt) => attempt.writer()).filter((writer) => writer !== null),
    noteContainer(name) {
      for (const [id, attempt] of attempts) if (runContainerName(id) === name) attempt.wake();
    },
    async survey(containers) {
      for (const { labels: marks, name, state } of containers) {
        const id = marks[labels.placement] ?? "";
        if (marks[labels.kind] !== "run" || name !== runContainerName(id)) continue;
        const attempt = attempts.get(id);
        // Acknowledged, or never written down: in both cases nobody waits for it. One that runs is left alone.
        if (attempt === undefined && state !== "running") await engine.removeContainer(name);
        // What was given up as unknown may turn up after all.
        if (attempt?.record().state === "indeterminate") attempt.recover();
      }
      await engine.removeStrayGates((attemptId) => attempts.has(attemptId));
    },
    async [Symbol.asyncDispose]() {
      resending[Symbol.dispose]();
      closing.abort();
      for (const attempt of attempts.values()) attempt.wake();
      await Promise.all([...attempts.values()].map((attempt) => attempt.settled()));
    },
  };
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
