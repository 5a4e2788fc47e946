import { copyTooLarge } from "@svc/proto";
import { sql } from "kysely";
import type { Fleet } from "../../../fleet/cluster/fleet.ts";
import { hasEnded } from "../../../fleet/cluster/keys.ts";
import { type CopyPlace, placeCopy, tierOf } from "../../../fleet/scheduler/copy-place.ts";
import { databaseNeeds } from "../../../fleet/scheduler/database-needs.ts";
import { createRoom } from "../../../fleet/scheduler/node-room.ts";
import {
  listReservations,
  listSchedulableNodes,
  type NamedNode,
  type NodeLinks,
} from "../../../fleet/scheduler/snapshot.ts";
import { specOf } from "../../../fleet/tasks/kinds/index.ts";
import { keeperTask } from "../../../fleet/tasks/kinds/keeper.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Copy, Plan, Task } from "../../../stores/db/tables.ts";
import { type FoundBranch, readBranchFacts } from "../facts.ts";
import { isFollowing } from "./fresh.ts";
import { keeperWork } from "./keepers.ts";
import type { CopiesFacts, CopyFacts, KeeperFacts } from "./steps.ts";

export type CopiesFleet = Pick<Fleet, "observation" | "placements" | "runs"> & NodeLinks;

export interface FoundCopies extends FoundBranch {
  copies: CopiesFacts;
}

type OpenCopy = Copy & {
  age_ms: number;
  lacking_ms: number;
  is_fresh: boolean;
  is_let_in: boolean;
  lifecycle: string | null;
  drain: string | null;
};

/** Everything that decides the next step for the copies of a branch, read afresh; null when it is no more. */
export async function readCopiesFacts(
  { db, fleet, isWanted }: { db: Db; fleet: CopiesFleet; isWanted: boolean },
  databaseId: string,
): Promise<FoundCopies | null> {
  const found = await readBranchFacts({ db, fleet }, databaseId);
  if (found === null) return null;
  const { branch, facts, plan } = found;
  const [copies, nodes, isChanging, mayHoldLog] = await Promise.all([
    listOpenCopies(db, databaseId),
    listSchedulableNodes(db, fleet),
    hasOpenChange(db, databaseId),
    holdsLog(db, branch),
  ]);
  const keepers = await listKeepers(
    db,
    copies.map(({ id }) => id),
  );
  const dataNode = branch.node_id === null ? null : nodeOf(nodes, branch.node_id);
  return {
    ...found,
    copies: {
      ...{ isWanted, status: branch.status, generation: branch.generation, suspended: facts.suspended },
      projectGone: facts.projectGone,
      isServing: facts.servers.some(({ wanted, state }) => wanted && state === "serving"),
      ...{ isChanging, hasPassword: branch.keeper_secret !== null, mayHoldLog },
      copies: copies.map((copy) => ({
        ...copyFacts(copy, dataNode, nodes),
        keepers: (keepers.get(copy.id) ?? []).map((task) => keeperFacts(task, plan, fleet)),
      })),
      best: dataNode === null ? null : bestPlace({ fleet, nodes, dataNode, plan, copies }),
    },
  };
}

const nodeOf = (nodes: readonly NamedNode[], id: string) => nodes.find((node) => node.id === id) ?? { id };

function bestPlace({
  fleet,
  nodes,
  dataNode,
  plan,
  copies,
}: {
  fleet: CopiesFleet;
  nodes: readonly NamedNode[];
  dataNode: { id: string; zone?: string };
  plan: Plan;
  copies: readonly Copy[];
}): CopyPlace | null {
  const work = keeperWork(plan);
  const needs = databaseNeeds({ sizeMb: work.sizeMb, pinnedTo: null, nodeSelector: plan.node_selector }, nodes);
  const task = keeperTask({ ...work, databaseId: "", engine: "postgres", image: "" }, dataNode.id);
  return placeCopy(
    createRoom(nodes, listReservations(fleet)),
    {
      ...{ id: "", projectId: "", ownerId: "", kind: "keeper", specHash: "", platform: null, pinnedTo: null },
      ...{ memoryMb: task.reservedMemoryMb, cpuMillicores: task.reservedCpuMillicores, pidsLimit: task.pidsLimit },
      // Its volumes are what a server's are: whole copies, and the log between them.
      ...{ nodeSelector: needs.nodeSelector, diskMb: work.sizeMb, hasDockerfile: false },
    },
    { data: dataNode, apart: new Set(copies.flatMap(({ node_id }) => node_id ?? [])) },
  );
}

/** A server that has come up, or come back, since counts from then: nobody could have followed it before. */
const lackingMs = sql<number>`extract(epoch from clock_timestamp() - greatest(
  database_copy.created_at, database_copy.covered_at, database.status_at,
  (select max(created_at) from task where task.owner_id = database.id and task.kind = 'database')))::float8 * 1000`;

const listOpenCopies = (db: Db, databaseId: string): Promise<OpenCopy[]> =>
  db
    .selectFrom("database_copy")
    .innerJoin("database", "database.id", "database_copy.database_id")
    .leftJoin("node", "node.id", "database_copy.node_id")
    .selectAll("database_copy")
    .select([
      "node.lifecycle",
      "node.drain",
      sql<number>`extract(epoch from clock_timestamp() - database_copy.created_at)::float8 * 1000`.as("age_ms"),
      lackingMs.as("lacking_ms"),
      isFollowing.as("is_fresh"),
      // Whatever the server knew before, it was told again since: it may be another one.
      sql<boolean>`coalesce(database.keeper_at >= database_copy.created_at, false)`.as("is_let_in"),
    ])
    .where("database_copy.database_id", "=", databaseId)
    .where("database_copy.state", "!=", "ended")
    .orderBy("database_copy.created_at")
    .execute();

function copyFacts(
  copy: OpenCopy,
  dataNode: { id: string; zone?: string } | null,
  nodes: readonly NamedNode[],
): Omit<CopyFacts, "keepers"> {
  const { id, purpose, generation, node_id: nodeId, state, lifecycle, drain } = copy;
  return {
    ...{ id, purpose, generation, nodeId, isFresh: copy.is_fresh, isLetIn: copy.is_let_in },
    ...{ ageMs: copy.age_ms, lackingMs: copy.lacking_ms, isTooLarge: copy.problem === copyTooLarge },
    nodeGone: nodeId !== null && lifecycle !== "active",
    nodeLeaving: drain !== null && drain !== "none",
    tier: nodeId === null || dataNode === null ? null : tierOf(nodeOf(nodes, nodeId), dataNode),
    state: state === "ended" ? "broken" : state,
  };
}

/** Keepers of copies that are not over, by copy. */
async function listKeepers(db: Db, copyIds: readonly string[]): Promise<Map<string, (Task & { age_ms: number })[]>> {
  if (copyIds.length === 0) return new Map();
  const rows = await db
    .selectFrom("task")
    .selectAll()
    .select(sql<number>`extract(epoch from clock_timestamp() - created_at)::float8 * 1000`.as("age_ms"))
    .where("owner_id", "in", copyIds)
    .where("kind", "=", "keeper")
    .where("reaped_at", "is", null)
    .orderBy("epoch")
    .execute();
  return Map.groupBy(rows, ({ owner_id }) => owner_id);
}

function keeperFacts(task: Task & { age_ms: number }, plan: Plan, fleet: Pick<Fleet, "observation">): KeeperFacts {
  const spec = specOf(task);
  const seen = task.node_id === null ? null : fleet.observation(task.node_id, task.id);
  return {
    ...{ taskId: task.id, wanted: task.desired === "running", ageMs: task.age_ms },
    failed: seen !== null && hasEnded(seen.observed),
    isCurrent: spec.kind === "keeper" && spec.sizeMb === keeperWork(plan).sizeMb,
  };
}

async function hasOpenChange(db: Db, databaseId: string): Promise<boolean> {
  const change = await db
    .selectFrom("database_change")
    .select("id")
    .where("database_id", "=", databaseId)
    .where("ended_at", "is", null)
    .executeTakeFirst();
  return change !== undefined;
}

/** Whether a copy has ended of which the server may not have been told, and whose keepers are over. */
async function holdsLog(db: Db, { id, generation }: { id: string; generation: number }): Promise<boolean> {
  const copy = await db
    .selectFrom("database_copy")
    .select("id")
    .where("database_id", "=", id)
    .where("generation", "=", generation)
    .where("engine", "=", "postgres")
    .where("state", "=", "ended")
    .where("released_at", "is", null)
    .where(isLeft)
    .limit(1)
    .executeTakeFirst();
  return copy !== undefined;
}

/** Nobody keeps the copy any more, who could ask the server for its log again. */
export const isLeft = sql<boolean>`not exists (
  select from task where task.owner_id = database_copy.id and task.kind = 'keeper' and task.reaped_at is null)`;
