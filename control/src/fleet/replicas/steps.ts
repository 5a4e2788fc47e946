// @pure
import type { ReplicaNode } from "../cluster/nodes.ts";

/** One container of a deployment that is to run, or is on its way out. */
export interface Replica {
  taskId: string;
  /** Which of the deployment's replicas it is, from 0. */
  slot: number;
  /** Higher for the later one. */
  epoch: number;
  /** Null while it waits for a node. */
  nodeId: string | null;
  node: ReplicaNode;
  /** Its node has a stream, is heard, and what it runs was compared with what it should: what it said last holds. */
  connected: boolean;
  /** The scheduler has looked for a node, and none takes it. */
  hasNoRoom: boolean;
  /** It runs, answers its health path, and edges can reach it, by what its node said last. */
  serving: boolean;
  /** It has served at some time. */
  served: boolean;
  /** Edges may have been told of it: it has served, or has an address where it might. */
  published: boolean;
  /** Since when it is known to have ended for good; null: it may still get somewhere. */
  endedAt: Date | null;
  /** Another one has taken its place. */
  retiring: boolean;
  /** Since when; null: it does not leave. */
  retiringSince: Date | null;
  /** Since when no edge can send it visitors; null: one may. */
  unroutedAt: Date | null;
}

/** A deployment that a channel serves and that is to be up. */
export interface Site {
  deploymentId: string;
  /** How many replicas it is to have. */
  replicas: number;
  running: readonly Replica[];
  /**
   * Replicas that were made in place of others in the last hour, by slot, those that are gone included; without those
   * that did their part: they served until another one took over.
   */
  replaced: ReadonlyMap<number, { count: number; lastAt: Date }>;
}

export interface KeeperState {
  now: Date;
  /** Replicas of lost nodes stay where they are. */
  storm: boolean;
  /** How long requests that are under way may take once no edge sends new ones. */
  drainMs: number;
  sites: readonly Site[];
}

export type Cause = "missing" | "ended" | "node lost" | "node quarantined" | "node fenced" | "node draining";

export type ReplicaStep =
  /** A container for the slot, besides what it has. */
  | { do: "replace"; deploymentId: string; slot: number; cause: Cause }
  /** Edges are to leave it. */
  | { do: "retire"; taskId: string; deploymentId: string }
  /** It is to go. */
  | { do: "remove"; taskId: string; deploymentId: string; why: string };

const endedBackOff = { firstMs: 5 * 60_000, maxMs: 60 * 60_000 };
const otherBackOff = { firstMs: 10_000, maxMs: 5 * 60_000 };
/** Replicas of one node that move at once, so that a drain does not fill the other nodes' disks and processors in one go. */
const movesPerNode = 4;
/** What leaves for longer waits for an edge that does not follow, and holds up nobody else. */
const moveMs = 60_000;
/** Of one slot. More of them wait behind an edge that does not follow, and a drain is not worth another. */
const leavingMax = 4;
/** A round is bounded; the next one goes on. */
const replacementsPerRound = 200;

/**
 * What keeps every site at its number of replicas: a replacement starts first, and only once it serves the edges leave
 * the one it replaces, which goes when they have. Nothing here stops the only replica that may still serve.
 */
export function keepReplicas(state: KeeperState): ReplicaStep[] {
  const moving = movesByNode(state);
  const steps: ReplicaStep[] = [];
  let room = replacementsPerRound;
  for (const site of state.sites) {
    const isMoving = { site: slotsOf(site).some(isOnTheMove) };
    for (const { slot, current, leaving } of slotsOf(site)) {
      for (const replica of leaving) steps.push(...leave(state, site, replica, current));
      for (const step of keepSlot(state, site, slot, current)) {
        if (step.do !== "replace") {
          steps.push(step);
          continue;
        }
        if (room === 0) continue;
        const nodeId = current[0]?.nodeId ?? "";
        if (step.cause === "node draining") {
          if (isMoving.site || (moving.get(nodeId) ?? 0) >= movesPerNode || leaving.length >= leavingMax) continue;
          moving.set(nodeId, (moving.get(nodeId) ?? 0) + 1);
        }
        isMoving.site = true;
        room -= 1;
        steps.push(step);
      }
    }
  }
  return steps;
}

interface Slot {
  slot: number;
  /** Oldest first. */
  current: readonly Replica[];
  leaving: readonly Replica[];
}

function slotsOf(site: Site): Slot[] {
  const highest = Math.max(site.replicas, ...site.running.map(({ slot }) => slot + 1));
  return Array.from({ length: highest }, (_, slot) => {
    const all = site.running.filter((each) => each.slot === slot).sort((a, b) => a.epoch - b.epoch);
    return { slot, current: all.filter(({ retiring }) => !retiring), leaving: all.filter(({ retiring }) => retiring) };
  });
}

/** One replaces another. What has no room anywhere does not move: others, which may have, must not wait for it. */
const isOnTheMove = ({ current }: Slot): boolean => current.length > 1 && current.at(-1)?.hasNoRoom === false;

/** How many replicas are on their way off each node. */
function movesByNode({ now, sites }: KeeperState): Map<string, number> {
  const moving = new Map<string, number>();
  for (const site of sites) {
    for (const slot of slotsOf(site)) {
      const leaving = slot.leaving.filter(
        ({ retiringSince }) => retiringSince === null || now.getTime() - retiringSince.getTime() < moveMs,
      );
      const from = [...leaving, ...(isOnTheMove(slot) ? slot.current.slice(0, -1) : [])];
      for (const { nodeId, node } of from) {
        if (node === "draining" && nodeId !== null) moving.set(nodeId, (moving.get(nodeId) ?? 0) + 1);
      }
    }
  }
  return moving;
}

function leave(
  { now, drainMs }: KeeperState,
  { deploymentId, replicas }: Site,
  replica: Replica,
  current: readonly Replica[],
): ReplicaStep[] {
  const { taskId, slot, node, endedAt, unroutedAt, published } = replica;
  const remove = (why: string): ReplicaStep[] => [{ do: "remove", taskId, deploymentId, why }];
  if (node === "gone") return remove("its node is gone");
  // Whatever was to take its place may have failed since: then this one is all that the slot has.
  const isNeeded = endedAt === null && published && slot < replicas && !current.some(isUp);
  const waitMs = endedAt === null ? drainMs : 0;
  if (isNeeded || unroutedAt === null || now.getTime() - unroutedAt.getTime() < waitMs) return [];
  return remove("another replica has taken its place");
}

function keepSlot(state: KeeperState, site: Site, slot: number, current: readonly Replica[]): ReplicaStep[] {
  const { deploymentId } = site;
  const newest = current.at(-1);
  const remove = ({ taskId }: Replica, why: string): ReplicaStep => ({ do: "remove", taskId, deploymentId, why });
  const replace = (cause: Cause): ReplicaStep[] =>
    mayReplace(state, site, slot, cause, newest) ? [{ do: "replace", deploymentId, slot, cause }] : [];
  if (slot >= site.replicas) return current.map(({ taskId }) => ({ do: "retire", taskId, deploymentId }));
  if (newest === undefined) return replace("missing");
  const older = current.slice(0, -1);
  const gone = current.filter(({ node }) => node === "gone");
  if (gone.length > 0) {
    const left = gone.length < current.length;
    return [...gone.map((each) => remove(each, "its node is gone")), ...(left ? [] : replace("node fenced"))];
  }
  if (older.length === 0) {
    const cause = causeOf(newest);
    return cause === null || (state.storm && (cause === "node lost" || cause === "node quarantined"))
      ? []
      : replace(cause);
  }
  // A container that may be published by the time this is written leaves the edges' tables before it goes.
  const dismiss = (replica: Replica, why: string): ReplicaStep =>
    replica.nodeId === null || replica.endedAt !== null
      ? remove(replica, why)
      : { do: "retire", taskId: replica.taskId, deploymentId };
  if (!isGood(newest) && older.some(isGood)) return [dismiss(newest, "what it was to replace serves again")];
  if (isUp(newest)) return older.map((each) => dismiss(each, "another one serves"));
  const isLost = newest.node === "lost" || newest.node === "quarantined";
  if (newest.endedAt === null && (!isLost || state.storm)) return [];
  // Both may be out of reach, and what a lost node ran may run on.
  return serves(newest) && !older.some(serves)
    ? older.map((each) => dismiss(each, "another one served last"))
    : [dismiss(newest, "it did not come up in time to replace another")];
}

/** Serves by the last word of its node. */
const serves = ({ serving, endedAt }: Replica): boolean => serving && endedAt === null;

/** Serves for certain, be it on a node that is being emptied. */
const isUp = (replica: Replica): boolean =>
  serves(replica) && replica.connected && (replica.node === "present" || replica.node === "draining");

/** Serves for certain, on a node that is to keep it. */
const isGood = (replica: Replica): boolean => isUp(replica) && replica.node === "present";

/** Why the only replica of a slot needs another beside it; null: it does not. */
function causeOf({ node, nodeId, endedAt }: Replica): Cause | null {
  if (nodeId === null) return null;
  if (node === "lost") return "node lost";
  if (node === "quarantined") return "node quarantined";
  if (endedAt !== null) return "ended";
  return node === "draining" ? "node draining" : null;
}

function mayReplace({ now }: KeeperState, site: Site, slot: number, cause: Cause, newest?: Replica): boolean {
  const ended = cause === "ended" ? newest : undefined;
  const at = replacedAt(site.replaced.get(slot), ended && { served: ended.served, at: ended.endedAt });
  return at === null || now >= at;
}

/**
 * From when on another one is made in a slot; null: at once. What keeps failing is tried more and more rarely, and never given
 * up. One that has served and then ended has come to its end by itself, after its node has tried again and again; one that
 * never served may have had the wrong node. `ended`: what is there has.
 */
export function replacedAt(
  before: { count: number; lastAt: Date } | undefined,
  ended: { served: boolean; at: Date | null } | undefined,
): Date | null {
  if (before === undefined && ended === undefined) return null;
  const { firstMs, maxMs } = ended?.served ? endedBackOff : otherBackOff;
  const since = Math.max(ended?.at?.getTime() ?? 0, before?.lastAt.getTime() ?? 0);
  return new Date(since + Math.min(firstMs * 2 ** Math.max((before?.count ?? 1) - 1, 0), maxMs));
}
