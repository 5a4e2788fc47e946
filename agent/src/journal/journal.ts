import { chmodSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { type Placement, PlacementSchema, PlacementStatusSchema, RunOfferSchema } from "@svc/proto/node";
import { type Chain, freshMemory, type PlacementRecord, type RunRecord } from "./records.ts";
import { SCHEMA, SCHEMA_VERSION } from "./schema.ts";

/** Another agent holds the state directory. */
export class JournalBusyError extends Error {
  override name = "JournalBusyError";
}

const OWNER_SETTING = "owner";

/**
 * What survives a crash of the agent and of the machine. Every write is on disk when its call returns, so
 * what is acted on afterwards was written first. All calls are synchronous: a write takes a millisecond.
 */
export type Journal = Disposable & {
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
    db.exec("pragma foreign_keys = on; begin immediate");
    db.exec(SCHEMA);
    const version = Number(db.prepare("pragma user_version").get()?.["user_version"] ?? 0);
    if (version > SCHEMA_VERSION) throw new Error(`${path} was written by a newer version of the agent`);
    db.exec(`pragma user_version = ${SCHEMA_VERSION}; commit`);
    // It holds the environment of tenants' containers.
    chmodSync(path, 0o600);
  } catch (cause) {
    db.close();
    if (cause instanceof Error && /locked|busy/i.test(cause.message)) {
      throw new JournalBusyError(`another agent uses ${dir}`, { cause });
    }
    throw cause;
  }
  return createJournal(db);
}

function createJournal(db: DatabaseSync): Journal {
  const sql = {
    setting: db.prepare("select value from setting where key = ?"),
    saveSetting: db.prepare("insert or replace into setting (key, value) values (?, ?)"),
    placements: db.prepare(
      "select message, orphan, status, memory from placement join progress using (id) order by placement.rowid",
    ),
    savePlacement: db.prepare(
      "insert into placement (id, message, orphan) values (?, ?, ?) " +
        "on conflict (id) do update set message = excluded.message, orphan = excluded.orphan",
    ),
    saveProgress: db.prepare("insert or replace into progress (id, status, memory) values (?, ?, ?)"),
    forgetPlacement: db.prepare("delete from placement where id = ?"),
    runs: db.prepare("select offer, record from run order by rowid"),
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

  const findSetting = (key: string): string | null => {
    const value = sql.setting.get(key)?.["value"];
    return typeof value === "string" ? value : null;
  };
  const saveProgress = (record: PlacementRecord): void => {
    const status = toBinary(PlacementStatusSchema, record.status);
    sql.saveProgress.run(record.placement.placementId, status, JSON.stringify(record.memory));
  };
  const savePlacement = (record: PlacementRecord): void => {
    sql.savePlacement.run(
      record.placement.placementId,
      toBinary(PlacementSchema, record.placement),
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

  return {
    chain() {
      const { clusterEpoch = "0", leaderEpoch = "0", resultsIn = "" } = parseChain(findSetting("chain"));
      return { clusterEpoch: BigInt(clusterEpoch), leaderEpoch: BigInt(leaderEpoch), resultsIn };
    },
    commitAssignment({ chain, placements, forgotten }) {
      const text = JSON.stringify({
        clusterEpoch: chain.clusterEpoch.toString(),
        leaderEpoch: chain.leaderEpoch.toString(),
        resultsIn: chain.resultsIn,
      });
      atomically(() => {
        sql.saveSetting.run("chain", text);
        for (const record of placements) savePlacement(record);
        for (const id of forgotten) sql.forgetPlacement.run(id);
      });
    },
    listPlacements: () => sql.placements.all().map(toPlacementRecord),
    savePlacement: (record) => atomically(() => savePlacement(record)),
    saveProgress,
    forgetPlacement: (placementId) => void sql.forgetPlacement.run(placementId),

    listRuns: () =>
      sql.runs
        .all()
        .map((row) => ({ ...JSON.parse(text(row["record"])), offer: fromBinary(RunOfferSchema, bytes(row["offer"])) })),
    saveRun({ offer, ...record }) {
      sql.saveRun.run(offer.attemptId, toBinary(RunOfferSchema, offer), JSON.stringify(record));
    },
    forgetRun: (attemptId) => void sql.forgetRun.run(attemptId),

    claim(owner) {
      const before = findSetting(OWNER_SETTING);
      if (before === owner) return;
      atomically(() => {
        if (before !== null) db.exec("delete from placement; delete from run; delete from setting; delete from image");
        sql.saveSetting.run(OWNER_SETTING, owner);
      });
    },

    findSetting,
    saveSetting: (key, value) => void sql.saveSetting.run(key, value),

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

function toPlacementRecord(row: Record<string, unknown>): PlacementRecord {
  const placement: Placement = fromBinary(PlacementSchema, bytes(row["message"]));
  return {
    placement,
    status: fromBinary(PlacementStatusSchema, bytes(row["status"])),
    memory: { ...freshMemory, ...JSON.parse(text(row["memory"])) },
    orphan: row["orphan"] === 1,
  };
}

function parseChain(value: string | null): { clusterEpoch?: string; leaderEpoch?: string; resultsIn?: string } {
  return value === null ? {} : JSON.parse(value);
}

const text = (value: unknown): string => (typeof value === "string" ? value : "");

function bytes(value: unknown): Uint8Array {
  if (value instanceof Uint8Array) return value;
  throw new Error("the journal is damaged: a message is not made of bytes");
}
