// @pure

import { edgePhases, ownerKinds, runKinds, taskKinds } from "@svc/proto/kinds";
import { z } from "zod";

/**
 * Everything svc keeps in etcd: key builders and the shape of each value (JSON).
 * One writer per key: see docs/architecture.md. Nothing here is secret.
 */
export const prefix = {
  root: "/svc/",
  servers: "/svc/servers/",
  nodes: "/svc/nodes/",
  placements: "/svc/placements/",
  observations: "/svc/observations/",
  runs: "/svc/runs/",
  routes: "/svc/routes/",
  routeTable: "/svc/routes/table/",
  edges: "/svc/edges/",
  clocks: "/svc/clocks/",
} as const;

export const keys = {
  leader: "/svc/leader",
  clusterStatus: "/svc/cluster/status",
  /** The cluster epoch as of the last recovery, for a Postgres that is restored from before it; see recovery/. */
  clusterEpoch: "/svc/cluster/epoch",
  routesMeta: "/svc/routes/meta",
  /** Written with every change of placements: one that comes late, after the turn has ended, is refused. */
  schedulerTurn: "/svc/scheduler/turn",
  server: (serverId: string) => `${prefix.servers}${serverId}`,
  nodeSession: (nodeId: string) => `${prefix.nodes}${nodeId}/session`,
  placements: (nodeId: string) => `${prefix.placements}${nodeId}/`,
  placement: (nodeId: string, placementId: string) => `${prefix.placements}${nodeId}/${placementId}`,
  observations: (nodeId: string) => `${prefix.observations}${nodeId}/`,
  observation: (nodeId: string, placementId: string) => `${prefix.observations}${nodeId}/${placementId}`,
  runs: (nodeId: string) => `${prefix.runs}${nodeId}/`,
  run: (nodeId: string, attemptId: string) => `${prefix.runs}${nodeId}/${attemptId}`,
  route: (host: string) => `${prefix.routeTable}${host}`,
  edgeSession: (edgeId: string) => `${prefix.edges}${edgeId}/session`,
  edgeApplied: (edgeId: string) => `${prefix.edges}${edgeId}/applied`,
  /** By how many ms the clock of a daemon is ahead of control's; absent while that is within a second. */
  clock: (daemonId: string) => `${prefix.clocks}${daemonId}`,
} as const;

/** The parts after the prefix: ["<nodeId>", "<placementId>"] and the like. */
export const keyParts = (key: string, under: string): string[] => key.slice(under.length).split("/");

/** A control replica, under its lease. */
export const serverValue = z.object({
  serverId: z.string(),
  startedAt: z.string(),
  /** Ids of the master keys that it knows; the first is the one that it seals with. Absent from an older version. */
  masterKeyIds: z.array(z.string()).optional(),
  version: z.string().optional(),
  /** Where it serves the API, as host:port. */
  address: z.string().optional(),
  /** By how many ms its clock is ahead of that of Postgres; absent while that is within a second. */
  clockOffsetMs: z.number().optional(),
});

const capacity = z.object({
  memoryMb: z.number(),
  cpuMillicores: z.number(),
  pids: z.number(),
  diskMb: z.number(),
});

/** An agent's live stream. The key's mod revision is the session epoch. */
export const nodeSessionValue = z.object({
  serverId: z.string(),
  instanceId: z.string(),
  bootId: z.string(),
  address: z.string(),
  capacity,
  platform: z.object({ os: z.string(), architecture: z.string() }),
  version: z.string(),
  labels: z.record(z.string(), z.string()),
  connectedAt: z.string(),
  /** Set once the inventory has been compared with what is desired. */
  reconciled: z.boolean(),
  /** Its renewals have stayed away for half a lease: it gets nothing new. */
  suspect: z.boolean().default(false),
  /** Its stream has ended, and its lease has not. */
  detached: z.boolean().default(false),
  /** Which agent processes had the session before, newest last, as far as it tells two machines with one identity. */
  takeovers: z.array(z.object({ instanceId: z.string(), bootId: z.string(), at: z.string() })).default([]),
  /** When this boot of the machine took the session from another one, ISO 8601; null: it found none. */
  bootTookAt: z.string().nullable().default(null),
});

/** What the leader thinks of the whole cluster; written by it when that changes. */
export const clusterStatusValue = z.object({
  leaderId: z.string(),
  leadingSince: z.string(),
  /** Why no replica is replaced at the moment; null: they are. */
  storm: z.object({ reason: z.string(), since: z.string() }).nullable(),
});

export const edgeSessionValue = z.object({
  serverId: z.string(),
  instanceId: z.string(),
  bootId: z.string(),
  address: z.string(),
  version: z.string(),
  connectedAt: z.string(),
  /** Its stream has ended, and its lease has not. */
  detached: z.boolean().default(false),
  /** It dials entrances by TLS; absent from an older one. */
  knowsEntrances: z.boolean().default(false),
});

/** What an edge said of itself; texts are null when there is nothing. */
const edgeStateValue = z.object({
  /** Of the Drain that it heeds. */
  generation: z.number().int(),
  phase: z.enum(edgePhases),
  lacks: z.string().nullable(),
  unready: z.string().nullable(),
});

export const edgeAppliedValue = z.object({
  generation: z.number().int(),
  digest: z.string(),
  error: z.string().nullable(),
  /** Hosts that keep an older route; with `behindHostsMax` of them there may be more. */
  behindHosts: z.array(z.string()),
  /** Tokens of challenges of CAs that it answers; absent while it has not said so. */
  challenges: z.array(z.string()).optional(),
  /** Why certificates that it was told are not in force there. */
  certificateProblem: z.string().nullable().optional(),
  /** Absent while its present session has not said it, and of a router that never does. */
  state: edgeStateValue.optional(),
  at: z.string(),
});

export const behindHostsMax = 1000;

/** What one node is to run. The whole spec, with its secrets, is in Postgres (table `task`). */
export const placementValue = z.object({
  placementId: z.string(),
  epoch: z.number().int(),
  desired: z.enum(["running", "stopped", "removed"]),
  kind: z.enum(taskKinds),
  specHash: z.string(),
  projectId: z.string(),
  ownerKind: z.enum(ownerKinds),
  ownerId: z.string(),
  channel: z.string(),
  memoryMb: z.number().int(),
  cpuMillicores: z.number().int(),
  pidsLimit: z.number().int(),
  /** What is set aside for it; written by a control of before that was apart from its limits, both are absent. */
  reservedMemoryMb: z.number().int().optional(),
  reservedCpuMillicores: z.number().int().optional(),
  /** What it may write to the disk; written by a control of before that was bounded, it is absent. */
  storageMb: z.number().int().default(0),
  /** Rises when the six above change; written by a control of before they could, it is absent. */
  limitsGeneration: z.number().int().default(0),
  /** How long it may serve what is open once it is to be removed; absent from a control of before that was said. */
  drainSeconds: z.number().int().default(0),
});

export const observedStates = [
  "assigned",
  "accepted",
  "pulling",
  "created",
  "starting",
  "running",
  "completed",
  "stopped",
  "failed",
  "rejected",
  "removed",
] as const;
/** States from which a placement never runs again. */
const endedStates: ReadonlySet<string> = new Set(["completed", "stopped", "failed", "rejected", "removed"]);
export const hasEnded = (observed: (typeof observedStates)[number]): boolean => endedStates.has(observed);

/** It was replaced, and its node is to end it once nothing is open there any more. */
export const isDraining = ({ desired, drainSeconds }: Pick<PlacementValue, "desired" | "drainSeconds">): boolean =>
  desired === "removed" && drainSeconds > 0;

export const healthStates = ["starting", "healthy", "unhealthy", "backoff"] as const;

/** It runs, and is well. Edges may not reach it for all that: a server of a database has no port. */
export const isHealthy = (said: { observed: string | null; health: string | null } | null): boolean =>
  said?.observed === "running" && said.health === "healthy";

/** It did serve, and its agent starts it again, or it does not answer: it may be well in a moment. */
export const isFallenOver = (said: { observed: string | null; health: string | null } | null): boolean =>
  said?.observed === "running" && (said.health === "backoff" || said.health === "unhealthy");

/** Times are ISO 8601. */
export const crashingValue = z.object({
  since: z.string(),
  lastAt: z.string(),
  count: z.number().int(),
  /** A sentence for the person who deployed. */
  reason: z.string(),
  /** Null: it is not started any more. */
  nextStartAt: z.string().nullable(),
});
export type CrashingValue = z.infer<typeof crashingValue>;

/** What the agent last said of a placement; written by the owner of its stream. */
export const observationValue = z.object({
  placementId: z.string(),
  epoch: z.number().int(),
  statusSeq: z.number().int(),
  observed: z.enum(observedStates),
  health: z.enum(healthStates).nullable(),
  restartSeq: z.number().int(),
  /** host:port that edges dial; null until the container runs. */
  upstream: z.string().nullable(),
  /** It is an entrance, which edges dial by TLS; absent: it is none. */
  isEntrance: z.literal(true).exactOptional(),
  failure: z
    .object({
      code: z.string(),
      message: z.string(),
      exitCode: z.number().int().nullable(),
      oomKilled: z.boolean(),
    })
    .nullable(),
  build: z
    .object({
      digest: z.string(),
      sizeBytes: z.number().int(),
      os: z.string().nullable(),
      architecture: z.string().nullable(),
      /** Why the result may not be what was meant; absent from an older version. */
      warnings: z.array(z.string()).optional(),
      /** What stands for all that decided it; absent from a node that does not know. */
      key: z.string().exactOptional(),
      /** The deployment whose build it is. */
      reusedFrom: z.string().exactOptional(),
      /** Packages of the app of which there may be something to say; absent where there are none. */
      packages: z.array(z.string()).exactOptional(),
    })
    .nullable(),
  /** What a backup has pushed; absent before that, and from everything else. */
  backup: z.object({ digest: z.string(), sizeBytes: z.number().int(), dumpBytes: z.number().int() }).optional(),
  /** What a capture has pushed; absent before that, and from everything else. */
  capture: z.object({ digest: z.string(), sizeBytes: z.number().int() }).optional(),
  /** What a proof found in a copy; absent before that, and from everything else. */
  proof: z
    .object({
      coveredAt: z.string(),
      tookMs: z.number().int(),
      bytes: z.number().int(),
      tables: z.array(z.object({ schema: z.string(), name: z.string(), rows: z.number().int() })),
      /** There were more. */
      isCut: z.boolean(),
    })
    .optional(),
  changedAt: z.string(),
  /** Ends of it with no steady minute between them; absent while there are none, and from an older agent. */
  crashing: crashingValue.optional(),
  /**
   * What the container has, after which generation of its limits was heard of; absent before there is a container,
   * and from an agent of before limits could change.
   */
  limits: z
    .object({
      generation: z.number().int(),
      memoryMb: z.number().int(),
      cpuMillicores: z.number().int(),
      pidsLimit: z.number().int(),
      /** What is set aside for it with these; from an agent of before that was apart from them, both are absent. */
      reservedMemoryMb: z.number().int().optional(),
      reservedCpuMillicores: z.number().int().optional(),
      /** Why it does not have those of that generation; null when it does. */
      problem: z.string().nullable(),
    })
    .optional(),
});

export const runStates = [
  "offered",
  "accepted",
  "refused",
  "granted",
  "started",
  "exited",
  "not_started",
  "indeterminate",
] as const;

/** States that are final: whatever is reported afterwards, nothing starts any more. */
const overRunStates: ReadonlySet<string> = new Set(["refused", "exited", "not_started", "indeterminate"]);
export const isRunOver = (state: (typeof runStates)[number]): boolean => overRunStates.has(state);

/** One attempt at work that must not run twice. States only move forward. */
export const runValue = z.object({
  /** The id of its row in table `run`. */
  attemptId: z.string(),
  kind: z.enum(runKinds),
  ownerKind: z.enum(ownerKinds),
  ownerId: z.string(),
  projectId: z.string(),
  state: z.enum(runStates),
  /** True asks the agent to end it. */
  cancel: z.boolean(),
  /** Boot id of the machine that accepted it; null before, and when a control of before wrote it. */
  acceptedBy: z.string().nullable().default(null),
  /** Known from `granted` on. */
  token: z.string().nullable(),
  exitCode: z.number().int().nullable(),
  timedOut: z.boolean(),
  message: z.string().nullable(),
  startedAt: z.string().nullable(),
  finishedAt: z.string().nullable(),
  /** When the present state was reached, for deadlines. */
  changedAt: z.string(),
  /** What is set aside for it until it is over; absent: nothing is. */
  reserved: z
    .object({ memoryMb: z.number().int(), cpuMillicores: z.number().int(), pidsLimit: z.number().int() })
    .optional(),
});

/** Which table is in force: all entries under routes/table/ at the revision of this key. */
export const routesMetaValue = z.object({
  generation: z.number().int(),
  /** sha256 of the entries in host order, hex. */
  digest: z.string(),
  count: z.number().int(),
  /** The last hosts were taken away by somebody: they are not gone with a database. */
  emptied: z.boolean().optional(),
});

export type ServerValue = z.infer<typeof serverValue>;
export type ClusterStatusValue = z.infer<typeof clusterStatusValue>;
export type NodeSessionValue = z.infer<typeof nodeSessionValue>;
export type EdgeSessionValue = z.infer<typeof edgeSessionValue>;
export type EdgeStateValue = z.infer<typeof edgeStateValue>;
export type EdgeAppliedValue = z.infer<typeof edgeAppliedValue>;
export type PlacementValue = z.infer<typeof placementValue>;
export type ObservationValue = z.infer<typeof observationValue>;
export type RunValue = z.infer<typeof runValue>;
export type RoutesMetaValue = z.infer<typeof routesMetaValue>;
/** Before the first table; generations of tables count from 1. */
export const noRoutes: RoutesMetaValue = { generation: 0, digest: "", count: 0 };
