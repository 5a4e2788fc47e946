// @pure

import { rulesOf } from "../tasks/kinds/index.ts";
import type { PlacementRequest } from "./filters.ts";
import type { NodeRoom } from "./node-room.ts";

/** What past rounds know of nodes. Soft: nothing that is right or wrong rests on it. */
export interface Hints {
  /** Nodes that have the image of a spec, by the spec's hash. */
  images: ReadonlyMap<string, ReadonlySet<string>>;
  /** How often tasks of a project have failed on a node lately, by `failureKey`. */
  failures: ReadonlyMap<string, number>;
}

/** Where the scheduler of this process leaves what it knows, for those who explain its decisions; null while it does not lead. */
export interface SchedulerMemory {
  hints: Hints | null;
}

export const noHints: Hints = { images: new Map(), failures: new Map() };
export const failureKey = (nodeId: string, projectId: string): string => `${nodeId}/${projectId}`;

/** So many failures of one project on one node within five minutes send its next container elsewhere. */
export const failuresMax = 5;

/** The parts of a score; the node with the highest total is taken. */
export interface Score {
  total: number;
  /** 0 to 18: how full processor and memory are with it. For a build how empty, and how few builds. */
  fit: number;
  /** The node has the image. */
  image: number;
  /** 0 or less: containers of the deployment in the node's zone. */
  zone: number;
  /** 0 or less: it failed there again and again. */
  failures: number;
}

const fitMax = 18;
const imageBonus = 4;
/** More than fit and image together, so that zones come before both. */
const zonePenalty = 25;
/** More than all else together. */
const failuresPenalty = 1_000;
const crowdPenalty = 100;

/** The share of `whole` that is free after `wanted` of `free` is taken. */
const share = (free: number, wanted: number, whole: number): number =>
  whole <= 0 ? 0 : Math.min(Math.max((free - wanted) / whole, 0), 1);

/**
 * How well a node that has room for `request` suits it. A container goes where processor and memory are used up
 * together, so that large ones find room elsewhere; a build goes where least runs, so that it slows no site down.
 * `inZone`: containers of the deployment in the node's zone.
 */
export function scoreOf(room: NodeRoom, request: PlacementRequest, hints: Hints, inZone: number): Score {
  const { node } = room;
  const freeMemory = share(room.memoryMb, request.memoryMb, node.memoryMb);
  const freeCpu = share(room.cpuMillicores, request.cpuMillicores, node.cpuMillicores);
  const fullness = Math.min(Math.max(20 - 10 ** freeMemory - 10 ** freeCpu, 0), fitMax);
  const isIdle = rulesOf(request.kind).placement === "idle";
  const fit = isIdle ? fitMax - fullness - crowdPenalty * (room.counts[request.kind] ?? 0) : fullness;
  const image = hints.images.get(request.specHash)?.has(node.id) === true ? imageBonus : 0;
  const zone = isIdle || inZone === 0 ? 0 : -zonePenalty * inZone;
  const failed = hints.failures.size > 0 && (hints.failures.get(failureKey(node.id, request.projectId)) ?? 0);
  const failures = failed !== false && failed >= failuresMax ? -failuresPenalty : 0;
  return { total: fit + image + zone + failures, fit, image, zone, failures };
}
