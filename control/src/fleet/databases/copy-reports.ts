import type { CopySample } from "@svc/proto/node";
import { sql } from "kysely";
import { recordAudit } from "../../http/audit.ts";
import type { Log } from "../../log.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Copy } from "../../stores/db/tables.ts";
import { uuid } from "../../stores/db/uuid.ts";
import { enqueueCopies } from "./checks.ts";
import { type CopyProgress, nextProgress, progressOf } from "./copy-sample.ts";

/**
 * Stores how far the copies are that a node keeps. What it says of a copy of another node, or of one that has ended, is dropped. Has
 * the copies of a branch looked at when the state of one is another.
 */
export async function storeCopySamples(
  { db, log }: { db: Db; log: Log },
  nodeId: string,
  samples: readonly CopySample[],
  now: Date,
): Promise<void> {
  const told = new Map<string, CopyProgress>();
  for (const sample of samples) {
    const progress = uuid.test(sample.copyId) ? progressOf(sample, now.getTime()) : null;
    if (progress !== null) told.set(sample.copyId, progress);
  }
  if (told.size === 0) return;
  await db.transaction().execute(async (tx) => {
    const copies = await tx
      .selectFrom("database_copy")
      .selectAll()
      .where("id", "in", [...told.keys()])
      .where("node_id", "=", nodeId)
      .where("state", "!=", "ended")
      .orderBy("id")
      .forNoKeyUpdate()
      .execute();
    const changed: string[] = [];
    for (const copy of copies) {
      const said = told.get(copy.id);
      const next = said === undefined ? null : nextProgress(keptOf(copy), said);
      if (next === null) continue;
      await save(tx, copy.id, next);
      if (next.state === copy.state) continue;
      changed.push(copy.database_id);
      const { id: copyId, database_id: databaseId, project_id: projectId, channel } = copy;
      const detail = { copyId, databaseId, channel, nodeId, problem: next.problem };
      log[next.state === "broken" ? "warn" : "info"](
        { ...detail, projectId, from: copy.state, to: next.state },
        "copy",
      );
      if (next.state === "broken")
        await recordAudit(tx, { caller: null, address: "", action: "database.copy-broken", target: projectId, detail });
    }
    await enqueueCopies(tx, changed);
  });
}

const dateOf = (ms: number | null): Date | null => (ms === null ? null : new Date(ms));

const keptOf = ({ told_at, state, covered_at, problem, position, bytes, bases }: Copy): CopyProgress => ({
  ...{ toldAtMs: told_at?.getTime() ?? null, coveredAtMs: covered_at?.getTime() ?? null },
  ...{ state: state === "ended" ? "broken" : state, problem, position, bytes, bases },
});

const save = (tx: Db, id: string, { state, problem, position, bytes, bases, ...times }: CopyProgress) =>
  tx
    .updateTable("database_copy")
    .set({
      ...{ state, problem, position, bytes, bases: JSON.stringify(bases), seen_at: sql<Date>`now()` },
      ...{ told_at: dateOf(times.toldAtMs), covered_at: dateOf(times.coveredAtMs) },
    })
    .where("id", "=", id)
    .execute();
