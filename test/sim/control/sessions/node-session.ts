import { keys } from "@svc/control/fleet/cluster/keys";
import { defaultTimings } from "@svc/control/fleet/sessions/timings";
import type { Applied, PlacementStatus, RunStatus } from "@svc/proto/node";
import { createBell, pause, type Work, wait } from "../../kernel/kernel.ts";
import { createQueue } from "../../kernel/queue.ts";
import type { SessionValue } from "../fleet.ts";
import type { Replica } from "../replica.ts";
import { Assigner } from "./assigner.ts";
import { createDesiredSource } from "./desired-source.ts";
import { registryHost } from "./images.ts";
import { judge } from "./orphans.ts";
import { RunCourier } from "./run-courier.ts";
import { endWith, expectHello, hold, persist, type ServerStream } from "./session.ts";
import { type SessionKey, takeSessionKey } from "./session-key.ts";
import { createSessionState, IdentityCloned } from "./session-state.ts";
import { StatusWriter } from "./status-writer.ts";

const timings = defaultTimings;
const quarantinedReconnectMs = 60_000;
/** How soon something that runs without a place is judged again. */
const judgeAgainMs = 60_000;

interface Hello {
  clusterEpoch: bigint;
  nodeId: string;
  incarnation: number;
  instanceId: string;
  bootId: string;
  memoryMb: number;
}

/** One agent's stream, from opening to end: mirrors `control/src/fleet/agents/node-session.ts`. */
export const serveNode = (stream: ServerStream): void => expectHello(stream, open);

function* open(stream: ServerStream, hello: Hello, flush: () => void): Work {
  const { replica, scope } = stream;
  const { process, client } = replica;
  const { nodeId, incarnation, instanceId, bootId, memoryMb } = hello;
  if (hello.clusterEpoch > BigInt(replica.clusterEpoch)) return stream.close({ why: "refused" });
  const row = yield* replica.transact((tables) => ({ ...tables.nodes.get(nodeId) }));
  if (row.lifecycle !== "active" || incarnation < (row.incarnation ?? 0)) return stream.close({ why: "fenced" });
  const sendAway = () =>
    stream.close({ why: "go away", reconnectAfterMs: quarantinedReconnectMs, reason: "quarantined" });
  if (row.quarantinedAt !== null) return sendAway();

  const connectedAt = `${process.monoMs()}`;
  const state = createSessionState(replica, { serverId: replica.id, instanceId, bootId, memoryMb, connectedAt });
  let key: SessionKey;
  try {
    key = yield* takeSessionKey(client, {
      key: keys.nodeSession(nodeId),
      valueAfter: state.opened,
      daemonId: nodeId,
      serverId: replica.id,
      scope: replica.scope,
    });
  } catch (error) {
    if (!(error instanceof IdentityCloned)) throw error;
    yield* quarantine(replica, nodeId);
    return sendAway();
  }
  hold(
    {
      ...{ daemonId: nodeId, incarnation, key, stream },
      isMine: (value) => state.isMine(value as SessionValue),
      noteSilence: (silentMs) => state.noteSilence(key, silentMs),
    },
    state.detached,
  );
  if (stream.ending !== null) return;
  yield* converse(stream, hello, key, () => state.reconcile(key), flush);
  scope.process.kernel.note(() => `${replica.id}: ${nodeId} reconciled`);
}

/** Takes a node out of use of which there are two. */
function* quarantine(replica: Replica, nodeId: string): Work {
  yield* replica.transact((tables, notify) => {
    const node = tables.nodes.get(nodeId);
    if (node !== undefined) node.quarantinedAt ??= replica.world.postgres.now();
    notify("node");
  });
}

/** Everything between hello and the end: parts that write and read by themselves, fed by one handler. */
function* converse(
  stream: ServerStream,
  { nodeId, bootId }: Hello,
  key: SessionKey,
  reconcile: () => Work,
  flush: () => void,
): Work {
  const { replica, scope } = stream;
  const { fleet, process } = replica;
  const source = createDesiredSource(replica, nodeId);
  const inventory = createInventory(replica);
  const statuses = new StatusWriter(stream, key, nodeId, () => source.current().entries);
  const runs = new RunCourier(stream, key, nodeId, bootId);
  const assigner = new Assigner(stream, nodeId, source, () => statuses.reported());
  const reportDiskFull = createDiskFullWriter(stream, nodeId);
  stream.handle((message) => {
    switch (message.case) {
      case "renew":
        stream.renew();
        reportDiskFull((message.value as { diskFull: boolean }).diskFull);
        return stream.send("renewAck", {});
      case "inventory":
        return inventory.add(message.value as InventoryPart);
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
  stream.send("welcome", {
    ...{ nodeId, clusterEpoch: BigInt(replica.clusterEpoch), sessionEpoch: key.epoch },
    ...{ renewEveryMs: timings.renewEveryMs, leaseTtlMs: timings.leaseTtlMs },
    registry: { host: registryHost },
  });

  const held = yield* inventory.complete(timings.inventoryTimeoutMs);
  if (held === null) return stream.close({ why: "go away", reconnectAfterMs: 1_000, reason: "no inventory" });
  yield* persist(stream, source.read);
  // Only now is it known what is placed here, and so whose reports count.
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

  const judgeOrphansAmong = (placementIds: readonly string[]) => {
    const { entries } = source.current();
    return judge(
      stream,
      nodeId,
      placementIds.filter((placementId) => !entries.has(placementId)),
    );
  };
  let adopted = yield* judgeOrphansAmong(held.items.map(({ placementId }) => placementId));
  yield* wait(assigner.told);
  yield* persist(stream, reconcile);
  // What is wanted, but not here, may get its place elsewhere.
  while (adopted.length > 0) {
    yield* wait(pause(judgeAgainMs));
    adopted = yield* judgeOrphansAmong(adopted);
  }
}

interface Inventory {
  items: PlacementStatus[];
  runs: RunStatus[];
}

type InventoryPart = Inventory & { final: boolean };

/** What the agent holds, of which it tells in parts. */
function createInventory({ process }: Replica) {
  const held: Inventory = { items: [], runs: [] };
  const bell = createBell();
  let isComplete = false;
  return {
    add({ items, runs, final }: InventoryPart): void {
      held.items.push(...items);
      held.runs.push(...runs);
      if (!final) return;
      isComplete = true;
      bell.ring();
    },
    /** Null when it does not come to its end in time. */
    *complete(timeoutMs: number): Work<Inventory | null> {
      const untilMs = process.monoMs() + timeoutMs;
      while (!isComplete && process.monoMs() < untilMs) yield* wait(bell.wait(untilMs - process.monoMs()));
      return isComplete ? held : null;
    },
  };
}

/** Writes whether the node's disk is full, when that changes: mirrors `control/src/fleet/agents/conditions.ts`. */
function createDiskFullWriter({ replica, scope }: ServerStream, nodeId: string): (diskFull: boolean) => void {
  const takeTurns = createQueue(scope);
  let last: boolean | null = null;
  return (diskFull) => {
    if (diskFull === last) return;
    last = diskFull;
    const write = function* () {
      yield* replica.transact((tables) => {
        const node = tables.nodes.get(nodeId);
        if (node !== undefined) node.diskFull = diskFull;
      });
    };
    takeTurns(write)(
      () => {},
      () => {
        last = null;
      },
      scope,
    );
  };
}
