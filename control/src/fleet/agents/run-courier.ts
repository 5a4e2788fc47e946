import { type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import {
  type RunAccept,
  type RunOffer,
  RunOfferSchema,
  type RunStatus,
  type SessionResponseSchema,
} from "@svc/proto/node";
import type { Clock } from "@svc/runtime/clock";
import { createLimiter, LimiterFull } from "@svc/runtime/limiter";
import type { Random } from "@svc/runtime/random";
import { backOffMs } from "@svc/runtime/retry";
import { pause } from "@svc/runtime/sleep";
import type { Log } from "../../log.ts";
import type { Etcd } from "../../stores/etcd/index.ts";
import type { Versioned } from "../cluster/entries.ts";
import { keys, type RunValue, runValue } from "../cluster/keys.ts";
import { type SessionKey, SessionLost } from "../sessions/session-key.ts";
import { acceptRun, type RunAnswer, recordRun, runMessage } from "./run-steps.ts";

type Message = MessageInitShape<typeof SessionResponseSchema>;

export interface RunCourierOptions {
  clock: Clock;
  random: Random;
  etcd: Etcd;
  key: SessionKey;
  nodeId: string;
  /** Of the machine at the other end. */
  bootId: string;
  loadRun: (attemptId: string) => Promise<RunOffer | null>;
  send: (message: Message, sizeBytes?: number) => void;
  /** How long the agent may take from its own acceptance to the start. */
  startWithinMs: number;
  log: Log;
  signal: AbortSignal;
  /** The session is no longer this one, or the agent asks for more than it may. */
  onLost: (error: unknown) => void;
}

/** Carries offers and grants to one agent, and its answers and evidence to etcd. */
export interface RunCourier {
  /** Says what is to be said of the node's runs, given their present values. */
  announce(runs: ReadonlyMap<string, Versioned<RunValue>>): void;
  accepted(message: RunAccept): void;
  reported(message: RunStatus): void;
}

const waitingSteps = 1_000;
const conflictAttempts = 10;
const announceAttempts = 5;
const announceAgainMs = 5_000;
const retryBackOff = { firstMs: 200, maxMs: 5_000 };

/**
 * Everything about runs goes through one queue, and every step reads the key anew before it acts.
 * So a grant is sent only while the key says "granted" and no evidence of this agent is on its way
 * into it: an attempt that the agent was allowed to forget is never offered or granted again.
 */
export function createRunCourier(options: RunCourierOptions): RunCourier {
  const { clock, random, etcd, key, nodeId, send, log, signal } = options;
  const inOrder = createLimiter({ total: 1 }, { total: waitingSteps });
  /** What was last said of each attempt in this session: saying it again would be harmless but useless. */
  const said = new Map<string, string>();

  async function read(attemptId: string): Promise<{ run: RunValue; modRevision: bigint } | null> {
    const entry = await etcd.get(keys.run(nodeId, attemptId));
    return entry === null ? null : { run: runValue.parse(JSON.parse(entry.value)), modRevision: entry.modRevision };
  }

  async function say(attemptId: string): Promise<void> {
    const found = await read(attemptId);
    const message = found === null ? null : runMessage(found.run, options.bootId);
    if (found === null || message === null) {
      said.delete(attemptId);
      return;
    }
    if (said.get(attemptId) === message) return;
    if (message === "cancel") {
      send({ message: { case: "runCancel", value: { attemptId } } });
    } else if (message === "grant") {
      const { token } = found.run;
      const { startWithinMs } = options;
      send({ message: { case: "runGrant", value: { attemptId, token: token ?? "", startWithinMs } } });
    } else {
      const offer = await options.loadRun(attemptId);
      if (offer === null) {
        log.warn({ nodeId, attemptId }, "an offered run has nothing to run");
        return;
      }
      send({ message: { case: "runOffer", value: offer } }, toBinary(RunOfferSchema, offer).byteLength);
    }
    said.set(attemptId, message);
    log.info({ nodeId, attemptId, message }, "run message sent");
  }

  async function answer(attemptId: string, decide: (run: RunValue | null) => RunAnswer): Promise<void> {
    for (let attempt = 1; attempt <= conflictAttempts; attempt += 1) {
      const found = await read(attemptId);
      const { write, ack } = decide(found?.run ?? null);
      if (write !== null && found !== null) {
        const at = keys.run(nodeId, attemptId);
        const { succeeded } = await key.write(
          [{ put: { key: at, value: JSON.stringify(write) } }],
          [{ key: at, compare: "modRevision", value: found.modRevision }],
        );
        if (!succeeded) continue;
        log.info({ nodeId, attemptId, from: found.run.state, to: write.state }, "run moved");
      }
      if (ack) {
        said.delete(attemptId);
        send({ message: { case: "runAck", value: { attemptId } } });
      }
      return;
    }
    throw new Error(`run ${attemptId} keeps changing under its courier`);
  }

  /**
   * Queues a step and repeats it until it went through, or the stream ended. What the agent said must
   * be stored; an announcement that fails is put off after a while, or an offer that cannot be loaded would hold up everything.
   */
  function enqueue(what: "announce" | "accept" | "record", attemptId: string, step: () => Promise<void>): void {
    const attempts = what === "announce" ? announceAttempts : Number.POSITIVE_INFINITY;
    const persist = async () => {
      for (let failures = 1; failures <= attempts && !signal.aborted; failures += 1) {
        try {
          return await step();
        } catch (error) {
          if (error instanceof SessionLost) throw error;
          log.warn({ err: error, nodeId, attemptId, what, failures }, "a step of a run failed and is repeated");
          await pause(clock, backOffMs(failures, retryBackOff, random.next()), signal);
        }
      }
      // Nobody else would say it again; until then the others have their turn.
      if (!signal.aborted) void pause(clock, announceAgainMs, signal).then(() => enqueue(what, attemptId, step));
    };
    if (signal.aborted) return;
    inOrder(persist).catch((error: unknown) => {
      if (error instanceof SessionLost || error instanceof LimiterFull) options.onLost(error);
      else log.error({ err: error, nodeId, attemptId, what }, "a step of a run failed");
    });
  }

  return {
    announce(runs) {
      for (const attemptId of said.keys()) if (!runs.has(attemptId)) said.delete(attemptId);
      for (const [attemptId, { value: run }] of runs) {
        const message = runMessage(run, options.bootId);
        if (message !== null && said.get(attemptId) !== message) enqueue("announce", attemptId, () => say(attemptId));
      }
    },
    accepted: ({ attemptId, refusedBecause }) =>
      enqueue("accept", attemptId, () =>
        answer(attemptId, (run) => acceptRun(run, refusedBecause, clock.now(), options.bootId)),
      ),
    reported: (status) =>
      enqueue("record", status.attemptId, () =>
        answer(status.attemptId, (run) => recordRun(run, status, clock.now(), options.bootId)),
      ),
  };
}
