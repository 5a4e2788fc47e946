import { create, type MessageInitShape } from "@bufbuild/protobuf";
import {
  type CrashingSchema,
  Desired,
  type Failure,
  type HealthState,
  Observed,
  type Placement,
  PlacementStatusSchema,
  type ResourcesSchema,
} from "@svc/proto/node";
import type { Clock } from "@svc/runtime/clock";
import type { Journal } from "../journal/journal.ts";
import { freshMemory, type Memory, type PlacementRecord } from "../journal/records.ts";

/** What a step may change of a placement. What is left out stays. */
export interface Change {
  observed?: Observed;
  health?: HealthState;
  upstream?: string;
  /** Null clears it. */
  failure?: Failure | null;
  build?: MessageInitShape<typeof PlacementStatusSchema>["build"];
  backup?: MessageInitShape<typeof PlacementStatusSchema>["backup"];
  proof?: MessageInitShape<typeof PlacementStatusSchema>["proof"];
  capture?: MessageInitShape<typeof PlacementStatusSchema>["capture"];
  restarted?: boolean;
  /** Null: it has run for a while without an end. */
  crashing?: MessageInitShape<typeof CrashingSchema> | null;
  /** What the container has, and why it does not have what it is to have; empty when it does. */
  limits?: { inForce: MessageInitShape<typeof ResourcesSchema>; problem: string };
  memory?: Partial<Memory>;
}

/** One placement while the agent runs: its record, and what need not survive. */
export interface Task {
  readonly id: string;
  record(): PlacementRecord;
  /** Journals the change, then reports it; what cannot be written has not changed. An observed state never goes back. */
  update(change: Change): void;
  /** Takes over what control says now. The journal has it already. */
  replace(record: PlacementRecord): void;
  /** Whether the image was made sure of since the agent started. */
  imageReady: boolean;
}

export function createTask(options: {
  clock: Clock;
  record: PlacementRecord;
  journal: Journal;
  onChange(record: PlacementRecord): void;
}): Task {
  let record = options.record;
  return {
    id: record.placement.placementId,
    imageReady: false,
    record: () => record,
    replace(next) {
      const { grantedIn } = next.memory;
      record = { ...next, status: record.status, memory: { ...record.memory, grantedIn } };
    },
    update({ memory, ...change }) {
      const next: PlacementRecord = { ...record, memory: { ...record.memory, ...memory } };
      if (Object.keys(change).length > 0) next.status = nextStatus(next, change, options.clock.now());
      options.journal.saveProgress(next);
      record = next;
      options.onChange(record);
    },
  };
}

function nextStatus(
  { status, memory }: PlacementRecord,
  change: Omit<Change, "memory">,
  now: Date,
): PlacementRecord["status"] {
  const { failure = status.failure, build = status.build, crashing = status.crashing } = change;
  const { backup = status.backup, proof = status.proof, capture = status.capture } = change;
  const resources = change.limits?.inForce ?? status.resources;
  const upstream = change.upstream ?? status.upstream;
  return create(PlacementStatusSchema, {
    placementId: status.placementId,
    epoch: status.epoch,
    specHash: status.specHash,
    statusSeq: status.statusSeq + 1n,
    observed: Math.max(status.observed, change.observed ?? status.observed) as Observed,
    health: change.health ?? status.health,
    restartSeq: status.restartSeq + (change.restarted === true ? 1 : 0),
    upstream,
    upstreamIsEntrance: upstream !== "" && memory.behindEntrance,
    changedAt: now.toISOString(),
    ...(failure !== null && failure !== undefined && { failure }),
    ...(build !== undefined && { build }),
    ...(backup !== undefined && { backup }),
    ...(proof !== undefined && { proof }),
    ...(capture !== undefined && { capture }),
    ...(crashing !== null && crashing !== undefined && { crashing }),
    ...(resources !== undefined && { resources }),
    resourcesProblem: change.limits?.problem ?? status.resourcesProblem,
  });
}

/** The host port that a placement holds; 0 for none. An agent of an earlier version wrote it down only in the upstream. */
export function heldPort({ status, memory }: PlacementRecord): number {
  if (status.observed === Observed.REMOVED) return 0;
  return memory.hostPort || Number(/:(\d{1,5})$/.exec(status.upstream)?.[1] ?? 0);
}

/** The record of a placement that was never seen before. */
export function newRecord(placement: Placement, now: Date): PlacementRecord {
  return {
    placement,
    status: create(PlacementStatusSchema, {
      placementId: placement.placementId,
      epoch: placement.epoch,
      specHash: placement.specHash,
      statusSeq: 1n,
      observed: Observed.ASSIGNED,
      changedAt: now.toISOString(),
    }),
    memory: freshMemory,
    orphan: false,
  };
}

/** An order to stop may come without the spec, when control has forgotten it: then the known one stays. */
export function withSpec(placement: Placement, { placement: known }: PlacementRecord): Placement {
  if (placement.spec.case !== undefined || known.spec.case === undefined) return placement;
  const { epoch, desired, drainSeconds } = placement;
  return { ...known, epoch, desired, drainSeconds };
}

/** Of what control has settled, or nobody wants: it goes whatever is open. */
export const removedAtOnce = (placement: Placement): Placement => ({
  ...placement,
  desired: Desired.REMOVED,
  drainSeconds: 0,
});
