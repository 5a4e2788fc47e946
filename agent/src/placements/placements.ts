import { create } from "@bufbuild/protobuf";
import {
  type Applied,
  AppliedSchema,
  type Assign,
  Observed,
  PlacementSchema,
  type PlacementStatus,
  type Verdict,
  Verdict_Decision,
} from "@svc/proto/node";
import type { Clock } from "@svc/runtime/clock";
import { pause } from "@svc/runtime/sleep";
import { type Container, type Engine, labels } from "../engine/engine.ts";
import { isHidden } from "../entrances/rules.ts";
import type { Journal } from "../journal/journal.ts";
import type { PlacementRecord } from "../journal/records.ts";
import type { Log } from "../log.ts";
import type { Machine } from "../node/machine.ts";
import type { Writer } from "../storage/watch.ts";
import { type Actor, createActor } from "./actor.ts";
import { apply, type Held } from "./apply.ts";
import type { Runner, Siblings } from "./executors/executor.ts";
import { createGrants } from "./grants.ts";
import { hasContainer, isContainerKind, isHelperKind, kindOf } from "./kinds/index.ts";
import { containerName } from "./names.ts";
import { createTask, heldPort, newRecord, removedAtOnce, type Task, withSpec } from "./task.ts";
import { isTerminal } from "./view.ts";

/** Everything that control placed on this node. */
export type Placements = AsyncDisposable & {
  /** Takes an assignment: journals it, then wakes whoever it concerns. The result is the answer to send. */
  assign(assign: Assign): Applied;
  /** A session with control began; what it names is granted once it has stood so long. */
  openSession(grantsAfterMs: number): void;
  /** It is over. What it named and did not grant is asked for again. */
  closeSession(): void;
  decide(verdict: Verdict): void;
  /** Stops and removes everything: the node was fenced. Resolves once nothing runs any more. */
  clear(signal: AbortSignal): Promise<void>;
  statuses(): PlacementStatus[];
  find(placementId: string): PlacementRecord | null;
  list(): PlacementRecord[];
  /** The containers that may write so much to the disk and no more. */
  writers(): Writer[];
  /** Something happened to a container of ours. */
  noteContainer(name: string): void;
  /** Compares what runs with what is known, now and then, since events can be missed. */
  survey(containers: readonly Container[]): Promise<void>;
  isNetworkNeeded(projectId: string, channel: string, except: string): boolean;
};

interface Member {
  task: Task;
  actor: Actor;
  stop: AbortController;
}

const endedKept = 1_000;
const endedKeptMs = 7 * 24 * 60 * 60 * 1000;

/** Starts an actor for each journaled placement, so that a restart of the agent goes on where it stood. */
export function createPlacements(options: {
  clock: Clock;
  journal: Journal;
  engine: Engine;
  machine: Pick<Machine, "bootId" | "tcpTables">;
  /** The node's own. */
  address: string;
  createRunner(siblings: Siblings): Runner;
  onStatus(status: PlacementStatus): void;
  log: Log;
}): Placements {
  const { clock, journal, engine, machine, log } = options;
  const { bootId } = machine;
  const all = new Map<string, Member>();
  const closing = new AbortController();

  const isNetworkNeeded: Placements["isNetworkNeeded"] = (projectId, channel, except) =>
    [...all.values()].some(({ task }) => {
      const { placement, status } = task.record();
      const isSame = placement.projectId === projectId && placement.channel === channel && task.id !== except;
      return isSame && hasContainer(placement) && status.observed < Observed.COMPLETED;
    });
  const isPortHeld: Siblings["isPortHeld"] = (port) =>
    [...all.values()].some(({ task }) => heldPort(task.record()) === port);
  const runner = options.createRunner({ isNetworkNeeded, isPortHeld });

  const enter = (record: PlacementRecord): void => {
    const stop = new AbortController();
    const signal = AbortSignal.any([closing.signal, stop.signal]);
    const onChange = (changed: PlacementRecord): void => options.onStatus(changed.status);
    const task = createTask({ clock, record, journal, onChange });
    all.set(task.id, { task, stop, actor: createActor({ clock, task, engine, runner, machine, signal, log }) });
  };

  const forget = (placementId: string): void => {
    all.get(placementId)?.stop.abort();
    all.delete(placementId);
    journal.forgetPlacement(placementId);
  };

  /** Journals the changed records and lets their actors know. */
  const take = (records: readonly PlacementRecord[], commit: () => void): void => {
    commit();
    for (const record of records) {
      const known = all.get(record.placement.placementId);
      if (known === undefined) enter(record);
      else {
        known.task.replace(record);
        known.actor.wake("desired");
      }
    }
  };

  const held = (): Map<string, Held> =>
    new Map(
      [...all.values()].map(({ task }) => {
        const { placement, status } = task.record();
        const { epoch, desired, specHash, resources } = placement;
        // What nobody knows any more may be anything.
        const isVisited = kindOf(placement)?.isVisited ?? true;
        return [task.id, { epoch, desired, specHash, isVisited, resources, observed: status.observed }];
      }),
    );

  const remove = (record: PlacementRecord): void => {
    const doomed = { ...record, orphan: true, placement: removedAtOnce(record.placement) };
    take([doomed], () => journal.savePlacement(doomed));
  };

  const isAtWork = (id: string): boolean => {
    const status = all.get(id)?.task.record().status;
    return status !== undefined && !isTerminal(status.observed);
  };

  const known = journal.listPlacements();
  for (const record of known) enter(record);
  // What waits to be named would wait for ever for changes of something that has not changed.
  const waits = known.some(
    (record) => kindOf(record.placement)?.rebootsWith === "grant" && record.memory.grantedIn !== bootId,
  );
  const askAgain = (): void =>
    journal.commitAssignment({ chain: { ...journal.chain(), beginsAnew: true }, placements: [], forgotten: [] });
  if (waits) askAgain();
  const grants = createGrants({
    clock,
    log,
    askAgain,
    grant(placementIds) {
      const records = placementIds.flatMap((id) => {
        const record = all.get(id)?.task.record();
        return record === undefined ? [] : [{ ...record, memory: { ...record.memory, grantedIn: bootId } }];
      });
      take(records, () => {
        for (const record of records) journal.savePlacement(record);
      });
    },
  });

  return {
    isNetworkNeeded,
    statuses: () => [...all.values()].map(({ task }) => task.record().status),
    find: (placementId) => all.get(placementId)?.task.record() ?? null,
    list: () => [...all.values()].map(({ task }) => task.record()),

    assign(assign) {
      const chain = journal.chain();
      const decision = apply(chain, held(), assign);
      if (decision.outcome !== "accept") {
        log.warn(
          { outcome: decision.outcome, reason: decision.reason, resultsIn: assign.resultsIn },
          "assignment not applied",
        );
        // Whatever the reason, control finds out where this node stands and sends what fits.
        const rejects = [{ placementId: "", reason: decision.reason }];
        return create(AppliedSchema, { resultsIn: chain.resultsIn, rejects, resync: true });
      }
      const isGranted = grants.name(decision.upserts.map(({ placementId }) => placementId));
      const records = changedRecords(all, decision, { now: clock.now(), grantedIn: isGranted ? bootId : null });
      const gone = decision.removes.filter((id) => all.get(id)?.task.record().status.observed === Observed.REMOVED);
      take(
        records.filter((record) => !gone.includes(record.placement.placementId)),
        () => journal.commitAssignment({ chain: decision.chain, placements: records, forgotten: gone }),
      );
      for (const id of gone) forget(id);
      for (const { placementId, reason } of decision.rejects) log.warn({ placementId, reason }, "placement rejected");
      // A removed one that control does not name here is forgotten at the next survey: a later part may name it still, and what
      // was said of it must not begin anew.
      return create(AppliedSchema, { resultsIn: decision.chain.resultsIn, rejects: decision.rejects });
    },

    openSession: grants.open,
    closeSession: grants.close,

    decide({ placementId, decision }) {
      const known = all.get(placementId);
      if (known === undefined) return;
      const record = known.task.record();
      log.info({ placementId, decision }, "verdict");
      if (decision === Verdict_Decision.ADOPT) {
        const adopted = { ...record, orphan: false };
        return take([adopted], () => journal.savePlacement(adopted));
      }
      if (decision !== Verdict_Decision.KILL) return;
      if (record.status.observed === Observed.REMOVED) return forget(placementId);
      remove(record);
    },

    async clear(signal) {
      const records = [...all.values()].map(({ task }) => {
        const record = task.record();
        return { ...record, placement: removedAtOnce(record.placement) };
      });
      take(records, () => {
        for (const record of records) journal.savePlacement(record);
      });
      while (
        !signal.aborted &&
        [...all.values()].some(({ task }) => task.record().status.observed !== Observed.REMOVED)
      ) {
        await pause(clock, 100, signal);
      }
    },

    writers: () =>
      [...all.values()].flatMap(({ task }) => {
        const { placement, status } = task.record();
        const storageMb = placement.resources?.storageMb ?? 0;
        if (!hasContainer(placement) || storageMb === 0 || isTerminal(status.observed)) return [];
        const name = containerName(task.id);
        return [
          {
            name,
            storageMb,
            async end({ id }) {
              // First the reason: whoever is killed in between does not know it afterwards.
              task.update({ memory: { overflowOf: id, overflowMb: storageMb } });
              await engine.killContainer(name, "SIGKILL");
            },
          },
        ];
      }),

    noteContainer(name) {
      for (const [id, { actor }] of all) if (containerName(id) === name) actor.wake("engine");
    },

    async survey(containers) {
      for (const container of containers) {
        const id = container.labels[labels.placement];
        if (id !== undefined && isHelperKind(container.labels[labels.kind])) {
          // The engine has made or started it late, when whoever asked for it had given up or had ended.
          if (!isAtWork(id)) await engine.removeContainer(container.name);
          continue;
        }
        if (!isContainerKind(container.labels[labels.kind]) || id === undefined || all.has(id)) continue;
        if (container.name !== containerName(id)) continue;
        if (container.state === "created") {
          // Half made by an agent that died before it wrote anything down; it never ran.
          await engine.removeContainer(container.name);
          continue;
        }
        log.warn({ placementId: id, state: container.state }, "container without a record: keeping it as an orphan");
        const record = orphanRecord(container, id, { now: clock.now(), address: options.address });
        take([record], () => journal.savePlacement(record));
      }
      for (const { actor } of all.values()) actor.wake("engine");
      prune(all, clock.now(), { forget, remove });
    },

    async [Symbol.asyncDispose]() {
      closing.abort();
      grants.close();
      await Promise.all([...all.values()].map(({ actor }) => actor.done));
    },
  };
}

type Accepted = Extract<ReturnType<typeof apply>, { outcome: "accept" }>;

/** The records that an accepted assignment changes, as they will be. What it names is granted in boot `grantedIn`; null: not yet. */
function changedRecords(
  all: ReadonlyMap<string, Member>,
  decision: Accepted,
  { now, grantedIn }: { now: Date; grantedIn: string | null },
): PlacementRecord[] {
  const changed = new Map<string, PlacementRecord>();
  const current = (id: string): PlacementRecord | undefined => changed.get(id) ?? all.get(id)?.task.record();
  for (const placement of decision.upserts) {
    const known = current(placement.placementId);
    const record =
      known === undefined ? newRecord(placement, now) : { ...known, placement: withSpec(placement, known) };
    const memory = grantedIn === null ? record.memory : { ...record.memory, grantedIn };
    changed.set(placement.placementId, { ...record, memory });
  }
  for (const id of decision.removes) {
    const known = current(id);
    if (known !== undefined) {
      // Control has settled it already, so nobody will name it again.
      changed.set(id, { ...known, orphan: true, placement: removedAtOnce(known.placement) });
    }
  }
  const adopted = decision.adopted.filter((id) => !decision.removes.includes(id));
  for (const [ids, orphan] of [[decision.orphans, true] as const, [adopted, false] as const]) {
    for (const id of ids) {
      const known = current(id);
      if (known !== undefined && known.orphan !== orphan) changed.set(id, { ...known, orphan });
    }
  }
  return [...changed.values()];
}

/** What the labels of a container tell of a placement whose record was lost. */
function orphanRecord(
  container: Container,
  placementId: string,
  { now, address }: { now: Date; address: string },
): PlacementRecord {
  const placement = create(PlacementSchema, {
    placementId,
    epoch: BigInt(/^\d{1,18}$/.exec(container.labels[labels.epoch] ?? "")?.[0] ?? 0),
    specHash: container.labels[labels.specHash] ?? "",
    projectId: container.labels[labels.project] ?? "",
    ownerKind: container.labels[labels.ownerKind] ?? "",
    ownerId: container.labels[labels.owner] ?? "",
    channel: container.labels[labels.channel] ?? "",
  });
  const record = newRecord(placement, now);
  record.status.observed = container.state === "running" ? Observed.RUNNING : Observed.STOPPED;
  record.orphan = true;
  // Edges may know it, whatever became of the record.
  const hostPort = Number(container.upstream?.split(":").at(-1) ?? 0);
  const behindEntrance = isHidden(container.upstream, address);
  return { ...record, memory: { ...record.memory, hostPort, behindEntrance } };
}

/**
 * Settles what control has stopped asking about: a removed orphan is forgotten, and an ended one loses its
 * container once there are too many of them or it is too old.
 */
function prune(
  all: ReadonlyMap<string, Member>,
  now: Date,
  effects: { forget(placementId: string): void; remove(record: PlacementRecord): void },
): void {
  const orphans = [...all.values()].map(({ task }) => task.record()).filter((record) => record.orphan);
  for (const { placement, status } of orphans) {
    if (status.observed === Observed.REMOVED) effects.forget(placement.placementId);
  }
  const oldestMs = now.getTime() - endedKeptMs;
  const ended = orphans
    .filter(({ status }) => isTerminal(status.observed) && status.observed !== Observed.REMOVED)
    .sort((a, b) => (a.status.changedAt < b.status.changedAt ? 1 : -1));
  for (const [index, record] of ended.entries()) {
    if (index >= endedKept || Date.parse(record.status.changedAt) < oldestMs) effects.remove(record);
  }
}
