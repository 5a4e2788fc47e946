import { isActive } from "@svc/control/fleet/agents/apply-status";
import { keys, type ObservationValue } from "@svc/control/fleet/cluster/keys";
import type { DesiredPlacement, ReportedByAgent } from "@svc/control/fleet/sessions/outbox";
import { defaultTimings } from "@svc/control/fleet/sessions/timings";
import { EtcdError, UnknownOutcome } from "@svc/control/stores/etcd/errors";
import type { Guard } from "@svc/control/stores/etcd/txn";
import type { PlacementStatus } from "@svc/proto/node";
import { backOffMs } from "@svc/runtime/retry";
import { createBell, pause, type Work, wait } from "../../kernel/kernel.ts";
import { addressOf } from "../../machines/addresses.ts";
import type { Op } from "../../stores/etcd.ts";
import type { ServerStream } from "./session.ts";
import { retryBackOff } from "./session.ts";
import { type SessionKey, SessionLost } from "./session-key.ts";

const timings = defaultTimings;
const conflictsPerFlush = 20;

/** Writes what the agent reports to etcd, and tells it when that is done: mirrors `control/src/fleet/agents/status-writer.ts`. */
export class StatusWriter {
  private readonly bell = createBell();
  private readonly stored = new Map<string, { value: ObservationValue; modRevision: bigint }>();
  pending = new Map<string, PlacementStatus>();
  private unacked: bigint[] = [];

  private readonly stream: ServerStream;
  private readonly key: SessionKey;
  private readonly nodeId: string;
  private readonly placements: () => ReadonlyMap<string, DesiredPlacement>;

  constructor(
    stream: ServerStream,
    key: SessionKey,
    nodeId: string,
    placements: () => ReadonlyMap<string, DesiredPlacement>,
  ) {
    this.stream = stream;
    this.key = key;
    this.nodeId = nodeId;
    this.placements = placements;
  }

  private add(items: Iterable<PlacementStatus>): void {
    for (const item of items) {
      const other = this.pending.get(item.placementId);
      if (other === undefined || other.statusSeq < item.statusSeq) this.pending.set(item.placementId, item);
    }
  }

  report(items: readonly PlacementStatus[], batchSeq: bigint | null): void {
    this.add(items);
    if (batchSeq !== null) this.unacked.push(batchSeq);
    this.bell.ring();
  }

  private *reload(): Work {
    const { client, world } = this.stream.replica;
    const { entries } = yield* client.range(keys.observations(this.nodeId));
    this.stored.clear();
    for (const { value, modRevision } of entries) {
      const observation = world.values.of<ObservationValue>(value);
      this.stored.set(observation.placementId, { value: observation, modRevision });
    }
  }

  private transaction(items: Iterable<PlacementStatus>): { writes: ObservationValue[]; ops: Op[]; guards: Guard[] } {
    const { world, process } = this.stream.replica;
    const batch = { writes: [] as ObservationValue[], ops: [] as Op[], guards: [] as Guard[] };
    for (const status of items) {
      const placement = this.placements().get(status.placementId);
      const before = this.stored.get(status.placementId);
      const next = world.cores.nextObservation({
        status,
        placement: placement?.value,
        stored: before?.value,
        address: addressOf(this.nodeId),
        now: process.now(),
      });
      if ("skip" in next || placement === undefined) continue;
      const at = keys.observation(this.nodeId, status.placementId);
      batch.writes.push(next.write);
      batch.ops.push({ put: { key: at, value: world.values.textOf(next.write) } });
      batch.guards.push(
        before === undefined
          ? { key: at, compare: "absent" }
          : { key: at, compare: "modRevision", value: before.modRevision },
        {
          key: keys.placement(this.nodeId, status.placementId),
          compare: "createRevision",
          value: placement.createRevision,
        },
      );
    }
    return batch;
  }

  private *write(items: ReadonlyMap<string, PlacementStatus>): Work {
    for (let conflicts = 0; ; ) {
      const { writes, ops, guards } = this.transaction(items.values());
      if (ops.length === 0) break;
      const { succeeded, revision } = yield* this.key.write(ops, guards);
      if (succeeded) {
        for (const value of writes) this.stored.set(value.placementId, { value, modRevision: revision });
        break;
      }
      conflicts += 1;
      if (conflicts > conflictsPerFlush) throw new EtcdError("REFUSED", "observations keep changing");
      yield* wait(pause(50));
      yield* this.reload();
    }
    for (const id of this.stored.keys()) if (!this.placements().has(id)) this.stored.delete(id);
  }

  *run(): Work {
    const { random } = this.stream.replica.process;
    let failures = 0;
    let isFresh = false;
    for (;;) {
      let items = new Map<string, PlacementStatus>();
      let acks: bigint[] = [];
      try {
        if (!isFresh) yield* this.reload();
        isFresh = true;
        if (this.pending.size === 0 && this.unacked.length === 0) yield* wait(this.bell.wait(60_000));
        if (failures === 0) yield* wait(pause(timings.statusWindowMs));
        items = this.pending;
        acks = this.unacked;
        this.pending = new Map();
        this.unacked = [];
        yield* this.write(items);
        for (const batchSeq of acks) this.stream.send("statusAck", { batchSeq });
        failures = 0;
      } catch (error) {
        if (error instanceof SessionLost) throw error;
        if (!(error instanceof EtcdError || error instanceof UnknownOutcome)) throw error;
        this.add(items.values());
        this.unacked = [...acks, ...this.unacked];
        failures += 1;
        isFresh = false;
        yield* wait(pause(backOffMs(failures, retryBackOff, random.next())));
      }
    }
  }

  reported(): ReportedByAgent {
    const active = new Set<string>();
    const running = new Set<string>();
    for (const [id, { value }] of this.stored) {
      if (isActive(value.observed)) active.add(id);
      if (value.observed === "running") running.add(id);
    }
    return { active, running };
  }
}
