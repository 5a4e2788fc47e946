/** A node as the scheduler sees it. */
export interface SchedulableNode {
  id: string;
  /** A live, reconciled stream. */
  connected: boolean;
  /** Neither cordoned nor draining. */
  schedulable: boolean;
  /** Below its floor of free disk space. */
  diskFull: boolean;
  os: string;
  architecture: string;
  memoryMb: number;
  cpuMillicores: number;
  pids: number;
}

/** What is placed: it stays on its node until it is gone. */
export interface PlacementRequest {
  id: string;
  projectId: string;
  deploymentId: string;
  kind: "build" | "serve";
  memoryMb: number;
  cpuMillicores: number;
  pidsLimit: number;
  /** Null: any. */
  platform: { os: string; architecture: string } | null;
}

/** Room that is taken on a node, counted from placements whether their node answers or not. */
export interface Reservation {
  nodeId: string;
  projectId: string;
  kind: "build" | "serve";
  memoryMb: number;
  cpuMillicores: number;
  pidsLimit: number;
}

interface Free {
  node: SchedulableNode;
  memoryMb: number;
  cpuMillicores: number;
  pids: number;
  /** Containers of the same project: spread over nodes. */
  sameProject: number;
  builds: number;
}

/** Builds share the processor with sites; more than this many at once on one node starve both. */
const maxBuildsPerNode = 2;

const filters: { reason: string; passes(free: Free, request: PlacementRequest): boolean }[] = [
  { reason: "not connected", passes: ({ node }) => node.connected },
  { reason: "cordoned or draining", passes: ({ node }) => node.schedulable },
  { reason: "disk almost full", passes: ({ node }) => !node.diskFull },
  {
    reason: "another platform",
    passes: ({ node }, { platform }) =>
      platform === null || (platform.os === node.os && platform.architecture === node.architecture),
  },
  { reason: "too little memory", passes: (free, request) => free.memoryMb >= request.memoryMb },
  { reason: "too few processor shares", passes: (free, request) => free.cpuMillicores >= request.cpuMillicores },
  { reason: "too few process ids", passes: (free, request) => free.pids >= request.pidsLimit },
  { reason: "busy building", passes: (free, request) => request.kind !== "build" || free.builds < maxBuildsPerNode },
];

export type Decision = { nodeId: string } | { refused: Record<string, number> };

/**
 * Where each request goes, in the order given, each counting what the ones before it took.
 * A container goes to the node with the fewest of its project, then to the one where it fits
 * tightest, so that large requests still find room. A build goes where least else runs, so that it
 * slows no site down. Ties by id, from opposite ends. A request that fits nowhere
 * gets, per filter, how many nodes it refused.
 */
export function place(
  nodes: readonly SchedulableNode[],
  taken: readonly Reservation[],
  requests: readonly PlacementRequest[],
): Map<string, Decision> {
  const reservations = [...taken];
  const decisions = new Map<string, Decision>();
  for (const request of requests) {
    const refused: Record<string, number> = {};
    const feasible = nodes
      .map((node) => freeOf(node, reservations, request))
      .filter((free) => {
        const failed = filters.find((filter) => !filter.passes(free, request));
        if (failed) refused[failed.reason] = (refused[failed.reason] ?? 0) + 1;
        return failed === undefined;
      })
      .sort(request.kind === "build" ? emptiestFirst : tightestFirst);
    const [best] = feasible;
    if (best === undefined) {
      decisions.set(request.id, { refused });
      continue;
    }
    decisions.set(request.id, { nodeId: best.node.id });
    reservations.push({ ...request, nodeId: best.node.id });
  }
  return decisions;
}

const tightestFirst = (a: Free, b: Free) =>
  a.sameProject - b.sameProject || a.memoryMb - b.memoryMb || (a.node.id < b.node.id ? -1 : 1);

const emptiestFirst = (a: Free, b: Free) =>
  a.builds - b.builds || b.memoryMb - a.memoryMb || (a.node.id < b.node.id ? 1 : -1);

function freeOf(node: SchedulableNode, reservations: readonly Reservation[], request: PlacementRequest): Free {
  const free: Free = {
    node,
    memoryMb: node.memoryMb,
    cpuMillicores: node.cpuMillicores,
    pids: node.pids,
    sameProject: 0,
    builds: 0,
  };
  for (const taken of reservations) {
    if (taken.nodeId !== node.id) continue;
    free.memoryMb -= taken.memoryMb;
    free.cpuMillicores -= taken.cpuMillicores;
    free.pids -= taken.pidsLimit;
    if (taken.kind === "build") free.builds += 1;
    else if (taken.projectId === request.projectId) free.sameProject += 1;
  }
  return free;
}

/** "2 nodes: too little memory; 1 node: not connected", for people. */
export function explainRefusal(refused: Readonly<Record<string, number>>): string {
  const parts = Object.entries(refused)
    .sort(([a, x], [b, y]) => y - x || (a < b ? -1 : 1))
    .map(([reason, count]) => `${count} ${count === 1 ? "node" : "nodes"}: ${reason}`);
  return parts.length === 0 ? "no node has joined the cluster" : parts.join("; ");
}
