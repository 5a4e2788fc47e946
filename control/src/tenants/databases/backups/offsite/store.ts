import type { Random } from "@svc/runtime/random";
import { sql } from "kysely";
import type { Db } from "../../../../stores/db/pool.ts";
import type { Backup, OffsiteFile } from "../../../../stores/db/tables.ts";
import type { Secrets } from "../../../../stores/secrets.ts";
import { makeFileKey } from "./key.ts";
import { pieceBytes } from "./pieces.ts";

/** A file that is on its way, with what it is made of. */
export interface DueFile {
  file: OffsiteFile;
  backup: Pick<Backup, "id" | "project_id"> & {
    repository: string;
    digest: string;
    size_bytes: number;
    offsite_secret: Buffer;
  };
}

const now = sql<Date>`clock_timestamp()`;

/** Per round; the rest has its turn in the next. */
const roundMax = 50;
/** What came to nothing is left alone for so long. */
const againSeconds = 60;
/** Longer than anybody who still puts a piece there may take: no object is to come after its file was removed. */
const settledSeconds = 900;

/** Begins a file for each complete backup that has none at that place, with a key if it is its first. Returns how many. */
export async function beginFiles(
  { db, random, secrets }: { db: Db; random: Pick<Random, "uuid">; secrets: Pick<Secrets, "seal"> },
  place: string,
): Promise<number> {
  const backups = await db
    .selectFrom("database_backup")
    .select(["id", "offsite_secret"])
    .where("status", "=", "complete")
    .where(({ not, exists, selectFrom }) =>
      not(
        exists(
          selectFrom("offsite_file")
            .select("offsite_file.id")
            .whereRef("offsite_file.backup_id", "=", "database_backup.id")
            .where("offsite_file.place", "=", place),
        ),
      ),
    )
    .orderBy("created_at")
    .limit(roundMax)
    .execute();
  for (const { id } of backups) {
    const made = makeFileKey(secrets, id);
    await db.transaction().execute(async (tx) => {
      // Also holds the backup, which may be deleted meanwhile.
      const { numUpdatedRows } = await tx
        .updateTable("database_backup")
        .set({ offsite_secret: sql<Buffer>`coalesce(offsite_secret, ${made})` })
        .where("id", "=", id)
        .executeTakeFirst();
      if (numUpdatedRows !== 1n) return;
      await tx
        .insertInto("offsite_file")
        .values({ id: random.uuid(), backup_id: id, place, piece_bytes: pieceBytes })
        .onConflict((conflict) => conflict.columns(["backup_id", "place"]).doNothing())
        .execute();
    });
  }
  return backups.length;
}

/** Files that are not all there, those first that nobody has tried for longest. */
export async function listDueFiles(db: Db, place: string): Promise<DueFile[]> {
  const rows = await db
    .selectFrom("offsite_file as file")
    .innerJoin("database_backup as backup", "backup.id", "file.backup_id")
    .selectAll("file")
    .select(["backup.project_id", "backup.repository", "backup.digest as manifest", "backup.size_bytes"])
    .select("backup.offsite_secret")
    .where("file.place", "=", place)
    .where("file.complete_at", "is", null)
    .where(sql<boolean>`(file.problem is null or file.touched_at < now() - ${againSeconds} * interval '1 second')`)
    .orderBy("file.touched_at")
    .orderBy("file.id")
    .limit(roundMax)
    .execute();
  return rows.flatMap(({ project_id, repository, manifest, size_bytes, offsite_secret, ...file }) =>
    file.backup_id === null ||
    repository === null ||
    manifest === null ||
    size_bytes === null ||
    offsite_secret === null
      ? []
      : [
          {
            file,
            backup: { id: file.backup_id, project_id, repository, digest: manifest, size_bytes, offsite_secret },
          },
        ],
  );
}

/** Notes that pieces are there. False: the backup is no more, and nothing else is to follow. */
export async function setPieces(db: Db, id: string, pieces: number): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable("offsite_file")
    .set({ pieces, touched_at: now, problem: null })
    .where("id", "=", id)
    .where("backup_id", "is not", null)
    .executeTakeFirst();
  return numUpdatedRows === 1n;
}

export const setWhole = async (db: Db, id: string, digest: string): Promise<void> =>
  void (await db
    .updateTable("offsite_file")
    .set({ digest, complete_at: now, touched_at: now, problem: null })
    .where("id", "=", id)
    .execute());

export const setProblem = async (db: Db, id: string, problem: string): Promise<void> =>
  void (await db
    .updateTable("offsite_file")
    .set({ problem, touched_at: now })
    .where("id", "=", id)
    .where("complete_at", "is", null)
    .execute());

/** Files at that place whose backups are no more. */
export const listUselessFiles = (db: Db, place: string): Promise<OffsiteFile[]> =>
  db
    .selectFrom("offsite_file")
    .selectAll()
    .where("place", "=", place)
    .where("backup_id", "is", null)
    .where(sql<boolean>`(complete_at is not null or touched_at < now() - ${settledSeconds} * interval '1 second')`)
    .orderBy("touched_at")
    .limit(roundMax)
    .execute();

export const forgetFile = async (db: Db, id: string): Promise<void> =>
  void (await db.deleteFrom("offsite_file").where("id", "=", id).where("backup_id", "is", null).execute());

/** All of a backup that is at that place; null: it is not all there. */
export async function findWholeFile(db: Db, backupId: string, place: string): Promise<OffsiteFile | null> {
  const file = await db
    .selectFrom("offsite_file")
    .selectAll()
    .where("backup_id", "=", backupId)
    .where("place", "=", place)
    .where("complete_at", "is not", null)
    .executeTakeFirst();
  return file ?? null;
}

/** When all of each backup was at that place, by backup. */
export async function listOffsiteTimes(
  db: Db,
  backupIds: readonly string[],
  place: string,
): Promise<ReadonlyMap<string, Date>> {
  if (backupIds.length === 0) return new Map();
  const rows = await db
    .selectFrom("offsite_file")
    .select(["backup_id", "complete_at"])
    .where("backup_id", "in", backupIds)
    .where("place", "=", place)
    .execute();
  return new Map(rows.flatMap(({ backup_id: id, complete_at: at }) => (id && at ? [[id, at] as const] : [])));
}
