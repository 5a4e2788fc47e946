import type { CopySample } from "@svc/proto/node";
import { sql } from "kysely";
import { recordAudit } from "../../http/audit.ts";
import type { Log } from "../../log.ts";
import type { Db } from "../../stores/db/pool.ts";
import { uuid } from "../../stores/db/uuid.ts";
import { enqueueCopies } from "./checks.ts";
import { type CopyProgress, keptOf, nextProgress, progressOf, savedOf } from "./copy-sample.ts";

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

function save(tx: Db, id: string, progress: CopyProgress) {
  const { bases, ...saved } = savedOf(progress);
  return tx
    .updateTable("database_copy")
    .set({ ...saved, bases: JSON.stringify(bases), seen_at: sql<Date>`now()` })
    .where("id", "=", id)
    .execute();
}
