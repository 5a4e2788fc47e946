import { clip, limits, stripControl } from "@svc/proto";
import type { PlacementStatus } from "@svc/proto/node";
import { HealthState, Observed } from "@svc/proto/node";
import { realtimePackage } from "@svc/proto/realtime";
import { uuid } from "../../stores/db/uuid.ts";
import type { ObservationValue, PlacementValue } from "../cluster/keys.ts";
import { countOf, integerMax } from "../sessions/count.ts";

const observedWords: ReadonlyMap<number, ObservationValue["observed"]> = new Map([
  [Observed.ASSIGNED, "assigned"],
  [Observed.ACCEPTED, "accepted"],
  [Observed.PULLING, "pulling"],
  [Observed.CREATED, "created"],
  [Observed.STARTING, "starting"],
  [Observed.RUNNING, "running"],
  [Observed.COMPLETED, "completed"],
  [Observed.STOPPED, "stopped"],
  [Observed.FAILED, "failed"],
  [Observed.REJECTED, "rejected"],
  [Observed.REMOVED, "removed"],
]);
/** A sentence for the timeline. */
const limitsProblemBytesMax = 300;
const crashReasonBytesMax = 1_000;
/** The next ones are counted from what a node says of this, so there is room above it. */
const generationMax = 2 ** 52;
const observedRanks = new Map([...observedWords].map(([rank, word]) => [word, rank]));

const healthWords: ReadonlyMap<number, ObservationValue["health"]> = new Map([
  [HealthState.STARTING, "starting"],
  [HealthState.HEALTHY, "healthy"],
  [HealthState.UNHEALTHY, "unhealthy"],
  [HealthState.BACKOFF, "backoff"],
]);

/** Whether something that the agent reported so is still on its machine and may be stopped. */
export const isActive = (observed: ObservationValue["observed"]) =>
  (observedRanks.get(observed) ?? 0) < Observed.COMPLETED;

export type StatusSkip = "not placed here" | "another epoch" | "unknown state" | "not newer" | "would go back";

/**
 * The observation after a report, or why the report is dropped (and still acknowledged: sending it
 * again would change nothing). An agent speaks only for placements of its own node, only forward.
 * What ends up in front of people or of edges is bounded and checked here.
 */
export function nextObservation({
  status,
  placement,
  stored,
  address,
  now,
}: {
  status: PlacementStatus;
  placement: Pick<PlacementValue, "placementId" | "epoch"> | undefined;
  stored: Pick<ObservationValue, "statusSeq" | "observed"> | undefined;
  /** The node's own address: the only host that its upstreams may name. */
  address: string;
  now: Date;
}): { write: ObservationValue } | { skip: StatusSkip } {
  if (placement === undefined) return { skip: "not placed here" };
  if (Number(status.epoch) !== placement.epoch) return { skip: "another epoch" };
  const observed = observedWords.get(status.observed);
  if (observed === undefined) return { skip: "unknown state" };
  if (stored !== undefined) {
    if (status.statusSeq <= BigInt(stored.statusSeq)) return { skip: "not newer" };
    if (status.observed < (observedRanks.get(stored.observed) ?? 0)) return { skip: "would go back" };
  }
  return {
    write: {
      placementId: placement.placementId,
      epoch: placement.epoch,
      statusSeq: countOf(status.statusSeq),
      observed,
      health: healthWords.get(status.health) ?? null,
      restartSeq: countOf(status.restartSeq, integerMax),
      upstream: upstreamOn(address, status.upstream),
      ...(status.upstreamIsEntrance && { isEntrance: true as const }),
      failure: failureOf(status),
      build: buildOf(status),
      changedAt: timeOf(status.changedAt, now),
      ...backupOf(status),
      ...captureOf(status),
      ...proofOf(status, now),
      ...limitsOf(status),
      ...crashingOf(status, now),
    },
  };
}

/** The upstream when it is a port of the node itself. Anything else would let a node point visitors elsewhere. */
function upstreamOn(address: string, upstream: string): string | null {
  const at = upstream.lastIndexOf(":");
  const port = upstream.slice(at + 1);
  const host = upstream.slice(0, at).replace(/^\[(.*)\]$/, "$1");
  return at > 0 && host === address && /^[1-9]\d{0,4}$/.test(port) && Number(port) < 65_536 ? upstream : null;
}

function failureOf({ failure }: PlacementStatus): ObservationValue["failure"] {
  if (failure === undefined) return null;
  return {
    code: /^[A-Z][A-Z0-9_]{1,62}$/.test(failure.code) ? failure.code : "NODE_TASK_FAILED",
    message: clip(stripControl(failure.message), limits.errorTextBytesMax),
    exitCode: failure.exitCode ?? null,
    oomKilled: failure.oomKilled,
  };
}

function buildOf({ build }: PlacementStatus): ObservationValue["build"] {
  if (build === undefined || !/^sha256:[0-9a-f]{64}$/.test(build.digest)) return null;
  return {
    digest: build.digest,
    sizeBytes: countOf(build.sizeBytes),
    os: word(build.platform?.os),
    architecture: word(build.platform?.architecture),
    ...(build.warnings.length > 0 && {
      warnings: build.warnings
        .slice(0, limits.deploymentWarningsMax)
        .map((each) => clip(stripControl(each), limits.errorTextBytesMax)),
    }),
    ...(/^[0-9a-f]{64}$/.test(build.key) && { key: build.key }),
    ...(uuid.test(build.reusedFrom) && { reusedFrom: build.reusedFrom }),
    ...(build.packages.includes(realtimePackage) && { packages: [realtimePackage] }),
  };
}

/** Absent before there is one. */
function backupOf({ backup }: PlacementStatus): Pick<ObservationValue, "backup"> {
  if (backup === undefined || !/^sha256:[0-9a-f]{64}$/.test(backup.digest)) return {};
  const { digest, sizeBytes, dumpBytes } = backup;
  return { backup: { digest, sizeBytes: countOf(sizeBytes), dumpBytes: countOf(dumpBytes) } };
}

/** Absent before there is one. */
function captureOf({ capture }: PlacementStatus): Pick<ObservationValue, "capture"> {
  if (capture === undefined || !/^sha256:[0-9a-f]{64}$/.test(capture.digest)) return {};
  return { capture: { digest: capture.digest, sizeBytes: countOf(capture.sizeBytes) } };
}

/** What is kept of it goes to every replica. */
const provenTablesMax = 500;
const nameLengthMax = 128;

/** Absent before there is one. */
function proofOf({ proof }: PlacementStatus, now: Date): Pick<ObservationValue, "proof"> {
  if (proof === undefined) return {};
  const { coveredAt, tookMs, bytes, tables } = proof;
  return {
    proof: {
      ...{ coveredAt: timeOf(coveredAt, now), tookMs: countOf(tookMs), bytes: countOf(bytes) },
      tables: tables.slice(0, provenTablesMax).map(({ schema, name, rows }) => ({
        ...{ schema: clip(schema, nameLengthMax), name: clip(name, nameLengthMax), rows: countOf(rows) },
      })),
      isCut: tables.length > provenTablesMax,
    },
  };
}

/** Absent while it has run for a minute without an end. */
function crashingOf({ crashing }: PlacementStatus, now: Date): Pick<ObservationValue, "crashing"> {
  if (crashing === undefined) return {};
  const { since, lastAt, count, reason, nextStartAt } = crashing;
  return {
    crashing: {
      ...{ since: timeOf(since, now), lastAt: timeOf(lastAt, now), count: countOf(count, integerMax) },
      reason: clip(stripControl(reason), crashReasonBytesMax),
      nextStartAt: nextStartAt === "" ? null : timeOf(nextStartAt, now),
    },
  };
}

/** Nothing of an agent that does not tell what its containers have. */
function limitsOf({ resources, resourcesProblem }: PlacementStatus): Pick<ObservationValue, "limits"> {
  if (resources === undefined) return {};
  const { memoryMb, cpuMillicores, pidsLimit, reservedMemoryMb, reservedCpuMillicores, generation } = resources;
  const problem = resourcesProblem === "" ? null : clip(stripControl(resourcesProblem), limitsProblemBytesMax);
  const reserved = reservedMemoryMb > 0 && reservedCpuMillicores > 0 && { reservedMemoryMb, reservedCpuMillicores };
  return {
    limits: {
      generation: countOf(generation, generationMax),
      memoryMb,
      cpuMillicores,
      pidsLimit,
      ...reserved,
      problem,
    },
  };
}

const word = (text: string | undefined) => (text !== undefined && /^[a-z0-9_/.-]{1,32}$/i.test(text) ? text : null);

/** RFC 3339 as the agent gave it, or the time of arrival when that makes no sense, or has no year of four digits. */
export function timeOf(text: string, now: Date): string {
  const at = new Date(text);
  const isTime = !Number.isNaN(at.getTime()) && /^\d/.test(at.toISOString());
  return (isTime ? at : now).toISOString();
}
