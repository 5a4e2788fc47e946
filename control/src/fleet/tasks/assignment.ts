import { create } from "@bufbuild/protobuf";
import { limits } from "@svc/proto";
import type { OwnerKind } from "@svc/proto/kinds";
import { type Placement, PlacementSchema, type RunOffer, RunOfferSchema } from "@svc/proto/node";
import { createBatch } from "@svc/runtime/batch";
import type { Clock } from "@svc/runtime/clock";
import { sql } from "kysely";
import { planOfUser } from "../../identity/plans/of-user.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Run, Task } from "../../stores/db/tables.ts";
import { uuid } from "../../stores/db/uuid.ts";
import type { Secrets } from "../../stores/secrets.ts";
import { forNode, specOf } from "./kinds/index.ts";
import type { Installation } from "./kinds/kind.ts";
import { loadOwners } from "./owners/index.ts";
import type { OwnerFacts, Work } from "./owners/owner.ts";
import { kindOfRun } from "./run-kinds/index.ts";

export interface AssignmentDeps extends Installation {
  db: Db;
  secrets: Secrets;
}

/** What is stored of one placement cannot be read: its `cause` says why. Others, and another try, are no concern of it. */
export class PlacementUnreadable extends Error {
  override readonly name = "PlacementUnreadable";
}

type Loaded = { placement: Placement | null } | { error: PlacementUnreadable };

/** All of them by few queries at once. What is wrong with one is its own. */
async function loadPlacements(deps: AssignmentDeps, placementIds: readonly string[]): Promise<Loaded[]> {
  // One that is no id of a task must not cost the others theirs.
  const ids = placementIds.filter((id) => uuid.test(id));
  const among = sql<string>`any(${ids}::uuid[])`;
  const tasks = await deps.db.selectFrom("task").selectAll().where("id", "=", among).execute();
  const owners = await loadOwners(deps, tasks.map(workOf));
  const taskOf = new Map(tasks.map((task) => [task.id, task]));
  return placementIds.map((placementId) => {
    const task = taskOf.get(placementId);
    const openFacts = task && owners.get(task.owner_id);
    if (task === undefined || openFacts === undefined) return { placement: null };
    try {
      return { placement: placementOf(deps, task, openFacts()) };
    } catch (cause) {
      return { error: new PlacementUnreadable(`what is stored of placement ${placementId} cannot be read`, { cause }) };
    }
  });
}

const workOf = ({ id, owner_kind, owner_id }: Pick<Task | Run, "id" | "owner_kind" | "owner_id">): Work => ({
  ...{ id, ownerKind: owner_kind, ownerId: owner_id },
});

/** The whole placement as its node must know it, secrets included, apart from its limits. */
const placementOf = (deps: AssignmentDeps, task: Task, owner: OwnerFacts[OwnerKind]): Placement =>
  create(PlacementSchema, {
    placementId: task.id,
    epoch: BigInt(task.epoch),
    specHash: task.spec_hash,
    projectId: task.project_id,
    ...ownerOnWire({ ownerKind: task.owner_kind, ownerId: task.owner_id }),
    channel: task.channel,
    spec: forNode(specOf(task), { ...deps, owner }),
  });

/** Whose work something is. An agent of before knows no owner but deployments, and keeps this id as one's. */
export const ownerOnWire = ({ ownerKind, ownerId }: Pick<Work, "ownerKind" | "ownerId">) => ({
  ...{ ownerKind, ownerId, deploymentId: ownerId },
});

const loadedAtOnce = 200;
const waitingMax = 100_000;

/**
 * Loads the spec of a placement, its secrets included; null when the task is gone. What many sessions ask for at once
 * is read together. Throws `PlacementUnreadable`.
 */
export function createPlacementLoader(
  clock: Clock,
  deps: AssignmentDeps,
): (placementId: string) => Promise<Placement | null> {
  const load = createBatch<Loaded>({
    clock,
    ask: (ids) => loadPlacements(deps, ids),
    sizeMax: loadedAtOnce,
    waitingMax,
  });
  return async (placementId) => {
    const loaded = await load(placementId);
    if (loaded !== null && "error" in loaded) throw loaded.error;
    return loaded?.placement ?? null;
  };
}

/** A run as its node is offered it; null when there is nothing to run. */
export async function loadRun(deps: AssignmentDeps, attemptId: string): Promise<RunOffer | null> {
  if (!uuid.test(attemptId)) return null;
  const { db } = deps;
  const run = await db.selectFrom("run").selectAll().where("id", "=", attemptId).executeTakeFirst();
  if (run === undefined) return null;
  const [owner, project] = await Promise.all([
    loadOwners(deps, [workOf(run)]).then((owners) => owners.get(run.owner_id)),
    db.selectFrom("project").select("owner_id").where("id", "=", run.project_id).executeTakeFirst(),
  ]);
  if (owner === undefined || project === undefined) return null;
  const plan = await planOfUser(db, project.owner_id);
  const work = kindOfRun(run.kind).forNode({ ...deps, owner: owner(), plan });
  if (work === null) return null;
  return create(RunOfferSchema, {
    attemptId,
    kind: run.kind,
    projectId: run.project_id,
    ...ownerOnWire({ ownerKind: run.owner_kind, ownerId: run.owner_id }),
    ...work,
  });
}

/** Of a run its agent keeps both ends within that; one that does not has its log cut, as anybody's. */
const logBytesMax = { task: limits.buildLogBytesMax, run: limits.jobLogBytesMax } as const;

/**
 * How much is kept of a log stream of work that was given to this node, a task or a run, whose row it holds; null when it is of
 * no such work.
 */
export async function findLogBytesMax(db: Db, nodeId: string, streamId: string): Promise<number | null> {
  if (!uuid.test(streamId)) return null;
  for (const table of ["task", "run"] as const) {
    const row = await db
      .selectFrom(table)
      .select("id")
      .where("id", "=", streamId)
      .where("node_id", "=", nodeId)
      .forKeyShare()
      .executeTakeFirst();
    if (row !== undefined) return logBytesMax[table];
  }
  return null;
}
