import { type NodeAction, nodeActionProblem, nodeAssentProblem } from "@svc/proto";
import { sql } from "kysely";
import { wakeDatabases } from "../../../identity/plans/reconcile-databases.ts";
import { notify } from "../../../stores/db/notify.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Node } from "../../../stores/db/tables.ts";
import { workTopic } from "../../../stores/work/queue.ts";
import type { FleetView } from "../../cluster/facts.ts";
import { nodeTopic, routeTopic, taskTopic } from "../../cluster/topics.ts";
import { type CircumstancesFleet, circumstancesOf, saysHowFarItIs } from "../circumstances.ts";
import { insertNodeEvents } from "../events/store.ts";
import { type ActionWords, nodeChange } from "./rules.ts";

type ActionFleet = CircumstancesFleet & Pick<FleetView, "readRouting" | "readLink">;

export type ActionOutcome = { node: Node } | { problem: string } | null;

/** Two edges must not be taken out of rotation at once because each counted the other. */
const edgesLock = 5_207_311;

/**
 * Acts on a machine in the caller's transaction: holds its row, decides on what is true then, writes row and history, and
 * wakes whoever has to follow. Null when there is no such machine.
 */
export async function actOnNode(
  tx: Db,
  fleet: ActionFleet,
  id: string,
  action: NodeAction,
  { words, confirm, now }: { words: ActionWords; confirm: boolean; now: Date },
): Promise<ActionOutcome> {
  const row = await lockNode(tx, id);
  if (row === undefined) return null;
  const problem =
    nodeActionProblem(action, await circumstancesOf(tx, await seenFor(action, fleet, row), row)) ??
    nodeAssentProblem(action, { ...(words.reason !== undefined && { reason: words.reason }), confirm });
  if (problem !== null) return { problem };
  const { set, events } = nodeChange(action, { ...row, takesItsTime: saysHowFarItIs(fleet, row.id) }, words, now);
  const node = await tx.updateTable("node").set(set).where("id", "=", row.id).returningAll().executeTakeFirstOrThrow();
  await insertNodeEvents(
    tx,
    events.map((event) => ({ nodeId: row.id, ...event, at: now })),
  );
  await wakeFollowers(tx, node);
  return { node };
}

/** What cannot be taken back is decided by what etcd says: a view may stand still for seconds without its noticing. */
async function seenFor(action: NodeAction, fleet: ActionFleet, { id, role }: Node): Promise<CircumstancesFleet> {
  // An edge with an old table would not be behind: it would be let in, and send visitors to what is gone.
  if (role === "edge" && action === "uncordon") return { ...fleet, ...(await fleet.readRouting()) };
  if (action !== "force-fence") return fleet;
  // A machine that is back would be given up, and refused for ever.
  const link = await fleet.readLink(id);
  return { ...fleet, nodeLink: () => link };
}

async function lockNode(tx: Db, id: string): Promise<Node | undefined> {
  const row = await tx.selectFrom("node").select("role").where("id", "=", id).executeTakeFirst();
  if (row?.role === "edge") await sql`select pg_advisory_xact_lock(${edgesLock})`.execute(tx);
  return tx.selectFrom("node").selectAll().where("id", "=", id).forUpdate().executeTakeFirst();
}

/** Work that waits until edges have followed, or until a node is empty: it looks again rarely when that takes long. */
const waitingKinds = ["retire", "teardown", "suspension"] as const;

async function wakeFollowers(tx: Db, { id, lifecycle, role }: Pick<Node, "id" | "lifecycle" | "role">): Promise<void> {
  await notify(tx, taskTopic);
  await notify(tx, routeTopic);
  if (lifecycle !== "active" || role === "edge") await notify(tx, nodeTopic);
  if (lifecycle !== "active") await wakeDatabases(tx, isOnNode(id));
  if (lifecycle === "active" && role === "node") return;
  const waiting = tx
    .selectFrom("work_item")
    .select("id")
    .where("state", "=", "queued")
    .where("kind", "in", [...waitingKinds])
    .orderBy("id")
    .forUpdate()
    .skipLocked();
  await tx.updateTable("work_item").set({ run_at: sql<Date>`now()` }).where("id", "in", waiting).execute();
  for (const kind of waitingKinds) await sql`select pg_notify(${workTopic}, ${kind})`.execute(tx);
}

/** Whether a branch has its data on the node, or was about to: nothing else would tell it that the machine is gone. */
const isOnNode = (nodeId: string) =>
  sql<boolean>`(database.node_id = ${nodeId} or exists (
    select from task where task.owner_id = database.id and task.node_id = ${nodeId}))`;
