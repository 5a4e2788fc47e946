import { chmodSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { type Placement, PlacementSchema, PlacementStatusSchema, RunOfferSchema } from "@svc/proto/node";
import { type Chain, freshMemory, type PlacementRecord, type RunRecord } from "./records.ts";
import { schema, schemaVersion, sealedSince } from "./schema.ts";
import { openSeal, renewSeal, type Seal } from "./seal.ts";
import { chainSetting, dropUnreadable, ownerSetting, placeOf, sealRows } from "./sealed-rows.ts";

/** Another agent holds the state directory. */
export class JournalBusyError extends Error {
  override name = "JournalBusyError";
}

/**
 * What survives a crash of the agent and of the machine. Every write is on disk when its call returns, so
 * what is acted on afterwards was written first. All calls are synchronous: a write takes a millisecond.
 *
 * Placements, offers and settings are sealed with a key of the node, in a file beside the journal: a copy of the journal
 * alone tells nobody the environment of tenants. What is deleted leaves the files with it, sealed or not. Without the key
 * the journal is as good as lost, and the node asks control what should be, as it would then.
 */
export type Journal = Disposable & {
  /** What could not be opened with the key, and was given up. */
  readonly unreadable: number;
  chain(): Chain;
  /** Takes an assignment as a whole: the chain moves together with the placements. */
  commitAssignment(change: {
    chain: Chain;
    placements: readonly PlacementRecord[];
    forgotten: readonly string[];
  }): void;
  listPlacements(): PlacementRecord[];
  savePlacement(record: PlacementRecord): void;
  /** Only what changes while a placement lives; the placement has to be known. */
  saveProgress(record: PlacementRecord): void;
  forgetPlacement(placementId: string): void;

  listRuns(): RunRecord[];
  saveRun(record: RunRecord): void;
  forgetRun(attemptId: string): void;

  /** Empties the journal when it was kept for another identity: none of it is this node's business. */
  claim(owner: string): void;

  findSetting(key: string): string | null;
  saveSetting(key: string, value: string): void;

  /** Remembers who used an image and when. */
  noteImage(reference: string, owner: string, usedAtMs: number): void;
  hasImage(reference: string, owner: string): boolean;
  /** Most recently used first. */
  listImages(): { reference: string; owner: string; usedAtMs: number }[];
  /** For one project, or for all of them. */
  forgetImage(reference: string, owner?: string): void;

  /** Rows by table. */
  count(): { placement: number; run: number; image: number };
};

/** Opens the journal in `dir` for this process alone. Throws `JournalBusyError` when another one has it. */
export function openJournal(dir: string): Journal {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const path = join(dir, "journal.sqlite");
  const db = new DatabaseSync(path, { timeout: 0 });
  try {
    // The exclusive lock is the guard of the whole directory; the kernel drops it with the process.
    db.exec("pragma locking_mode = exclusive; pragma journal_mode = wal; pragma synchronous = full");
    db.exec("pragma foreign_keys = on; pragma secure_delete = on; begin immediate");
    db.exec(schema);
    const version = Number(db.prepare("pragma user_version").get()?.["user_version"] ?? 0);
    if (version > schemaVersion) throw new Error(`${path} was written by a newer version of the agent`);
    db.exec("commit");
    chmodSync(path, 0o600);
    // Its free pages hold what was deleted before deletions were wiped.
    if (version < sealedSince) db.exec("vacuum");
    const keyPath = join(dir, "journal.key");
    const seal = openSeal(keyPath);
    db.exec("begin immediate");
    if (version < sealedSince) sealRows(db, seal);
    const unreadable = dropUnreadable(db, seal);
    db.exec(`pragma user_version = ${schemaVersion}; commit`);
    wipe(db);
    return createJournal(db, { seal, renew: () => renewSeal(keyPath), unreadable });
  } catch (cause) {
    db.close();
    if (cause instanceof Error && /locked|busy/i.test(cause.message)) {
      throw new JournalBusyError(`another agent uses ${dir}`, { cause });
    }
    throw cause;
  }
}

/** Copies of what was deleted are in the write-ahead log until that is written back and cut. */
const wipe = (db: DatabaseSync): void => db.exec("pragma wal_checkpoint(truncate)");

interface Sealing {
  seal: Seal;
  renew(): Seal;
  unreadable: number;
}

function createJournal(db: DatabaseSync, { seal: first, renew, unreadable }: Sealing): Journal {
  let seal = first;
  const sql = {
    setting: db.prepare("select value from setting where key = ?"),
    saveSetting: db.prepare("insert or replace into setting (key, value) values (?, ?)"),
    placements: db.prepare(
      "select id, message, orphan, status, memory from placement join progress using (id) order by placement.rowid",
    ),
    savePlacement: db.prepare(
      "insert into placement (id, message, orphan) values (?, ?, ?) " +
        "on conflict (id) do update set message = excluded.message, orphan = excluded.orphan",
    ),
    saveProgress: db.prepare("insert or replace into progress (id, status, memory) values (?, ?, ?)"),
    forgetPlacement: db.prepare("delete from placement where id = ?"),
    runs: db.prepare("select id, offer, record from run order by rowid"),
    saveRun: db.prepare("insert or replace into run (id, offer, record) values (?, ?, ?)"),
    forgetRun: db.prepare("delete from run where id = ?"),
    images: db.prepare("select reference, owner, used_at from image order by used_at desc, reference"),
    count: db.prepare(
      "select (select count(*) from placement) as placement, (select count(*) from run) as run, " +
        "(select count(*) from image) as image",
    ),
    hasImage: db.prepare("select 1 as found from image where reference = ? and owner = ?"),
    noteImage: db.prepare("insert or replace into image (reference, owner, used_at) values (?, ?, ?)"),
    forgetImage: db.prepare("delete from image where reference = ?"),
    forgetImageOf: db.prepare("delete from image where reference = ? and owner = ?"),
  };

  const findPlain = (key: string): string | null => {
    const value = sql.setting.get(key)?.["value"];
    return typeof value === "string" ? value : null;
  };
  const opened = (sealed: Uint8Array, place: string): Uint8Array => {
    const plain = seal.open(sealed, place);
    if (plain === null) throw new Error(`the journal is damaged: ${place} does not open`);
    return plain;
  };
  const saveProgress = (record: PlacementRecord): void => {
    const status = toBinary(PlacementStatusSchema, record.status);
    sql.saveProgress.run(record.placement.placementId, status, JSON.stringify(record.memory));
  };
  const savePlacement = (record: PlacementRecord): void => {
    sql.savePlacement.run(
      record.placement.placementId,
      seal.seal(toBinary(PlacementSchema, record.placement), placeOf("placement", record.placement.placementId)),
      record.orphan ? 1 : 0,
    );
    saveProgress(record);
  };
  const atomically = (work: () => void): void => {
    db.exec("begin immediate");
    try {
      work();
      db.exec("commit");
    } catch (cause) {
      db.exec("rollback");
      throw cause;
    }
  };

  /** It is gone from the files when the call returns. */
  const erase = (deletion: StatementSync, id: string): void => {
    if (deletion.run(id).changes !== 0) wipe(db);
  };

  return {
    unreadable,
    chain() {
      const known = parseChain(findPlain(chainSetting));
      const { clusterEpoch = "0", leaderEpoch = "0", resultsIn = "", beginsAnew = false } = known;
      return { clusterEpoch: BigInt(clusterEpoch), leaderEpoch: BigInt(leaderEpoch), resultsIn, beginsAnew };
    },
    commitAssignment({ chain, placements, forgotten }) {
      const text = JSON.stringify({
        clusterEpoch: chain.clusterEpoch.toString(),
        leaderEpoch: chain.leaderEpoch.toString(),
        resultsIn: chain.resultsIn,
        beginsAnew: chain.beginsAnew,
      });
      atomically(() => {
        sql.saveSetting.run(chainSetting, text);
        for (const record of placements) savePlacement(record);
        for (const id of forgotten) sql.forgetPlacement.run(id);
      });
      if (forgotten.length > 0) wipe(db);
    },
    listPlacements: () =>
      sql.placements
        .all()
        .map((row) => toPlacementRecord(row, opened(bytes(row["message"]), placeOf("placement", text(row["id"]))))),
    savePlacement: (record) => atomically(() => savePlacement(record)),
    saveProgress,
    forgetPlacement: (placementId) => erase(sql.forgetPlacement, placementId),

    listRuns: () =>
      sql.runs.all().map((row) => {
        const offer = opened(bytes(row["offer"]), placeOf("run", text(row["id"])));
        return { ...JSON.parse(text(row["record"])), offer: fromBinary(RunOfferSchema, offer) };
      }),
    saveRun({ offer, ...record }) {
      const sealed = seal.seal(toBinary(RunOfferSchema, offer), placeOf("run", offer.attemptId));
      sql.saveRun.run(offer.attemptId, sealed, JSON.stringify(record));
    },
    forgetRun: (attemptId) => erase(sql.forgetRun, attemptId),

    claim(owner) {
      const before = findPlain(ownerSetting);
      if (before === owner) return;
      // First: with the former key go copies of the journal that were made until now.
      if (before !== null) seal = renew();
      atomically(() => {
        if (before !== null) db.exec("delete from placement; delete from run; delete from setting; delete from image");
        sql.saveSetting.run(ownerSetting, owner);
      });
      wipe(db);
    },

    findSetting(key) {
      const sealed = findPlain(key);
      return sealed === null
        ? null
        : Buffer.from(opened(Buffer.from(sealed, "base64"), placeOf("setting", key))).toString();
    },
    saveSetting(key, value) {
      const sealed = seal.seal(Buffer.from(value), placeOf("setting", key));
      sql.saveSetting.run(key, Buffer.from(sealed).toString("base64"));
    },

    hasImage: (reference, owner) => sql.hasImage.get(reference, owner) !== undefined,
    noteImage: (reference, owner, usedAtMs) => void sql.noteImage.run(reference, owner, usedAtMs),
    listImages: () =>
      sql.images.all().map((row) => ({
        reference: text(row["reference"]),
        owner: text(row["owner"]),
        usedAtMs: Number(row["used_at"]),
      })),
    forgetImage(reference, owner) {
      if (owner === undefined) sql.forgetImage.run(reference);
      else sql.forgetImageOf.run(reference, owner);
    },

    count() {
      const row = sql.count.get() ?? {};
      return { placement: Number(row["placement"]), run: Number(row["run"]), image: Number(row["image"]) };
    },

    [Symbol.dispose]: () => db.close(),
  };
}

function toPlacementRecord(row: Record<string, unknown>, message: Uint8Array): PlacementRecord {
  const placement: Placement = fromBinary(PlacementSchema, message);
  return {
    placement,
    status: fromBinary(PlacementStatusSchema, bytes(row["status"])),
    memory: { ...freshMemory, ...JSON.parse(text(row["memory"])) },
    orphan: row["orphan"] === 1,
  };
}

/** Of an agent of before anything may be missing. */
function parseChain(
  value: string | null,
): Partial<Record<"clusterEpoch" | "leaderEpoch" | "resultsIn", string> & { beginsAnew: boolean }> {
  return value === null ? {} : JSON.parse(value);
}

const text = (value: unknown): string => (typeof value === "string" ? value : "");

function bytes(value: unknown): Uint8Array {
  if (value instanceof Uint8Array) return value;
  throw new Error("the journal is damaged: a message is not made of bytes");
}
