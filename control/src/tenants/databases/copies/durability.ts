import { sql } from "kysely";
import type { Db } from "../../../stores/db/pool.ts";
import type { Copy } from "../../../stores/db/tables.ts";
import { freshSeconds, isFollowing } from "./fresh.ts";

/** How safe the data of a branch is, as people are told. */
export interface Durability {
  protection: "local" | "keeper" | "offsite";
  /** Everything until then is in a bucket outside of this site; null: nothing is. */
  offsiteAt: string | null;
  copy: {
    nodeId: string | null;
    nodeName: string | null;
    state: Exclude<Copy["state"], "ended">;
    problem: string | null;
    coveredAt: string | null;
    lagSeconds: number | null;
  } | null;
  lastProvenRestore: { at: string; coveredAt: string; tookMs: number; bytes: number } | null;
}

const unknown: Durability = { protection: "local", offsiteAt: null, copy: null, lastProvenRestore: null };

/** Of a branch that the answer of `readDurability` does not name, nothing is kept elsewhere. */
export const durabilityOf = (known: ReadonlyMap<string, Durability>, databaseId: string): Durability =>
  known.get(databaseId) ?? unknown;

/** Of branches by id; null: of all. */
export async function readDurability(
  db: Db,
  databaseIds: readonly string[] | null,
): Promise<ReadonlyMap<string, Durability>> {
  const copies = await db
    .selectFrom("database_copy")
    .innerJoin("database", "database.id", "database_copy.database_id")
    .leftJoin("node", "node.id", "database_copy.node_id")
    .select([
      ...(["database_copy.database_id", "database_copy.node_id", "node.name", "database_copy.state"] as const),
      ...(["database_copy.problem", "database_copy.covered_at", "database_copy.purpose"] as const),
      sql<number | null>`greatest(extract(epoch from now() - database_copy.covered_at), 0)::int`.as("lag_seconds"),
      sql<boolean>`${isFollowing} and database_copy.generation = database.generation
        and database_copy.node_id <> database.node_id and node.lifecycle = 'active'`.as("is_elsewhere"),
    ])
    .where("database_copy.state", "!=", "ended")
    .$if(databaseIds !== null, (query) =>
      query.where("database_copy.database_id", "in", [...(databaseIds ?? []), nobody]),
    )
    .execute();
  const proofs = await db
    .selectFrom("restore_proof")
    .distinctOn("database_id")
    .select(["database_id", "ended_at", "covered_at", "took_ms", "bytes"])
    .where("verdict", "=", "proven")
    .$if(databaseIds !== null, (query) => query.where("database_id", "in", [...(databaseIds ?? []), nobody]))
    .orderBy("database_id")
    .orderBy("ended_at", "desc")
    .execute();
  const away = await sql<{ id: string; at: Date; is_fresh: boolean }>`
    select away.database_id as id, max(away.covered_at) as at,
      coalesce(bool_or(copy.generation = database.generation
        and away.covered_at >= now() - ${sql.lit(freshSeconds)} * interval '1 second'), false) as is_fresh
    from offsite_copy away join database on database.id = away.database_id
      left join database_copy copy on copy.id = away.copy_id
    where away.covered_at is not null
      and (${databaseIds === null}::boolean or away.database_id = any(${[...(databaseIds ?? [])]}::uuid[]))
    group by away.database_id`.execute(db);
  const known = new Map<string, Durability>();
  for (const [id, own] of Map.groupBy(copies, ({ database_id }) => database_id)) {
    const told = own.find(({ purpose }) => purpose === "keeper");
    known.set(id, {
      ...unknown,
      protection: own.some(({ is_elsewhere }) => is_elsewhere === true) ? "keeper" : "local",
      copy:
        told === undefined || told.state === "ended"
          ? null
          : {
              ...{ nodeId: told.node_id, nodeName: told.name, state: told.state, problem: told.problem },
              ...{ coveredAt: told.covered_at?.toISOString() ?? null, lagSeconds: told.lag_seconds },
            },
    });
  }
  for (const { id, at, is_fresh } of away.rows) {
    const told = durabilityOf(known, id);
    const protection = is_fresh ? "offsite" : told.protection;
    known.set(id, { ...told, protection, offsiteAt: at.toISOString() });
  }
  for (const { database_id: id, ended_at, covered_at, took_ms, bytes } of proofs) {
    if (ended_at === null || covered_at === null) continue;
    const lastProvenRestore = {
      ...{ at: ended_at.toISOString(), coveredAt: covered_at.toISOString() },
      ...{ tookMs: took_ms ?? 0, bytes: bytes ?? 0 },
    };
    known.set(id, { ...durabilityOf(known, id), lastProvenRestore });
  }
  return known;
}

/** So that a list is never empty. */
const nobody = "00000000-0000-0000-0000-000000000000";
