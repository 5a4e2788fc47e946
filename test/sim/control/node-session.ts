import { create } from "@bufbuild/protobuf";
import { keys, type ObservationValue, type PlacementValue, prefix, type RunValue } from "@svc/control/cluster/keys";
import { EtcdError, UnknownOutcome } from "@svc/control/etcd/errors";
import type { Guard } from "@svc/control/etcd/txn";
import { isActive } from "@svc/control/link/apply-status";
import { isCloned, takeoversAfter } from "@svc/control/link/clones/rules";
import { type Change, type DesiredPlacement, emptyOutbox, type ReportedByAgent } from "@svc/control/link/outbox";
import type { RunAnswer } from "@svc/control/link/run-steps";
import { defaultTimings } from "@svc/control/link/timings";
import {
  type Applied,
  Assign_Kind,
  AssignSchema,
  Desired,
  type Placement,
  PlacementSchema,
  type PlacementStatus,
  RunOfferSchema,
  type RunStatus,
  Verdict_Decision,
} from "@svc/proto/node";
import { createBell, createQueue, pause, type Timer, type Work, wait } from "../kernel/kernel.ts";
import type { Message } from "../machines/link.ts";
import type { Op } from "../stores/etcd.ts";
import { DatabaseError, type TaskRow } from "../stores/postgres.ts";
import type { SessionValue } from "./fleet.ts";
import type { Replica } from "./replica.ts";
import { endWith, hold, type LiveSession, persist, type ServerStream } from "./session.ts";
import { type SessionKey, SessionLost, takeSessionKey } from "./session-key.ts";

const timings = defaultTimings;
const quarantinedReconnectMs = 60_000;
/** From an agent's acceptance of a run to its start: as `control/src/link/node-session.ts` has it. */
export const startWithinMs = 30_000;
const judgeAgainMs = 60_000;
/** So that a whole assignment comes in parts, as one with long specs does. */
const upsertsPerMessage = 4;
const desiredOf = { running: Desired.RUNNING, stopped: Desired.STOPPED, removed: Desired.REMOVED } as const;

interface Hello {
  clusterEpoch: bigint;
  nodeId: string;
  incarnation: number;
  instanceId: string;
  bootId: string;
  memoryMb: number;
}

/** Two machines use this identity. */
class IdentityCloned extends Error {
  override readonly name = "IdentityCloned";
}

/** One agent's stream, from opening to end: mirrors `control/src/link/node-session.ts` and what it is made of. */
export function serveNode(stream: ServerStream): void {
  const helloTimer = stream.scope.after(timings.helloTimeoutMs, "hello timeout", () =>
    stream.close({ why: "refused" }),
  );
  let isGreeted = false;
  stream.handle((message) => {
    if (isGreeted || message.case !== "hello") return;
    isGreeted = true;
    helloTimer.cancel();
    const waiting: Message[] = [];
    stream.handle((next) => void waiting.push(next));
    stream.scope.spawn(
      open(stream, message.value as Hello, () => {
        for (const each of waiting.splice(0)) stream.receive(each);
      }),
      (error) => endWith(stream, error),
    );
  });
}

function* open(stream: ServerStream, hello: Hello, flush: () => void): Work {
  const { replica, scope } = stream;
  const { world, process, client } = replica;
  const { nodeId } = hello;
  const clusterEpoch = replica.clusterEpoch;
  if (hello.clusterEpoch > BigInt(clusterEpoch)) return stream.close({ why: "refused" });
  const row = yield* replica.transact((tables) => ({ ...tables.nodes.get(nodeId) }));
  if (row.lifecycle !== "active" || hello.incarnation < (row.incarnation ?? 0)) return stream.close({ why: "fenced" });
  const quarantine = () =>
    stream.close({ why: "go away", reconnectAfterMs: quarantinedReconnectMs, reason: "quarantined" });
  if (row.quarantinedAt !== null) return quarantine();

  const { instanceId, bootId, memoryMb } = hello;
  const base = { serverId: replica.id, instanceId, bootId, memoryMb, connectedAt: `${process.monoMs()}` };
  let value: SessionValue = { ...base, reconciled: false, suspect: false, detached: false, takeovers: [] };
  const text = (change: Partial<SessionValue>) => {
    value = { ...value, ...change };
    return world.values.textOf(value);
  };
  let key: SessionKey;
  try {
    key = yield* takeSessionKey(client, {
      key: keys.nodeSession(nodeId),
      valueAfter: (before) => {
        const holder = before === null ? null : world.values.of<SessionValue>(before);
        const takeovers = takeoversAfter(holder, base, process.now());
        if (isCloned(takeovers, base)) throw new IdentityCloned();
        return text({ takeovers });
      },
      daemonId: nodeId,
      serverId: replica.id,
      scope: replica.scope,
    });
  } catch (error) {
    if (!(error instanceof IdentityCloned)) throw error;
    yield* replica.transact((tables, notify) => {
      const node = tables.nodes.get(nodeId);
      if (node !== undefined) node.quarantinedAt ??= world.postgres.now();
      notify("node");
    });
    return quarantine();
  }
  /** Whatever is written tells of the silence as well: what the store has is known after each write. */
  const write = function* (change: Partial<SessionValue>): Work {
    const told = text(change);
    const { suspect } = value;
    isKnownSilent = null;
    yield* key.update(told);
    isKnownSilent = suspect;
  };
  let isNotingSilence = false;
  /** As the store has it; null while nobody knows. */
  let isKnownSilent: boolean | null = false;
  const session: LiveSession = {
    daemonId: nodeId,
    incarnation: hello.incarnation,
    key,
    stream,
    isMine: (other) => {
      const seen = other as SessionValue;
      return seen.serverId === base.serverId && seen.instanceId === instanceId && seen.connectedAt === base.connectedAt;
    },
    noteSilence: (silentMs) => {
      const isSilent = silentMs >= timings.renewEveryMs * 1.5;
      if (isNotingSilence) return;
      value = { ...value, suspect: isSilent };
      if (isSilent === isKnownSilent) return;
      isNotingSilence = true;
      const over = () => {
        isNotingSilence = false;
      };
      replica.scope.spawn(write({}), over, over);
    },
  };
  hold(session, () => world.values.textOf({ ...value, detached: true }));
  if (stream.ending !== null) return;
  yield* converse(stream, hello, key, () => write({ reconciled: true }), flush);
  scope.process.kernel.note(() => `${replica.id}: ${nodeId} reconciled`);
}

/** What is placed on a node, and the revision at which that was so. */
interface DesiredState {
  entries: ReadonlyMap<string, DesiredPlacement>;
  revision: bigint;
}

function* converse(
  stream: ServerStream,
  hello: Hello,
  key: SessionKey,
  reconcile: () => Work,
  flush: () => void,
): Work {
  const { replica, scope } = stream;
  const { client, fleet, world, process } = replica;
  const { nodeId } = hello;
  const held = { items: [] as PlacementStatus[], runs: [] as RunStatus[] };
  const inventoryBell = createBell();
  let isInventoryComplete = false;

  // ------------------------------------------------------ what is desired
  let snapshot: DesiredState | null = null;
  let newestLeader = 0n;
  const leaderEpoch = () => {
    for (const { createRevision } of fleet.leader.values.values()) {
      if (createRevision > newestLeader) newestLeader = createRevision;
    }
    return newestLeader;
  };
  const current = (): DesiredState => {
    const { revision } = fleet.placements;
    if (snapshot !== null && revision <= snapshot.revision) return snapshot;
    return { entries: fleet.byNode.get(nodeId) ?? new Map<string, DesiredPlacement>(), revision };
  };

  const statuses = new StatusWriter(stream, key, nodeId, () => current().entries);
  const runs = new RunCourier(stream, key, nodeId, hello.bootId);
  const assigner = new Assigner(stream, nodeId, leaderEpoch, current, () => statuses.reported());

  const writeDiskFull = createQueue(scope);
  let diskFull: boolean | null = null;
  stream.handle((message) => {
    switch (message.case) {
      case "renew": {
        stream.renew();
        const said = (message.value as { diskFull: boolean }).diskFull;
        if (said !== diskFull) {
          diskFull = said;
          const tell = function* () {
            yield* replica.transact((tables) => {
              const node = tables.nodes.get(nodeId);
              if (node !== undefined) node.diskFull = said;
            });
          };
          writeDiskFull(tell)(
            () => {},
            () => {
              diskFull = null;
            },
            scope,
          );
        }
        return stream.send("renewAck", {});
      }
      case "inventory": {
        const part = message.value as { items: PlacementStatus[]; runs: RunStatus[]; final: boolean };
        held.items.push(...part.items);
        held.runs.push(...part.runs);
        if (part.final) {
          isInventoryComplete = true;
          inventoryBell.ring();
        }
        return;
      }
      case "applied":
        return assigner.answered(message.value as Applied);
      case "status": {
        const { items, batchSeq } = message.value as { items: PlacementStatus[]; batchSeq: bigint };
        return statuses.report(items, batchSeq);
      }
      case "runAccept": {
        const { attemptId, refusedBecause } = message.value as { attemptId: string; refusedBecause: string };
        return runs.accepted(attemptId, refusedBecause);
      }
      case "runStatus":
        return runs.reported(message.value as RunStatus);
    }
  });
  yield* replica.transact((tables) => {
    const node = tables.nodes.get(nodeId);
    if (node !== undefined) node.seenAt = process.now();
  });
  flush();
  stream.send("welcome", { renewEveryMs: timings.renewEveryMs, leaseTtlMs: timings.leaseTtlMs });

  const inventoryUntilMs = process.monoMs() + timings.inventoryTimeoutMs;
  while (!isInventoryComplete && process.monoMs() < inventoryUntilMs) {
    yield* wait(inventoryBell.wait(inventoryUntilMs - process.monoMs()));
  }
  if (!isInventoryComplete) {
    return stream.close({ why: "go away", reconnectAfterMs: 1_000, reason: "no inventory" });
  }
  yield* persist(stream, function* () {
    const leader = yield* client.get(keys.leader);
    if ((leader?.createRevision ?? 0n) > newestLeader) newestLeader = leader?.createRevision ?? 0n;
    for (let tries = 0; leaderEpoch() === 0n && tries < 300; tries += 1) yield* wait(pause(100));
    if (leaderEpoch() === 0n) throw new EtcdError("TIMEOUT", "no leader");
    const { entries, revision } = yield* client.rangeOfAnyMember(keys.placements(nodeId));
    snapshot = {
      revision,
      entries: new Map(
        entries.map(({ value, modRevision, createRevision }) => {
          const placement = world.values.of<PlacementValue>(value);
          return [placement.placementId, { value: placement, modRevision, createRevision }];
        }),
      ),
    };
  });
  statuses.report(held.items, null);
  for (const run of held.runs) runs.reported(run);
  const stops = [
    fleet.placements.subscribe((changes) => {
      if (changes.some(({ key: at }) => at.startsWith(keys.placements(nodeId)))) assigner.wake();
    }),
    fleet.runs.subscribe((changes) => {
      if (changes.some(({ key: at }) => at.startsWith(keys.runs(nodeId)))) runs.announce();
    }),
  ];
  scope.onEnd(() => {
    for (const stop of stops) stop();
  });
  runs.announce();
  scope.spawn(statuses.run(), (error) => endWith(stream, error));
  scope.spawn(assigner.run(), (error) => endWith(stream, error));

  // ------------------------------------------------------- orphans, reconciliation
  let open = held.items.map(({ placementId }) => placementId);
  const judge = function* (): Work {
    const { entries } = current();
    const orphans = open.filter((placementId) => !entries.has(placementId));
    const records = yield* persist(stream, () =>
      replica.transact((tables) => orphans.map((id) => ({ id, record: recordOf(tables.tasks.get(id), nodeId) }))),
    );
    open = [];
    for (const { id, record } of records) {
      const isOver = world.cores.verdict(record) === "kill";
      stream.send("verdict", {
        placementId: id,
        decision: isOver ? Verdict_Decision.KILL : Verdict_Decision.ADOPT,
      });
      if (!isOver) open.push(id);
    }
  };
  yield* judge();
  yield* wait(assigner.told);
  yield* persist(stream, reconcile);
  while (open.length > 0) {
    yield* wait(pause(judgeAgainMs));
    yield* judge();
  }
}

/** Mirrors `control/src/link/orphans.ts`. */
function recordOf(task: TaskRow | undefined, nodeId: string): "unknown" | "gone" | "wanted" {
  if (task === undefined) return "unknown";
  const isElsewhere = task.nodeId !== null && task.nodeId !== nodeId;
  return task.desired === "removed" || task.reaped || isElsewhere ? "gone" : "wanted";
}

// ------------------------------------------------------------------ statuses

const conflictsPerFlush = 20;
const retryBackOff = { firstMs: 200, maxMs: 5_000 };

/** Mirrors `control/src/link/status-writer.ts`. */
class StatusWriter {
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
        address: this.nodeId,
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
        yield* wait(
          pause(Math.min(retryBackOff.maxMs, retryBackOff.firstMs * 2 ** Math.min(failures - 1, 20)) * random.next()),
        );
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

// --------------------------------------------------------------- assignments

/** Mirrors `control/src/link/assigner.ts`. */
class Assigner {
  private readonly bell = createBell();
  private outbox = emptyOutbox;
  private silence: Timer | null = null;
  private resyncs = 0;
  private isTold = false;
  private readonly toldBell = createBell();

  private readonly stream: ServerStream;
  private readonly nodeId: string;
  private readonly leaderEpoch: () => bigint;
  private readonly desired: () => DesiredState;
  private readonly reported: () => ReportedByAgent;

  constructor(
    stream: ServerStream,
    nodeId: string,
    leaderEpoch: () => bigint,
    desired: () => DesiredState,
    reported: () => ReportedByAgent,
  ) {
    this.stream = stream;
    this.nodeId = nodeId;
    this.leaderEpoch = leaderEpoch;
    this.desired = desired;
    this.reported = reported;
  }

  wake(): void {
    this.bell.ring();
  }

  readonly told = (
    done: (value: undefined) => void,
    fail: (error: unknown) => void,
    scope: ServerStream["scope"],
  ): void => {
    if (this.isTold) {
      done(undefined);
      return;
    }
    this.toldBell.wait(86_400_000)(() => done(undefined), fail, scope);
  };

  private placementOf({ value }: DesiredPlacement): Placement {
    const { placementId, epoch, desired, specHash, projectId, deploymentId, channel } = value;
    return create(PlacementSchema, {
      ...{ placementId, specHash, projectId, deploymentId, channel },
      epoch: BigInt(epoch),
      desired: desiredOf[desired],
      spec: { case: "serve", value: { port: 80, stopGraceSeconds: 10, health: { path: "/", timeoutSeconds: 30 } } },
    });
  }

  answered({ resultsIn, resync }: Applied): void {
    const before = this.outbox;
    this.outbox = this.stream.replica.world.cores.assignAnswered(before, { resultsIn, resync });
    if (this.outbox === before) return;
    this.silence?.cancel();
    this.resyncs = resync ? this.resyncs + 1 : 0;
    this.bell.ring();
  }

  private *sendNext(): Work {
    const { replica } = this.stream;
    const { cores } = replica.world;
    const { entries, revision } = this.desired();
    const changes: Change[] = cores.pendingChanges(this.outbox, entries);
    if (this.outbox.waitsFor !== null) return;
    if (changes.length === 0 && this.outbox.position !== null) {
      this.isTold = true;
      this.toldBell.ring();
      return;
    }
    // Specs are loaded from Postgres meanwhile.
    if (changes.length > 0) yield* replica.transact(() => null);
    const included = changes.slice(0, upsertsPerMessage);
    const mass = cores.isMassStop(this.outbox, included, this.reported());
    const { outbox, head } = cores.tell(this.outbox, included, { revision, last: included.length === changes.length });
    this.outbox = outbox;
    const leaderEpoch = this.leaderEpoch();
    const assign = create(AssignSchema, {
      kind: head.kind === "complete" ? Assign_Kind.COMPLETE : Assign_Kind.DELTA,
      clusterEpoch: BigInt(replica.clusterEpoch),
      leaderEpoch,
      appliesTo: head.appliesTo,
      resultsIn: head.resultsIn,
      upserts: included.flatMap((change) => ("upsert" in change ? [this.placementOf(change.upsert)] : [])),
      removes: included.flatMap((change) =>
        "remove" in change ? [{ placementId: change.remove.placementId, epoch: BigInt(change.remove.epoch) }] : [],
      ),
      bulkToken: mass ? `${leaderEpoch}/${head.resultsIn}` : "",
    });
    this.silence = this.stream.scope.after(timings.applyTimeoutMs, "assignment silence", () =>
      this.stream.close({ why: "go away", reconnectAfterMs: 1_000, reason: "an assignment was not answered" }),
    );
    replica.world.checks.onAssignSent(this.nodeId, head.kind);
    this.stream.send("assign", assign);
  }

  *run(): Work {
    const { random } = this.stream.replica.process;
    let failures = 0;
    for (;;) {
      try {
        if (this.outbox.position === null && this.resyncs > 0) {
          yield* wait(pause(Math.min(timings.resyncMinMs * 2 ** (this.resyncs - 1), timings.resyncMaxMs)));
        }
        yield* this.sendNext();
        failures = 0;
        yield* wait(this.bell.wait(60_000));
      } catch (error) {
        if (!(error instanceof DatabaseError)) throw error;
        failures += 1;
        yield* wait(pause(Math.min(5_000, 200 * 2 ** Math.min(failures - 1, 20)) * random.next()));
      }
    }
  }
}

// ---------------------------------------------------------------------- runs

const conflictAttempts = 10;
const announceAttempts = 5;
const announceAgainMs = 5_000;

/** Mirrors `control/src/link/run-courier.ts`. */
class RunCourier {
  private readonly queue: ReturnType<typeof createQueue>;
  private readonly said = new Map<string, string>();

  private readonly stream: ServerStream;
  private readonly key: SessionKey;
  private readonly nodeId: string;
  private readonly bootId: string;

  constructor(stream: ServerStream, key: SessionKey, nodeId: string, bootId: string) {
    this.stream = stream;
    this.key = key;
    this.nodeId = nodeId;
    this.bootId = bootId;
    this.queue = createQueue(stream.scope);
  }

  private *read(attemptId: string): Work<{ run: RunValue; modRevision: bigint } | null> {
    const { client, world } = this.stream.replica;
    const entry = yield* client.get(keys.run(this.nodeId, attemptId));
    return entry === null ? null : { run: world.values.of<RunValue>(entry.value), modRevision: entry.modRevision };
  }

  private *say(attemptId: string): Work {
    const { cores } = this.stream.replica.world;
    const found = yield* this.read(attemptId);
    const message = found === null ? null : cores.runMessage(found.run, this.bootId);
    if (found === null || message === null) return void this.said.delete(attemptId);
    if (this.said.get(attemptId) === message) return;
    if (message === "cancel") this.stream.send("runCancel", { attemptId });
    else if (message === "grant") {
      this.stream.send("runGrant", { attemptId, token: found.run.token ?? "", startWithinMs });
    } else {
      const { deploymentId, projectId } = found.run;
      // What is to run is loaded from Postgres.
      yield* this.stream.replica.transact(() => null);
      this.stream.send("runOffer", create(RunOfferSchema, { attemptId, deploymentId, projectId, timeoutSeconds: 30 }));
    }
    this.said.set(attemptId, message);
  }

  private *answer(attemptId: string, decide: (run: RunValue | null) => RunAnswer): Work {
    const { world } = this.stream.replica;
    for (let attempt = 1; attempt <= conflictAttempts; attempt += 1) {
      const found = yield* this.read(attemptId);
      const { write, ack } = decide(found?.run ?? null);
      if (write !== null && found !== null) {
        const at = keys.run(this.nodeId, attemptId);
        const { succeeded } = yield* this.key.write(
          [{ put: { key: at, value: world.values.textOf(write) } }],
          [{ key: at, compare: "modRevision", value: found.modRevision }],
        );
        if (!succeeded) continue;
      }
      if (ack) {
        this.said.delete(attemptId);
        this.stream.send("runAck", { attemptId });
      }
      return;
    }
    throw new EtcdError("REFUSED", `run ${attemptId} keeps changing under its courier`);
  }

  private enqueue(what: "announce" | "answer", step: () => Work): void {
    const { scope, replica } = this.stream;
    const { random } = replica.process;
    const again = () => this.enqueue(what, step);
    const attempts = what === "announce" ? announceAttempts : Number.POSITIVE_INFINITY;
    const persistent = function* (): Work {
      for (let failures = 1; failures <= attempts; failures += 1) {
        try {
          return yield* step();
        } catch (error) {
          const isTrouble =
            error instanceof EtcdError || error instanceof UnknownOutcome || error instanceof DatabaseError;
          if (!isTrouble) throw error;
          yield* wait(pause(Math.min(5_000, 200 * 2 ** Math.min(failures - 1, 20)) * random.next()));
        }
      }
      // Nobody else would say it again; until then the others have their turn.
      scope.after(announceAgainMs, "announce again", again);
    };
    this.queue(persistent)(
      () => {},
      (error) => {
        if (!(error instanceof SessionLost)) throw error;
        this.stream.close({ why: "go away", reconnectAfterMs: 1_000, reason: "runs cannot be recorded" });
      },
      scope,
    );
  }

  announce(): void {
    const { fleet, world } = this.stream.replica;
    const under = keys.runs(this.nodeId);
    const own = new Map<string, RunValue>();
    for (const [at, { value }] of fleet.runs.values) if (at.startsWith(under)) own.set(value.attemptId, value);
    for (const attemptId of this.said.keys()) if (!own.has(attemptId)) this.said.delete(attemptId);
    for (const [attemptId, run] of own) {
      const message = world.cores.runMessage(run, this.bootId);
      if (message !== null && this.said.get(attemptId) !== message) this.enqueue("announce", () => this.say(attemptId));
    }
  }

  accepted(attemptId: string, refusedBecause: string): void {
    const { world, process } = this.stream.replica;
    this.enqueue("answer", () =>
      this.answer(attemptId, (run) => world.cores.acceptRun(run, refusedBecause, process.now(), this.bootId)),
    );
  }

  reported(status: RunStatus): void {
    const { world, process } = this.stream.replica;
    this.enqueue("answer", () =>
      this.answer(status.attemptId, (run) => world.cores.recordRun(run, status, process.now(), this.bootId)),
    );
  }
}

/** Ends the sessions of this replica whose key another stream took, or somebody deleted. */
export function endLostSessions(replica: Replica): void {
  for (const [view, under] of [
    [replica.fleet.nodes, prefix.nodes],
    [replica.fleet.edges, prefix.edges],
  ] as const) {
    view.subscribe((changes, revision) => {
      for (const change of changes) {
        const [id = "", part] = change.key.slice(under.length).split("/");
        const session = replica.roster.get(id);
        if (part !== "session" || session === undefined) continue;
        if (change.type === "put") {
          if (change.value.modRevision > session.key.epoch && !session.isMine(change.value.value)) {
            session.stream.close({ why: "superseded" });
          }
        } else if (
          revision > session.key.epoch &&
          !changes.some((later) => later.key === change.key && later.type === "put")
        ) {
          session.stream.close({ why: "go away", reconnectAfterMs: 0, reason: "the session key was deleted" });
        }
      }
    });
  }
}
