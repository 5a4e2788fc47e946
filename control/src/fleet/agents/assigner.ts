import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import {
  type Applied,
  Assign_Kind,
  AssignSchema,
  Desired,
  type Placement,
  PlacementSchema,
  ResourcesSchema,
  type SessionResponseSchema,
} from "@svc/proto/node";
import type { Clock, Timer } from "@svc/runtime/clock";
import type { Limiter } from "@svc/runtime/limiter";
import type { Random } from "@svc/runtime/random";
import { backOffMs } from "@svc/runtime/retry";
import { pause } from "@svc/runtime/sleep";
import { createWake } from "@svc/runtime/wake";
import type { Log } from "../../log.ts";
import type { Metrics } from "../../metrics/metrics.ts";
import {
  answered,
  type Change,
  type DesiredPlacement,
  emptyOutbox,
  isMassStop,
  pendingChanges,
  type ReportedByAgent,
  tell,
} from "../sessions/outbox.ts";
import type { LinkTimings } from "../sessions/timings.ts";
import { ownerOnWire, PlacementUnreadable } from "../tasks/assignment.ts";

export interface AssignerOptions {
  clock: Clock;
  random: Random;
  nodeId: string;
  clusterEpoch: number;
  /** The newest leader epoch that is known. */
  leaderEpoch: () => bigint;
  /** Whether every edge dials entrances. */
  edgesKnowEntrances: () => boolean;
  /** What is placed on the node, and the etcd revision at which that was so. */
  desired: () => { entries: ReadonlyMap<string, DesiredPlacement>; revision: bigint };
  reported: () => ReportedByAgent;
  /** The whole spec with its secrets; null when the task is gone. Throws `PlacementUnreadable`. */
  loadPlacement: (placementId: string) => Promise<Placement | null>;
  /** Shared by all streams: how many load specs at once. */
  limit: Limiter;
  send: (message: MessageInitShape<typeof SessionResponseSchema>, sizeBytes: number) => void;
  timings: Pick<LinkTimings, "applyTimeoutMs" | "resyncMinMs" | "resyncMaxMs">;
  metrics?: Pick<Metrics, "assignmentSeconds"> | undefined;
  log: Log;
  signal: AbortSignal;
  /** An assignment was not answered in time. */
  onSilence: () => void;
}

/** Tells one agent what it is to run: everything first, then what changes, one unanswered message at a time. */
export interface Assigner {
  /** Something about the node's placements changed. */
  wake(): void;
  answered(applied: Applied): void;
  /** Resolves once the agent has answered all that there was to tell, for the first time; never if the stream ends before. */
  readonly told: Promise<void>;
  /** Resolves when `signal` aborts. */
  run(): Promise<void>;
}

const partBytes = 256 * 1024;
/** Specs of one agent that are loaded together: those that turn out not to fit are loaded again. */
const specsAtOnce = 32;
const removeBytes = 48;
const idleMs = 60_000;
const retryBackOff = { firstMs: 200, maxMs: 5_000 };
const desiredOf = { running: Desired.RUNNING, stopped: Desired.STOPPED, removed: Desired.REMOVED } as const;

export function createAssigner(options: AssignerOptions): Assigner {
  const { clock, random, nodeId, timings, log, signal } = options;
  const wake = createWake(clock);
  const told = Promise.withResolvers<void>();
  let outbox = emptyOutbox;
  let silence: Timer | null = null;
  let sentAtMs = 0;
  let resyncs = 0;

  /** The spec of a placement; null when there is none that can be read, which must not cost the node its others. */
  async function loadSpec(placementId: string): Promise<Placement | null> {
    try {
      return await options.loadPlacement(placementId);
    } catch (error) {
      // Anything else, as of the database, is everybody's, and ends by itself.
      if (!(error instanceof PlacementUnreadable)) throw error;
      log.error({ err: error, nodeId, placementId }, "a placement cannot be read");
      return null;
    }
  }

  /** The message of one change; null when there is nothing to say of it: the agent goes on with what it has. */
  async function placementOf({ value }: DesiredPlacement): Promise<Placement | null> {
    const { placementId, epoch, desired, drainSeconds, specHash, projectId, channel } = value;
    const loaded = await loadSpec(placementId);
    if (loaded === null && desired === "running") {
      log.error({ nodeId, placementId }, "a placement has no spec: it is not assigned");
      return null;
    }
    // To stop or remove something the agent needs no spec.
    const base = loaded ?? create(PlacementSchema, { specHash, projectId, ...ownerOnWire(value), channel });
    // Limits are those that the leader has found room for on the node, not those that are wanted.
    const { memoryMb, cpuMillicores, pidsLimit, storageMb, reservedMemoryMb = 0, reservedCpuMillicores = 0 } = value;
    const resources = create(ResourcesSchema, {
      ...{ memoryMb, cpuMillicores, pidsLimit, storageMb, reservedMemoryMb, reservedCpuMillicores },
      generation: BigInt(value.limitsGeneration),
    });
    return { ...base, placementId, epoch: BigInt(epoch), desired: desiredOf[desired], drainSeconds, resources };
  }

  /** As many of the changes, in order, as fit in one message. */
  async function load(changes: readonly Change[]) {
    const upserts: Placement[] = [];
    const removes: { placementId: string; epoch: bigint }[] = [];
    let bytes = 0;
    let count = 0;
    const included = () => ({ upserts, removes, included: changes.slice(0, count) });
    for (let at = 0; at < changes.length && !signal.aborted; at += specsAtOnce) {
      const next = changes.slice(at, at + specsAtOnce);
      const placements = await Promise.all(
        next.map((change) => ("remove" in change ? null : placementOf(change.upsert))),
      );
      for (const [index, change] of next.entries()) {
        if ("remove" in change) {
          if (bytes > partBytes) return included();
          removes.push({ placementId: change.remove.placementId, epoch: BigInt(change.remove.epoch) });
          bytes += removeBytes;
        } else {
          const placement = placements[index] ?? null;
          const size = placement === null ? 0 : toBinary(PlacementSchema, placement).byteLength;
          if (bytes > 0 && bytes + size > partBytes) return included();
          if (placement !== null) upserts.push(placement);
          bytes += size;
        }
        count += 1;
      }
    }
    return included();
  }

  async function sendNext(): Promise<void> {
    const { entries, revision } = options.desired();
    const changes = pendingChanges(outbox, entries);
    if (outbox.waitsFor !== null) return;
    if (changes.length === 0 && outbox.position !== null) return told.resolve();
    const { upserts, removes, included } = await options.limit(() => load(changes));
    if (signal.aborted) return;
    const mass = isMassStop(outbox, included, options.reported());
    const { outbox: next, head } = tell(outbox, included, { revision, last: included.length === changes.length });
    outbox = next;
    const leaderEpoch = options.leaderEpoch();
    const assign = create(AssignSchema, {
      kind: head.kind === "complete" ? Assign_Kind.COMPLETE : Assign_Kind.DELTA,
      clusterEpoch: BigInt(options.clusterEpoch),
      leaderEpoch,
      appliesTo: head.appliesTo,
      resultsIn: head.resultsIn,
      upserts,
      removes,
      bulkToken: mass ? `${leaderEpoch}/${head.resultsIn}` : "",
      edgesKnowEntrances: options.edgesKnowEntrances(),
    });
    silence = clock.after(timings.applyTimeoutMs, options.onSilence);
    sentAtMs = clock.steadyMs();
    options.send({ message: { case: "assign", value: assign } }, toBinary(AssignSchema, assign).byteLength);
    log.info(
      { nodeId, kind: head.kind, resultsIn: head.resultsIn, upserts: upserts.length, removes: removes.length, mass },
      "assignment sent",
    );
  }

  /** An agent that keeps asking to begin again is answered more and more slowly. */
  const resyncPauseMs = () => Math.min(timings.resyncMinMs * 2 ** (resyncs - 1), timings.resyncMaxMs);

  signal.addEventListener("abort", () => silence?.[Symbol.dispose]());

  return {
    wake: wake.signal,
    answered({ resultsIn, resync, rejects }) {
      for (const { placementId, reason } of rejects) {
        log.warn({ nodeId, placementId, reason }, "the agent rejects a placement");
      }
      const before = outbox;
      outbox = answered(outbox, { resultsIn, resync });
      if (outbox === before) return;
      options.metrics?.assignmentSeconds.observe((clock.steadyMs() - sentAtMs) / 1000);
      silence?.[Symbol.dispose]();
      resyncs = resync ? resyncs + 1 : 0;
      wake.signal();
    },
    told: told.promise,
    async run() {
      let failures = 0;
      while (!signal.aborted) {
        try {
          if (outbox.position === null && resyncs > 0) await pause(clock, resyncPauseMs(), signal);
          if (!signal.aborted) await sendNext();
          failures = 0;
          await wake.wait(idleMs, signal);
        } catch (error) {
          failures += 1;
          log.warn({ err: error, nodeId, failures }, "an assignment could not be prepared yet");
          await pause(clock, backOffMs(failures, retryBackOff, random.next()), signal);
        }
      }
    },
  };
}
