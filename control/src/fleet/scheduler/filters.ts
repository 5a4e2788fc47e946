// @pure
import { type TaskKind, taskKinds } from "@svc/proto/kinds";
import { rulesOf } from "../tasks/kinds/index.ts";
import type { NodeRoom, SchedulableNode } from "./node-room.ts";

/** What is placed, with the room that is to be set aside for it: it stays on its node until it is gone. */
export interface PlacementRequest {
  id: string;
  projectId: string;
  ownerId: string;
  kind: TaskKind;
  /** The same for tasks that run the same thing. */
  specHash: string;
  memoryMb: number;
  cpuMillicores: number;
  pidsLimit: number;
  /** What its node's disk has to hold: its image, or what it keeps; 0: not known. */
  diskMb: number;
  /** Null: any. */
  platform: { os: string; architecture: string } | null;
  /** Labels that its node must have, by its operators. */
  nodeSelector: Readonly<Record<string, string>>;
  /** The one node that it can run on, since what it works on is there; null: any that suits its kind. */
  pinnedTo: string | null;
  /** A build of its user's own Dockerfile. */
  hasDockerfile: boolean;
}

interface Filter {
  reason: string;
  passes(room: NodeRoom, request: PlacementRequest): boolean;
  /** It is for what runs there: once some of that ends, the node may take it. */
  isAboutRoom?: true;
  /** What was asked for and what there is, for people; absent where `reason` says it all. */
  wanted?(request: PlacementRequest, room: NodeRoom): string | number;
  found?(room: NodeRoom, request: PlacementRequest): string | number;
}

/** Resources of which no node may have as much as is asked for, however empty. */
const sizes: readonly {
  reason: string;
  whole(node: SchedulableNode): number;
  wanted(request: PlacementRequest): number;
}[] = [
  {
    reason: "less memory in all than it needs",
    whole: ({ memoryMb }) => memoryMb,
    wanted: ({ memoryMb }) => memoryMb,
  },
  {
    reason: "fewer processors in all than it needs",
    whole: ({ cpuMillicores }) => cpuMillicores,
    wanted: ({ cpuMillicores }) => cpuMillicores,
  },
  {
    reason: "fewer process ids in all than it needs",
    whole: ({ pids }) => pids,
    wanted: ({ pidsLimit }) => pidsLimit,
  },
];

const platformText = ({ os, architecture }: { os: string; architecture: string }) => `${os}/${architecture}`;
const labelText = (labels: Readonly<Record<string, string>>, isTold: (name: string) => boolean): string =>
  Object.entries(labels)
    .filter(([name]) => isTold(name))
    .map(([name, value]) => `${name}=${value}`)
    .sort()
    .join(", ");

function hasLabels(labels: Readonly<Record<string, string>>, selector: Readonly<Record<string, string>>): boolean {
  for (const name in selector) if (labels[name] !== selector[name]) return false;
  return true;
}

/** The first that does not let a node pass is the reason that is counted. */
const filters: readonly Filter[] = [
  {
    reason: "not connected",
    passes: ({ node }) => node.link === "connected" || node.link === "suspect",
    found: ({ node }) => node.link,
  },
  { reason: "silent for some seconds", passes: ({ node }) => node.link !== "suspect" },
  { reason: "cordoned", passes: ({ node }) => node.schedulable || node.draining },
  { reason: "draining", passes: ({ node }) => !node.draining || node.drained === true },
  { reason: "drained", passes: ({ node }) => node.drained !== true },
  { reason: "quarantined", passes: ({ node }) => !node.quarantined },
  { reason: "disk almost full", passes: ({ node }) => !node.diskFull },
  { reason: "memory almost used up", passes: ({ node }) => !node.memoryShort, isAboutRoom: true },
  { reason: "its container engine does not answer", passes: ({ node }) => !node.engineStalled },
  {
    reason: "a container engine that is too old for Dockerfiles and does not remap users",
    passes: ({ node }, { hasDockerfile }) => !hasDockerfile || !node.refusesDockerfiles,
  },
  {
    reason: "another platform",
    passes: ({ node }, { platform }) =>
      platform === null || (platform.os === node.os && platform.architecture === node.architecture),
    wanted: ({ platform }) => (platform === null ? "any" : platformText(platform)),
    found: ({ node }) => platformText(node),
  },
  {
    reason: "without the labels of the plan, which operators set",
    passes: ({ node }, { nodeSelector }) => hasLabels(node.labels, nodeSelector),
    wanted: ({ nodeSelector }, { node }) => labelText(nodeSelector, (name) => node.labels[name] !== nodeSelector[name]),
    found: ({ node }, { nodeSelector }) => labelText(node.labels, (name) => Object.hasOwn(nodeSelector, name)),
  },
  {
    reason: "another node than the one that it is bound to",
    passes: ({ node }, { pinnedTo }) => pinnedTo === null || pinnedTo === node.id,
  },
  {
    reason: "too little memory",
    isAboutRoom: true,
    passes: (room, request) => room.memoryMb >= request.memoryMb,
    wanted: ({ memoryMb }) => memoryMb,
    found: ({ memoryMb }) => memoryMb,
  },
  {
    reason: "too few processor shares",
    isAboutRoom: true,
    passes: (room, request) => room.cpuMillicores >= request.cpuMillicores,
    wanted: ({ cpuMillicores }) => cpuMillicores,
    found: ({ cpuMillicores }) => cpuMillicores,
  },
  {
    reason: "too few process ids",
    isAboutRoom: true,
    passes: (room, request) => room.pids >= request.pidsLimit,
    wanted: ({ pidsLimit }) => pidsLimit,
    found: ({ pids }) => pids,
  },
  {
    reason: "a disk smaller than it needs",
    passes: ({ node }, { diskMb }) => node.diskMb === 0 || node.diskMb >= diskMb,
    wanted: ({ diskMb }) => diskMb,
    found: ({ node }) => node.diskMb,
  },
  ...taskKinds.flatMap(crowdFilter),
];

/** Of some kinds a node takes so many at once. */
function crowdFilter(kind: TaskKind): Filter[] {
  const { crowd } = rulesOf(kind);
  if (crowd === null) return [];
  const left = ({ counts }: NodeRoom): number => Math.max(crowd.max - (counts[kind] ?? 0), 0);
  return [
    {
      reason: crowd.reason,
      passes: (room, request) => request.kind !== kind || left(room) > 0,
      wanted: () => 1,
      found: left,
    },
  ];
}

/** The first reason why the node does not take it; null: it does. */
export function firstProblem(room: NodeRoom, request: PlacementRequest): string | null {
  for (const filter of filters) if (!filter.passes(room, request)) return filter.reason;
  return null;
}

/** Why a node does not take something: what was asked for and what it has, null where the reason says it all. */
export interface Problem {
  reason: string;
  wanted: string | number | null;
  found: string | number | null;
}

/** Every reason why the node does not take it; empty: it does. */
export const allProblems = (room: NodeRoom, request: PlacementRequest): Problem[] =>
  filters
    .filter((filter) => !filter.passes(room, request))
    .map(({ reason, wanted, found }) => ({
      reason,
      wanted: wanted?.(request, room) ?? null,
      found: found?.(room, request) ?? null,
    }));

/** Why not even an empty node could take it: the first resource of which none has enough; null: one could. */
export function sizeProblem(rooms: readonly NodeRoom[], request: PlacementRequest): string | null {
  if (rooms.length === 0) return null;
  // A node that has never said what it has may be large.
  const isTooSmall = (whole: number, wanted: number) => whole > 0 && whole < wanted;
  const missing = sizes.find(({ whole, wanted }) =>
    rooms.every(({ node }) => isTooSmall(whole(node), wanted(request))),
  );
  return missing?.reason ?? null;
}

/** Whether a reason says that waiting does not help as long as the fleet has the nodes that it has. */
export const isAboutSize = (reason: string): boolean => sizes.some((size) => size.reason === reason);

/** Whether a reason says that the node would take it if less ran there. */
export const isAboutRoom = (reason: string): boolean =>
  filters.some((filter) => filter.isAboutRoom === true && filter.reason === reason);
