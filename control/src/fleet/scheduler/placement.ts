// @pure

import { rulesOf } from "../tasks/kinds/index.ts";
import { firstProblem, isAboutSize, type PlacementRequest, sizeProblem } from "./filters.ts";
import { createRoom, type NodeRoom, type Reservation, type Room, type SchedulableNode } from "./node-room.ts";
import { type Hints, noHints, scoreOf } from "./score.ts";

export type { PlacementRequest } from "./filters.ts";
export type { Reservation, SchedulableNode } from "./node-room.ts";
export type { Hints } from "./score.ts";

export type Decision = { nodeId: string } | { refused: Readonly<Record<string, number>> };

export interface PlaceOptions {
  hints?: Hints | undefined;
  /** Where the look around the nodes begins; the same seed, nodes and requests give the same decisions. */
  seed?: number | undefined;
}

/** So many nodes that would do are compared, or log2 of all nodes if that is more: enough to pack nearly as tight as all would. */
const candidatesMin = 16;
/** Nodes that have the image already are compared besides. */
const imageCandidatesMax = 4;

/**
 * Where each request goes, in the order given, each counting what the ones before it took. Two containers of one
 * deployment share a node only when no other one takes them. A request that fits nowhere gets, per filter, how many
 * nodes it refused.
 */
export function place(
  nodes: readonly SchedulableNode[],
  taken: readonly Reservation[],
  requests: readonly PlacementRequest[],
  options: PlaceOptions = {},
): Map<string, Decision> {
  return placeIn(createRoom(nodes, taken), requests, options);
}

/** The same, in a room that is there already; what is given away is taken in it. */
export function placeIn(
  room: Room,
  requests: readonly PlacementRequest[],
  { hints = noHints, seed = 0 }: PlaceOptions = {},
): Map<string, Decision> {
  const classes = new Map<string, RequestClass>();
  const decisions = new Map<string, Decision>();
  for (const request of requests) {
    if (request.pinnedTo !== null) {
      decisions.set(request.id, placePinned(room, request, request.pinnedTo));
      continue;
    }
    const key = classKey(request);
    const known = classes.get(key) ?? newClass(room.nodes.length);
    classes.set(key, known);
    const chosen = known.answer === null ? choose(room, known, request, hints, seed) : null;
    if (chosen === null) {
      // Once every node has refused one of them, the rest is told the same.
      known.answer ??= { refused: refusal(room, known, request) };
      decisions.set(request.id, known.answer);
      continue;
    }
    decisions.set(request.id, { nodeId: chosen.node.id });
    room.take({ ...request, nodeId: chosen.node.id });
  }
  return decisions;
}

/** On the node that it names or nowhere. The reason is that node's alone: what the others would say helps nobody. */
function placePinned(room: Room, request: PlacementRequest, nodeId: string): Decision {
  const named = room.of(nodeId);
  const problem = named === null ? "gone, the only one that it can run on" : firstProblem(named, request);
  if (problem !== null) return { refused: { [problem]: 1 } };
  room.take({ ...request, nodeId });
  return { nodeId };
}

/**
 * Requests that the same nodes refuse. Room only shrinks within a round, so a node that refused one of them is not
 * looked at again: thousands that fit nowhere cost one look at each node.
 */
interface RequestClass {
  /** For each place the next one, itself included, whose node may still take them; with shortcuts as they are found. */
  next: Int32Array;
  refused: Map<string, number>;
  /** What all of them get once every node has refused; null before. */
  answer: Decision | null;
}

const newClass = (nodes: number): RequestClass => ({
  next: Int32Array.from({ length: nodes + 1 }, (_, index) => index),
  refused: new Map(),
  answer: null,
});

function classKey({
  kind,
  memoryMb,
  cpuMillicores,
  pidsLimit,
  diskMb,
  platform,
  nodeSelector,
  hasDockerfile,
}: PlacementRequest): string {
  const labels = Object.keys(nodeSelector).length === 0 ? "" : JSON.stringify(Object.entries(nodeSelector).sort());
  const on = platform === null ? "" : `${platform.os}/${platform.architecture}`;
  return `${kind} ${hasDockerfile} ${memoryMb} ${cpuMillicores} ${pidsLimit} ${diskMb} ${on} ${labels}`;
}

/** The first place from `from` on whose node may still take requests of the class; the number of nodes when none does. */
function nextFrom({ next }: RequestClass, from: number): number {
  let found = from;
  while (next[found] !== found) found = next[found] ?? found;
  for (let at = from; at !== found; ) {
    const after = next[at] ?? found;
    next[at] = found;
    at = after;
  }
  return found;
}

/** The best of the nodes compared; null when none takes it. */
function choose(
  room: Room,
  known: RequestClass,
  request: PlacementRequest,
  hints: Hints,
  seed: number,
): NodeRoom | null {
  const replicas = counts(rulesOf(request.kind).placement === "fit" ? room.replicasOf(request.ownerId) : []);
  const size = room.nodes.length;
  const wanted = Math.max(candidatesMin, Math.ceil(Math.log2(size)));
  const start = size === 0 ? 0 : hash(request.id, seed) % size;
  const best = bestOf(room, request, hints, replicas);
  const shared: NodeRoom[] = [];
  let compared = 0;
  // Returns whether to go on.
  const look = (at: number): boolean => {
    const candidate = room.nodes[at];
    if (candidate === undefined) return false;
    const problem = firstProblem(candidate, request);
    if (problem !== null) {
      known.next[at] = at + 1;
      known.refused.set(problem, (known.refused.get(problem) ?? 0) + 1);
    } else if (replicas.has(at)) {
      shared.push(candidate);
    } else {
      best.compare(candidate);
      compared += 1;
    }
    return compared < wanted;
  };
  for (let at = nextFrom(known, start); at < size && look(at); ) at = nextFrom(known, at + 1);
  if (compared < wanted) {
    for (let at = nextFrom(known, 0); at < start && look(at); ) at = nextFrom(known, at + 1);
  }
  if (compared === 0) {
    const others = ({ index }: NodeRoom): number => replicas.get(index) ?? 0;
    const fewest = shared.reduce((least, each) => Math.min(least, others(each)), Number.POSITIVE_INFINITY);
    for (const each of shared) if (others(each) === fewest) best.compare(each);
    return best.found();
  }
  let withImage = 0;
  for (const nodeId of hints.images.get(request.specHash) ?? []) {
    const candidate = room.of(nodeId);
    if (withImage === imageCandidatesMax) break;
    if (candidate === null || replicas.has(candidate.index) || firstProblem(candidate, request) !== null) continue;
    best.compare(candidate);
    withImage += 1;
  }
  return best.found();
}

/** How often each value is there. */
function counts<T>(values: Iterable<T>): Map<T, number> {
  const counted = new Map<T, number>();
  for (const value of values) counted.set(value, (counted.get(value) ?? 0) + 1);
  return counted;
}

/** Keeps the best of what it is shown. Ties by id: what seeks an idle node begins at the other end. */
function bestOf(room: Room, request: PlacementRequest, hints: Hints, replicas: ReadonlyMap<number, number>) {
  const zones = new Map<string, number>();
  for (const [index, count] of replicas) {
    const zone = room.nodes[index]?.zone ?? "";
    zones.set(zone, (zones.get(zone) ?? 0) + count);
  }
  const isIdle = rulesOf(request.kind).placement === "idle";
  let best: NodeRoom | null = null;
  let bestTotal = 0;
  return {
    compare(candidate: NodeRoom): void {
      const { total } = scoreOf(candidate, request, hints, zones.get(candidate.zone) ?? 0);
      const isBetter =
        best === null || total > bestTotal || (total === bestTotal && isIdle === candidate.node.id > best.node.id);
      if (!isBetter) return;
      best = candidate;
      bestTotal = total;
    },
    found: (): NodeRoom | null => best,
  };
}

/** FNV-1a: the same number for the same text on every machine. */
function hash(text: string, seed: number): number {
  let mixed = 0x811c9dc5 ^ seed;
  for (let at = 0; at < text.length; at += 1) mixed = Math.imul(mixed ^ text.charCodeAt(at), 0x01000193);
  mixed ^= mixed >>> 15;
  return mixed >>> 0;
}

/** Per filter how many nodes it refused; where no node is large enough even when empty, that alone. */
function refusal({ nodes }: Room, { refused }: RequestClass, request: PlacementRequest): Record<string, number> {
  const size = sizeProblem(nodes, request);
  return size === null ? Object.fromEntries(refused) : { [size]: nodes.length };
}

/** "2 nodes: too little memory; 1 node: not connected", for people. */
export function explainRefusal(refused: Readonly<Record<string, number>>): string {
  const reasons = Object.entries(refused).sort(([a, x], [b, y]) => y - x || (a < b ? -1 : 1));
  if (reasons.length === 0) return "no node has joined the cluster";
  const [size] = reasons.find(([reason]) => isAboutSize(reason)) ?? [];
  if (size !== undefined) return `every node has ${size}; a larger node or a smaller plan would help`;
  return reasons.map(([reason, nodes]) => `${nodes} ${nodes === 1 ? "node" : "nodes"}: ${reason}`).join("; ");
}
