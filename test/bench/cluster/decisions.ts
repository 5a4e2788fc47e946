import { pathToFileURL } from "node:url";
import { createRoom, type Room } from "@svc/control/fleet/scheduler/node-room";
import {
  type PlacementRequest,
  placeIn,
  type Reservation,
  type SchedulableNode,
} from "@svc/control/fleet/scheduler/placement";
import { seededNumbers } from "@svc/runtime/testing/random";
import { median } from "../table.ts";

/** What deciding costs and how tight it packs: all samples, without anything that stores a decision. */
export interface DecisionsBench {
  nodes: number;
  requests: number;
  /** One round with labels, platforms and spread; the index of free room is made in it. */
  decisionsPerSecond: { empty: number[]; full90: number[] };
  /** The same, without making the index. */
  decidingPerSecond: { empty: number[]; full90: number[] };
  /** Making the index of free room, with as many reservations as a fleet that is 90 % full has. */
  indexMs: number[];
  reservationsAt90: number;
  /** A round of 10,000 requests of one class that fit nowhere. */
  blockedRoundMs: number[];
  /** The share of processor and memory that is used when the fleet is full, against a look at every node. */
  packing: { sampled: number[]; fullScan: number[]; worseByPercent: number[] };
}

const nodesTotal = 5_000;
const requestsTotal = 10_000;
const runs = 5;
const packedNodes = 500;

const pick = <const T>(random: () => number, [first, ...others]: readonly [T, ...T[]]): T =>
  [first, ...others][Math.floor(random() * (others.length + 1))] ?? first;

interface Size {
  memoryMb: number;
  cpuMillicores: number;
}

const machines: readonly [Size, ...Size[]] = [
  { memoryMb: 8_192, cpuMillicores: 4_000 },
  { memoryMb: 16_384, cpuMillicores: 8_000 },
  { memoryMb: 32_768, cpuMillicores: 16_000 },
];

const plans: readonly [Size, ...Size[]] = [
  { memoryMb: 128, cpuMillicores: 100 },
  { memoryMb: 256, cpuMillicores: 250 },
  { memoryMb: 512, cpuMillicores: 250 },
  { memoryMb: 1_024, cpuMillicores: 500 },
  { memoryMb: 2_048, cpuMillicores: 1_000 },
];

const inZone = (zone: string, disk: string) => ({ zone, labels: { zone, disk } });

/** Machines of three sizes in three zones, half with fast disks, one in ten of another platform. */
const aFleet = (random: () => number, size: number): SchedulableNode[] =>
  Array.from({ length: size }, (_, index) => ({
    id: `node-${String(index).padStart(5, "0")}`,
    link: "connected",
    ...{
      schedulable: true,
      draining: false,
      quarantined: false,
      diskFull: false,
      memoryShort: false,
      engineStalled: false,
      refusesDockerfiles: false,
    },
    os: "linux",
    architecture: random() < 0.1 ? "arm64" : "amd64",
    ...inZone(pick(random, ["a", "b", "c"]), pick(random, ["fast", "slow"])),
    ...pick(random, machines),
    ...{ pids: 65_536, diskMb: 500_000 },
  }));

/** Containers of deployments with one to three replicas; a third asks for fast disks, one in ten for a platform. */
function* requestsFor(random: () => number, name: string): Generator<PlacementRequest> {
  for (let deployment = 0; ; deployment += 1) {
    const shape = {
      ...{
        projectId: `${name}-${deployment}`,
        ownerId: `${name}-${deployment}`,
        specHash: `${name}-${deployment}`,
      },
      ...pick(random, plans),
      ...{ kind: "serve" as const, pidsLimit: 128, diskMb: 200, hasDockerfile: false },
      platform: random() < 0.1 ? { os: "linux", architecture: "arm64" } : { os: "linux", architecture: "amd64" },
      nodeSelector: (random() < 1 / 3 ? { disk: "fast" } : {}) as Record<string, string>,
      pinnedTo: null,
    };
    const replicas = 1 + Math.floor(random() * 3);
    for (let replica = 0; replica < replicas; replica += 1) yield { ...shape, id: `${name}-${deployment}-${replica}` };
  }
}

function take(requests: Generator<PlacementRequest>, count: number): PlacementRequest[] {
  return Array.from({ length: count }, () => requests.next().value as PlacementRequest);
}

/** How much of processor and memory together is taken, from 0 to 1. */
function usedShare({ nodes }: Room): number {
  let [free, whole] = [0, 0];
  for (const { node, memoryMb, cpuMillicores } of nodes) {
    free += memoryMb / node.memoryMb + cpuMillicores / node.cpuMillicores;
    whole += 2;
  }
  return 1 - free / whole;
}

/** Places until `share` of processor and memory is taken. */
function fill(nodes: readonly SchedulableNode[], requests: Generator<PlacementRequest>, share: number): Reservation[] {
  const taken: Reservation[] = [];
  const room = createRoom(nodes, []);
  while (usedShare(room) < share) {
    const batch = take(requests, 1_000);
    const decisions = placeIn(room, batch);
    const before = taken.length;
    for (const request of batch) {
      const decision = decisions.get(request.id);
      if (decision !== undefined && "nodeId" in decision) taken.push({ ...request, nodeId: decision.nodeId });
    }
    if (taken.length === before) throw new Error("the fleet cannot be filled so far");
  }
  return taken;
}

function timed<T>(work: () => T): { result: T; ms: number } {
  const startedAt = performance.now();
  const result = work();
  return { result, ms: performance.now() - startedAt };
}

/** The tightest of all nodes that take it: what a scheduler without limits on its time would choose. */
function fullScan(room: Room, request: PlacementRequest): string | null {
  let best: { id: string; tightness: number } | null = null;
  for (const { node, memoryMb, cpuMillicores } of room.nodes) {
    const { platform, nodeSelector } = request;
    if (platform !== null && platform.architecture !== node.architecture) continue;
    if (Object.entries(nodeSelector).some(([name, value]) => node.labels[name] !== value)) continue;
    if (memoryMb < request.memoryMb || cpuMillicores < request.cpuMillicores) continue;
    const freeMemory = (memoryMb - request.memoryMb) / node.memoryMb;
    const freeCpu = (cpuMillicores - request.cpuMillicores) / node.cpuMillicores;
    const tightness = 20 - 10 ** freeMemory - 10 ** freeCpu;
    if (best === null || tightness > best.tightness) best = { id: node.id, tightness };
  }
  return best?.id ?? null;
}

/** The share that is in use when the first request is refused, of requests that every machine would take. */
function packed(
  nodes: readonly SchedulableNode[],
  seed: number,
  choose: (room: Room, request: PlacementRequest) => string | null,
): number {
  const requests = requestsFor(seededNumbers(seed), "packed");
  const room = createRoom(nodes, []);
  for (;;) {
    const { value: request } = requests.next();
    // Spread and labels would keep both from packing.
    const alone = { ...(request as PlacementRequest), platform: null, nodeSelector: {}, deploymentId: request.id };
    if (choose(room, alone) === null) return usedShare(room);
  }
}

function sampledChoice(room: Room, request: PlacementRequest): string | null {
  const decision = placeIn(room, [request]).get(request.id);
  return decision !== undefined && "nodeId" in decision ? decision.nodeId : null;
}

function scannedChoice(room: Room, request: PlacementRequest): string | null {
  const nodeId = fullScan(room, request);
  if (nodeId !== null) room.take({ ...request, nodeId });
  return nodeId;
}

/** Five runs of each, after one that warms up. Takes about half a minute of one processor. */
export async function benchDecisions(): Promise<DecisionsBench> {
  const nodes = aFleet(seededNumbers(1), nodesTotal);
  const filling = fill(nodes, requestsFor(seededNumbers(2), "filling"), 0.9);
  const bench: DecisionsBench = {
    nodes: nodesTotal,
    requests: requestsTotal,
    decisionsPerSecond: { empty: [], full90: [] },
    decidingPerSecond: { empty: [], full90: [] },
    indexMs: [],
    reservationsAt90: filling.length,
    blockedRoundMs: [],
    packing: { sampled: [], fullScan: [], worseByPercent: [] },
  };
  for (let run = 0; run <= runs; run += 1) {
    const isWarm = run > 0;
    for (const [name, taken] of [
      ["empty", []],
      ["full90", filling],
    ] as const) {
      const requests = take(requestsFor(seededNumbers(10 + run), "new"), requestsTotal);
      const index = timed(() => createRoom(nodes, taken));
      const deciding = timed(() => placeIn(index.result, requests));
      if (!isWarm) continue;
      bench.decisionsPerSecond[name].push((requestsTotal / (index.ms + deciding.ms)) * 1_000);
      bench.decidingPerSecond[name].push((requestsTotal / deciding.ms) * 1_000);
      if (name === "full90") bench.indexMs.push(index.ms);
    }
    const blocked = take(requestsFor(seededNumbers(20 + run), "blocked"), requestsTotal).map((request) => ({
      ...request,
      ...{ memoryMb: 30_000, cpuMillicores: 8_000, platform: null, nodeSelector: { disk: "fast", zone: "a" } },
    }));
    const round = timed(() => placeIn(createRoom(nodes, filling), blocked));
    if (isWarm) bench.blockedRoundMs.push(round.ms);
    if (!isWarm) continue;
    const small = aFleet(seededNumbers(30 + run), packedNodes);
    const sampled = packed(small, 40 + run, sampledChoice);
    const scanned = packed(small, 40 + run, scannedChoice);
    bench.packing.sampled.push(sampled);
    bench.packing.fullScan.push(scanned);
    bench.packing.worseByPercent.push((1 - sampled / scanned) * 100);
  }
  return bench;
}

/** The same as lines for people. */
export function describeDecisions(bench: DecisionsBench): string {
  const perSecond = (samples: readonly number[]) => `${Math.round(median(samples)).toLocaleString("en")}/s`;
  const { empty, full90 } = bench.decisionsPerSecond;
  return [
    `${bench.nodes} nodes, ${bench.requests} requests in one round, medians of ${runs}`,
    `decisions, empty fleet:    ${perSecond(empty)} (without making the index ${perSecond(bench.decidingPerSecond.empty)})`,
    `decisions, 90 % full:      ${perSecond(full90)} (without making the index ${perSecond(bench.decidingPerSecond.full90)})`,
    `index of ${bench.reservationsAt90} reservations: ${median(bench.indexMs).toFixed(1)} ms`,
    `10,000 of one class that fit nowhere: ${median(bench.blockedRoundMs).toFixed(1)} ms`,
    `used when full: ${(median(bench.packing.sampled) * 100).toFixed(1)} %, with a look at every node ${(median(bench.packing.fullScan) * 100).toFixed(1)} %: worse by ${median(bench.packing.worseByPercent).toFixed(2)} %`,
  ].join("\n");
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const bench = await benchDecisions();
  process.stdout.write(`${describeDecisions(bench)}\n${JSON.stringify(bench)}\n`);
}
