import { taskTopic } from "../../../../fleet/cluster/topics.ts";
import { branchTopic } from "../../../../fleet/database-tables/news.ts";
import type { Branch, Copy } from "../../../../stores/db/tables.ts";
import { freshSeconds } from "../../copies/fresh.ts";
import type { Tx } from "./tables.ts";
import { inHours } from "./volumes.ts";

/** Postgres itself announces where copies are: to whoever has the branch, and to whoever keeps it. */
export function setCopy({ tables, notify }: Tx, copy: Copy): void {
  const { id, database_id, project_id, node_id, state } = copy;
  const before = tables.branches.copies.get(id);
  tables.branches.copies.set(id, copy);
  if (before?.state === state && before.node_id === node_id) return;
  for (const at of new Set([tables.branches.rows.get(database_id)?.node_id ?? null, node_id]))
    notify(branchTopic, [database_id, project_id, ...(at === null ? [] : [at])].join(" "));
}

/** Names of volumes have the first digits of an id. */
const newId = ({ tables }: Tx): string =>
  `c${(tables.branches.copies.size + 1).toString(16).padStart(7, "0")}-0000-4000-8000-000000000000`;

/** See `beginCopy` of `copies/store.ts`. */
export function beginCopy(
  tx: Tx,
  branch: Pick<Branch, "id" | "engine" | "project_id" | "channel" | "generation">,
  { purpose, nodeId = null }: { purpose: Copy["purpose"]; nodeId?: string | null },
): string {
  const { id: database_id, engine, project_id, channel, generation } = branch;
  const open = tx.tables.branches.copiesOf(database_id);
  const same = open.find((copy) => copy.purpose === purpose || (nodeId !== null && copy.node_id === nodeId));
  if (same !== undefined) return same.id;
  const id = newId(tx);
  setCopy(tx, {
    ...{ id, database_id, engine, project_id, channel, generation, purpose, node_id: nodeId, created_at: tx.now },
    ...{ state: "basing", problem: null, covered_at: null, position: null, bytes: null, bases: [], seen_at: null },
    ...{ ended_at: null, purge_at: null, gone_at: null, told_at: null, released_at: null, kept: false },
    fetched_from: null,
  });
  return id;
}

/** See `endCopy` there. */
export function endCopy(tx: Tx, id: string, keptHours: number): void {
  const copy = tx.tables.branches.copies.get(id);
  if (copy === undefined || copy.state === "ended") return;
  setCopy(tx, { ...copy, state: "ended", ended_at: tx.now, purge_at: inHours(tx, keptHours) });
  const wanted = tx.tables.branches.keepersOf(id).filter(({ desired }) => desired === "running");
  tx.tables.removeTasks(wanted.map((task) => task.id));
  if (wanted.length > 0) tx.notify(taskTopic);
}

/** See `isFollowing` of `copies/fresh.ts`. */
export function isFollowing({ state, covered_at, bases }: Copy, now: Date): boolean {
  const since = now.getTime() - freshSeconds * 1_000;
  return state === "following" && covered_at !== null && covered_at.getTime() >= since && bases.length > 0;
}

/** See `endCopies` there. */
export function endCopies(tx: Tx, databaseId: string, keptHours: number): void {
  for (const { id } of tx.tables.branches.copiesOf(databaseId)) endCopy(tx, id, keptHours);
  keepCopies(tx, databaseId, keptHours);
}

/** See `keepCopies` there. */
export function keepCopies(tx: Tx, databaseId: string, keptHours: number): void {
  const least = inHours(tx, keptHours);
  for (const copy of tx.tables.branches.copies.values()) {
    const { purge_at, gone_at } = copy;
    const isThere = copy.database_id === databaseId && gone_at === null && purge_at !== null && purge_at > tx.now;
    if (isThere && purge_at < least) tx.tables.branches.copies.set(copy.id, { ...copy, purge_at: least });
  }
}

/** See `findRestorable` there, without a moment. */
export function findRestorable(
  { tables, now }: Pick<Tx, "tables" | "now">,
  { id, generation }: Pick<Branch, "id" | "generation">,
): (Copy & { node_id: string; covered_at: Date }) | null {
  const there = [...tables.branches.copies.values()].filter(
    (copy): copy is Copy & { node_id: string; covered_at: Date } =>
      copy.database_id === id &&
      copy.covered_at !== null &&
      copy.node_id !== null &&
      tables.nodes.get(copy.node_id)?.lifecycle === "active" &&
      copy.gone_at === null &&
      (copy.kept || copy.purge_at === null || copy.purge_at > now) &&
      copy.bases.length > 0,
  );
  const rank = (copy: Copy): number => (copy.generation === generation ? 1 : 0);
  const [first = null] = there.sort(
    (a, b) =>
      rank(b) - rank(a) ||
      b.generation - a.generation ||
      b.covered_at.getTime() - a.covered_at.getTime() ||
      (a.id < b.id ? -1 : 1),
  );
  return first;
}
