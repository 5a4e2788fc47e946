import type { CopySample } from "@svc/proto/node";
import { taskTopic } from "../../../../fleet/cluster/topics.ts";
import { keptOf, nextProgress, progressOf, savedOf } from "../../../../fleet/databases/copy-sample.ts";
import { nodeRowsOf } from "../../../../fleet/testing/scheduler-rows.ts";
import type { Transact } from "../../../../fleet/testing/tables.ts";
import type { Branch, Copy } from "../../../../stores/db/tables.ts";
import { keeperOf } from "../../copies/keepers.ts";
import { everySeconds, soonSeconds } from "../../copies/rounds.ts";
import type { CopiesAt, CopiesRow, CopyRows, OpenCopy } from "../../copies/rows.ts";
import { retentionHours } from "../../copies/steps.ts";
import type { ServerPlan } from "../../facts.ts";
import { releasedMax } from "../../sql/requests.ts";
import { find, memoryImages } from "./branch-rows.ts";
import { beginCopy, endCopy, isFollowing, setCopy } from "./copies.ts";
import { type DatabaseTables, type Tx, wakeCopies } from "./tables.ts";

/** What work on copies asks, answered from memory. */
export function memoryCopyRows(transact: Transact<DatabaseTables>): CopyRows {
  /** As in `copies/rows.ts`. */
  const locked = ({ id, status, generation }: CopiesAt, act: (tx: Tx, branch: Branch) => unknown): Promise<boolean> =>
    transact((tx) => {
      const branch = tx.tables.branches.rows.get(id);
      return branch?.status === status && branch.generation === generation && act(tx, branch) !== false;
    });
  const openCopy = ({ tables }: Tx, id: string): Copy | null => {
    const copy = tables.branches.copies.get(id);
    return copy === undefined || copy.state === "ended" ? null : copy;
  };
  return {
    find: (databaseId) => transact((tx) => findCopies(tx, databaseId)),
    begin: (of, step) => locked(of, (tx, branch) => beginCopy(tx, branch, step)),
    place: async (of, { copyId, nodeId }) =>
      void (await locked(of, (tx) => {
        const copy = tx.tables.branches.copies.get(copyId);
        if (copy?.node_id === null) setCopy(tx, { ...copy, node_id: nodeId });
      })),
    promote: (of, { copyId, insteadOf }) =>
      locked(of, (tx) => {
        const copy = openCopy(tx, copyId);
        const keeper = tx.tables.branches.copiesOf(of.id).find(({ purpose }) => purpose === "keeper");
        if (copy === null || (keeper?.id ?? null) !== insteadOf) return false;
        const isChanging = tx.tables.branches.openChange(of.id) !== null;
        if (insteadOf !== null && (isChanging || !isFollowing(copy, tx.now))) return false;
        if (insteadOf !== null) endCopy(tx, insteadOf, retentionHours);
        return setCopy(tx, { ...copy, purpose: "keeper" });
      }),
    end: (of, { copyId, purpose }) =>
      locked(of, (tx) => {
        const copy = openCopy(tx, copyId);
        return copy?.purpose === purpose && endCopy(tx, copyId, copy.bases.length > 0 ? retentionHours : 0);
      }),
    setPassword: async (of, keeper_secret) =>
      void (await locked(of, ({ tables: { branches } }, branch) => {
        if (branch.keeper_secret === null) branches.change(branch.id, { keeper_secret, keeper_at: null });
      })),
    now: () => transact(({ now }) => now),
    letIn: async (of, keeper_at) =>
      void (await locked(of, ({ tables: { branches } }, { id }) => branches.change(id, { keeper_at }))),
    startKeeper: async (of, { copyId }, plan) =>
      void (await locked(of, (tx) => {
        const copy = openCopy(tx, copyId);
        if (copy?.node_id == null || tx.tables.branches.keepersOf(copyId).length > 0) return;
        startKeeper(tx, { ...copy, node_id: copy.node_id }, plan);
      })),
    removeKeepers: (taskIds) =>
      transact(({ tables, notify }) => {
        tables.removeTasks(taskIds);
        notify(taskTopic);
      }),
    listReleasable: (of) => transact((tx) => listReleasable(tx, of).slice(0, releasedMax)),
    released: (copyIds) =>
      transact((tx) => {
        for (const id of copyIds) {
          const copy = tx.tables.branches.copies.get(id);
          if (copy !== undefined) setCopy(tx, { ...copy, released_at: tx.now });
        }
      }),
  };
}

function startKeeper(
  { tables, now, notify }: Tx,
  copy: Copy & { node_id: string },
  plan: Pick<ServerPlan, "db_size_mb">,
): void {
  const { id, project_id, channel, engine } = copy;
  const { spec, pinnedTo = null, nodeSelector: _, ...resources } = keeperOf(copy, plan, memoryImages[engine]);
  const task = tables.insert({
    ...{ projectId: project_id, channel, ownerKind: "copy", ownerId: id, kind: "keeper", replica: 0, cause: null },
    ...{ createdAt: now, specHash: JSON.stringify(spec), ...resources, pinnedTo, keeper: spec },
  });
  tables.branches.addTask(task);
  notify(taskTopic);
}

const listReleasable = ({ tables: { branches } }: Tx, { id, generation }: Pick<CopiesAt, "id" | "generation">) =>
  [...branches.copies.values()]
    .filter((copy) => copy.database_id === id && copy.generation === generation && copy.engine === "postgres")
    .filter((copy) => copy.state === "ended" && copy.released_at === null && isLeft(branches, copy.id))
    .map((copy) => copy.id);

/** Nobody keeps the copy any more, who could ask the server for its log again. */
export function isLeft(branches: Pick<DatabaseTables["branches"], "keepersOf">, copyId: string): boolean {
  return branches.keepersOf(copyId).length === 0;
}

function findCopies(tx: Tx, databaseId: string): CopiesRow<ServerPlan> | null {
  const branch = find(tx, databaseId);
  if (branch === null) return null;
  const { tables } = tx;
  return {
    ...{ branch, nodes: nodeRowsOf(tables), isChanging: tables.branches.openChange(databaseId) !== null },
    mayHoldLog: listReleasable(tx, branch.branch).length > 0,
    copies: tables.branches.copiesOf(databaseId).map((copy) => openRow(tx, branch.branch, copy)),
  };
}

function openRow({ tables, now }: Tx, { id, status_at, keeper_at }: Branch, copy: Copy): OpenCopy {
  const sinceMs = (at: Date): number => now.getTime() - at.getTime();
  const node = tables.nodes.get(copy.node_id ?? "");
  const servers = tables.branches.serversOf(id).map(({ createdAt }) => createdAt);
  return {
    ...{ ...copy, lifecycle: node?.lifecycle ?? null, drain: node?.drain ?? null },
    ...{ age_ms: sinceMs(copy.created_at), is_fresh: isFollowing(copy, now) },
    lacking_ms: Math.min(...[copy.created_at, copy.covered_at ?? copy.created_at, status_at, ...servers].map(sinceMs)),
    is_let_in: keeper_at !== null && keeper_at >= copy.created_at,
    keepers: tables.branches.keepersOf(copy.id).map((task) => ({
      ...{ id: task.id, desired: task.desired, node_id: task.nodeId, spec: task.keeper },
      age_ms: sinceMs(task.createdAt),
    })),
  };
}

/** See `storeCopySamples` of `fleet/databases/copy-reports.ts`. */
export function storeCopySample(tx: Tx, nodeId: string, sample: CopySample): void {
  const copy = tx.tables.branches.copies.get(sample.copyId);
  const said = progressOf(sample, tx.now.getTime());
  if (copy === undefined || said === null || copy.node_id !== nodeId || copy.state === "ended") return;
  const next = nextProgress(keptOf(copy), said);
  if (next === null) return;
  setCopy(tx, { ...copy, ...savedOf(next), seen_at: tx.now });
  if (next.state !== copy.state) wakeCopies(tx, copy.database_id);
}

/** See `enqueueCopyRound` of `copies/rounds.ts`. */
export const memoryCopyRound = (
  transact: Transact<DatabaseTables>,
  { isWanted }: { isWanted: boolean },
): Promise<void> =>
  transact((tx) => {
    const { branches } = tx.tables;
    for (const branch of branches.rows.values()) {
      const { id, status, copies_looked_at: lookedAt } = branch;
      if (status === "dropping" || !(isWanted || branches.copiesOf(id).length > 0)) continue;
      const sinceMs = lookedAt === null ? Number.POSITIVE_INFINITY : tx.now.getTime() - lookedAt.getTime();
      const isDue = sinceMs > everySeconds * 1_000 || (sinceMs > soonSeconds * 1_000 && lacksSomething(tx, branch));
      if (!isDue) continue;
      branches.change(id, { copies_looked_at: tx.now });
      wakeCopies(tx, id);
    }
  });

function lacksSomething({ tables: { branches, nodes } }: Tx, branch: Branch): boolean {
  const copies = branches.copiesOf(branch.id);
  const isOn = branch.status === "ready" && !branches.suspended.has(branch.project_id);
  if (isOn && copies.length === 0) return true;
  return copies.some(
    ({ id, generation, node_id, purpose, state }) =>
      generation !== branch.generation ||
      (node_id !== null && nodes.get(node_id)?.lifecycle !== "active") ||
      (purpose === "successor" && state === "following") ||
      (isOn && !branches.keepersOf(id).some(({ desired }) => desired === "running")),
  );
}
