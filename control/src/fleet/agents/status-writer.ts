import type { PlacementStatus } from "@svc/proto/node";
import type { Clock } from "@svc/runtime/clock";
import type { Random } from "@svc/runtime/random";
import { backOffMs } from "@svc/runtime/retry";
import { pause } from "@svc/runtime/sleep";
import { createWake } from "@svc/runtime/wake";
import type { Log } from "../../log.ts";
import type { Metrics } from "../../metrics/metrics.ts";
import type { Etcd, Guard, Op } from "../../stores/etcd/index.ts";
import { keyParts, keys, type ObservationValue, observationValue } from "../cluster/keys.ts";
import type { DesiredPlacement, ReportedByAgent } from "../sessions/outbox.ts";
import { type SessionKey, SessionLost } from "../sessions/session-key.ts";
import { rulesOf } from "../tasks/kinds/index.ts";
import { isActive, nextObservation } from "./apply-status.ts";

export interface StatusWriterOptions {
  clock: Clock;
  random: Random;
  etcd: Etcd;
  key: SessionKey;
  nodeId: string;
  /** The node's own address. */
  address: string;
  /** What is placed on the node now. */
  placements: () => ReadonlyMap<string, DesiredPlacement>;
  windowMs: number;
  log: Log;
  /** Called once a batch is stored (or found to change nothing). */
  ack: (batchSeq: bigint) => void;
  metrics?: Pick<Metrics, "statusTransactions" | "statusOperations" | "statusConflicts"> | undefined;
  /** Ends the writing. */
  signal: AbortSignal;
}

/** Turns an agent's reports into observations in etcd: the newest of each placement, a few transactions at a time. */
export interface StatusWriter {
  /** False when more is reported than any node has, and the stream should end. */
  report(items: readonly PlacementStatus[], batchSeq: bigint | null): boolean;
  /** Begins to write; what was reported before waited. Resolves when `signal` aborts; rejects with `SessionLost`. */
  run(): Promise<void>;
  /** What the agent has, as far as it was stored. */
  reported(): ReportedByAgent;
}

interface Stored {
  value: ObservationValue;
  modRevision: bigint;
}

const maxPending = 10_000;
const writesPerTxn = 50;
const bytesPerTxn = 192 * 1024;
const conflictsPerFlush = 20;
const conflictPauseMs = 50;
const idleMs = 60_000;
const retryBackOff = { firstMs: 200, maxMs: 5_000 };

export function createStatusWriter(options: StatusWriterOptions): StatusWriter {
  const { clock, random, etcd, key, nodeId, address, placements, log, signal } = options;
  const wake = createWake(clock);
  const stored = new Map<string, Stored>();
  let pending = new Map<string, PlacementStatus>();
  let unacked: bigint[] = [];

  function add(items: Iterable<PlacementStatus>): void {
    for (const item of items) {
      const other = pending.get(item.placementId);
      if (other === undefined || other.statusSeq < item.statusSeq) pending.set(item.placementId, item);
    }
  }

  async function reload(): Promise<void> {
    const { entries } = await etcd.range(keys.observations(nodeId));
    stored.clear();
    for (const entry of entries) {
      const [placementId = ""] = keyParts(entry.key, keys.observations(nodeId));
      stored.set(placementId, {
        value: observationValue.parse(JSON.parse(entry.value)),
        modRevision: entry.modRevision,
      });
    }
  }

  /** What of `items` is news, as guarded writes of bounded size. */
  function* transactions(
    items: Iterable<PlacementStatus>,
  ): Generator<{ writes: ObservationValue[]; ops: Op[]; guards: Guard[] }> {
    let batch: { writes: ObservationValue[]; ops: Op[]; guards: Guard[]; bytes: number } | null = null;
    for (const status of items) {
      const placement = placements().get(status.placementId);
      const before = stored.get(status.placementId);
      const now = clock.now();
      const next = nextObservation({ status, placement: placement?.value, stored: before?.value, address, now });
      if ("skip" in next || placement === undefined) {
        const skip = "skip" in next ? next.skip : "not placed here";
        if (skip !== "not newer")
          log.info({ nodeId, placementId: status.placementId, why: skip }, "a report is dropped");
        continue;
      }
      const value = JSON.stringify(next.write);
      const at = keys.observation(nodeId, status.placementId);
      if (batch !== null && (batch.writes.length >= writesPerTxn || batch.bytes + value.length > bytesPerTxn)) {
        yield batch;
        batch = null;
      }
      batch ??= { writes: [], ops: [], guards: [], bytes: 0 };
      batch.writes.push(next.write);
      batch.bytes += value.length;
      batch.ops.push({ put: { key: at, value } });
      batch.guards.push(
        before === undefined
          ? { key: at, compare: "absent" }
          : { key: at, compare: "modRevision", value: before.modRevision },
        // A placement that the leader has just forgotten must not get an observation that nobody will delete.
        {
          key: keys.placement(nodeId, status.placementId),
          compare: "createRevision",
          value: placement.createRevision,
        },
      );
    }
    if (batch !== null) yield batch;
  }

  async function write(items: ReadonlyMap<string, PlacementStatus>): Promise<void> {
    let conflicts = 0;
    const left = new Map(items);
    while (left.size > 0) {
      let conflict = false;
      for (const { writes, ops, guards } of transactions(left.values())) {
        const { succeeded, revision } = await key.write(ops, guards);
        if (!succeeded) {
          options.metrics?.statusConflicts.inc();
          conflict = true;
          break;
        }
        options.metrics?.statusTransactions.inc();
        options.metrics?.statusOperations.inc(writes.length);
        for (const value of writes) {
          const from = stored.get(value.placementId)?.value.observed ?? null;
          if (from !== value.observed) {
            log.info({ nodeId, placementId: value.placementId, from, to: value.observed }, "placement observed");
          }
          stored.set(value.placementId, { value, modRevision: revision });
          left.delete(value.placementId);
        }
      }
      if (!conflict) break;
      conflicts += 1;
      if (conflicts > conflictsPerFlush) throw new Error("observations keep changing under their writer");
      await pause(clock, conflictPauseMs, signal);
      if (signal.aborted) return;
      await reload();
    }
    for (const placementId of stored.keys()) if (!placements().has(placementId)) stored.delete(placementId);
  }

  async function flush(): Promise<void> {
    const items = pending;
    const acks = unacked;
    pending = new Map();
    unacked = [];
    try {
      await write(items);
    } catch (error) {
      add(items.values());
      unacked = [...acks, ...unacked];
      throw error;
    }
    if (signal.aborted) return;
    for (const batchSeq of acks) options.ack(batchSeq);
  }

  return {
    report(items, batchSeq) {
      add(items);
      if (batchSeq !== null) unacked.push(batchSeq);
      wake.signal();
      return pending.size <= maxPending && unacked.length <= maxPending;
    },
    async run() {
      let failures = 0;
      let fresh = false;
      while (!signal.aborted) {
        try {
          // After a failure it is not known what was stored; a report that is there already is not newer.
          if (!fresh) await reload();
          fresh = true;
          if (pending.size === 0 && unacked.length === 0) await wake.wait(idleMs, signal);
          if (failures === 0) await pause(clock, options.windowMs, signal);
          if (!signal.aborted) await flush();
          failures = 0;
        } catch (error) {
          if (error instanceof SessionLost) throw error;
          failures += 1;
          fresh = false;
          log.warn({ err: error, nodeId, failures }, "observations could not be written yet");
          await pause(clock, backOffMs(failures, retryBackOff, random.next()), signal);
        }
      }
    },
    reported() {
      const entries = [...stored];
      const idsWhere = (test: (placementId: string, value: ObservationValue) => boolean) =>
        new Set(entries.filter(([id, { value }]) => test(id, value)).map(([id]) => id));
      return {
        active: idsWhere((_, { observed }) => isActive(observed)),
        running: idsWhere((id, { observed }) => observed === "running" && isVisited(placements().get(id))),
      };
    },
  };
}

const isVisited = (placement: DesiredPlacement | undefined): boolean =>
  placement !== undefined && rulesOf(placement.value.kind).isVisited;
