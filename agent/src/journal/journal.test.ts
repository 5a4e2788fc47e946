import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { create, toBinary } from "@bufbuild/protobuf";
import { Desired, Observed, PlacementSchema, PlacementStatusSchema, RunOfferSchema } from "@svc/proto/node";
import { afterEach, beforeEach, expect, test } from "vitest";
import { newRecord } from "../placements/task.ts";
import { JournalBusyError, openJournal } from "./journal.ts";
import { schema } from "./schema.ts";

let root: string;
let dir: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "svc-journal-"));
  dir = join(root, "agent");
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const aRecord = (placementId: string) => {
  const spec = { case: "serve" as const, value: { env: { SECRET: "s3cret" }, port: 3000 } };
  return newRecord(
    create(PlacementSchema, { placementId, epoch: 7n, desired: Desired.RUNNING, specHash: "h", spec }),
    new Date(0),
  );
};
const chain = { clusterEpoch: 1n, leaderEpoch: 12345678901234567890n, resultsIn: "42", beginsAnew: false };

const aRun = () => ({
  offer: create(RunOfferSchema, { attemptId: "a.1", command: "x", env: { SECRET: "s3cret" } }),
  state: "start-sent" as const,
  token: "t",
  exitCode: 0,
  timedOut: true,
  message: "",
  startedAt: "2030-01-01T00:00:00Z",
  finishedAt: "",
});

/** The files of the journal's directory that hold these bytes. */
const filesWith = (bytes: string | Uint8Array, at = dir) =>
  readdirSync(at).filter((name) => readFileSync(join(at, name)).includes(Buffer.from(bytes)));
/** How placement `id` is kept, as it is in the file. */
const keptAs = (id: string): Uint8Array => {
  const copy = mkdtempSync(join(root, "copy-"));
  cpSync(dir, copy, { recursive: true });
  using db = new DatabaseSync(join(copy, "journal.sqlite"));
  return db.prepare("select message from placement where id = ?").get(id)?.["message"] as Uint8Array;
};

test("an assignment is found again after a restart, chain and placements together", () => {
  {
    using journal = openJournal(dir);
    journal.commitAssignment({ chain, placements: [aRecord("a"), aRecord("b")], forgotten: [] });
    journal.commitAssignment({ chain: { ...chain, resultsIn: "43" }, placements: [], forgotten: ["a"] });
  }
  using journal = openJournal(dir);
  expect(journal.chain()).toEqual({ ...chain, resultsIn: "43" });
  expect(journal.listPlacements()).toEqual([aRecord("b")]);
});

test("progress survives apart from the assignment, and goes with its placement", () => {
  using journal = openJournal(dir);
  const record = aRecord("a");
  journal.savePlacement(record);
  record.status.observed = Observed.RUNNING;
  record.status.statusSeq = 9n;
  record.memory = { ...record.memory, wasHealthy: true, crashes: 2 };
  journal.saveProgress(record);
  journal.savePlacement({ ...record, orphan: true });
  expect(journal.listPlacements()).toEqual([{ ...record, orphan: true }]);
  journal.forgetPlacement("a");
  expect(journal.listPlacements()).toEqual([]);
});

test("a run is found again with its offer and state", () => {
  const record = aRun();
  {
    using journal = openJournal(dir);
    journal.saveRun({ ...record, state: "intent" });
    journal.saveRun(record);
  }
  using journal = openJournal(dir);
  expect(journal.listRuns()).toEqual([record]);
});

test("only one agent at a time has a directory", () => {
  {
    using _ = openJournal(dir);
    expect(() => openJournal(dir)).toThrow(JournalBusyError);
  }
  openJournal(dir)[Symbol.dispose]();
});

test("nobody else can read it", () => {
  using _ = openJournal(dir);
  expect(statSync(join(dir, "journal.sqlite")).mode & 0o777).toBe(0o600);
});

test("another identity starts with an empty journal", () => {
  using journal = openJournal(dir);
  journal.claim("c/n1/1");
  journal.commitAssignment({ chain, placements: [aRecord("a")], forgotten: [] });
  journal.claim("c/n1/1");
  expect(journal.listPlacements()).toHaveLength(1);
  journal.claim("c/n2/1");
  expect(journal.listPlacements()).toEqual([]);
  expect(journal.chain()).toEqual({ clusterEpoch: 0n, leaderEpoch: 0n, resultsIn: "", beginsAnew: false });
});

test("images are remembered per owner, the newest use first", () => {
  using journal = openJournal(dir);
  journal.noteImage("r@1", "p1", 10);
  journal.noteImage("r@2", "p1", 30);
  journal.noteImage("r@1", "p2", 20);
  journal.noteImage("r@1", "p1", 40);
  expect(journal.listImages().map(({ reference, owner }) => `${reference} ${owner}`)).toEqual([
    "r@1 p1",
    "r@2 p1",
    "r@1 p2",
  ]);
  expect([journal.hasImage("r@1", "p2"), journal.hasImage("r@2", "p2")]).toEqual([true, false]);
  journal.forgetImage("r@1");
  expect(journal.listImages()).toHaveLength(1);
});

test("what tenants keep secret is in no file in the clear, while it is there and after", () => {
  using journal = openJournal(dir);
  journal.commitAssignment({ chain, placements: [aRecord("a"), aRecord("b")], forgotten: [] });
  journal.saveRun(aRun());
  journal.saveSetting("registry", "s3cret");
  expect(filesWith("s3cret")).toEqual([]);
  expect(journal.findSetting("registry")).toBe("s3cret");
});

test("what is deleted leaves the files, also those of the write-ahead log", () => {
  using journal = openJournal(dir);
  journal.savePlacement(aRecord("a"));
  journal.savePlacement(aRecord("b"));
  const sealed = keptAs("a");
  const other = keptAs("b");
  expect(filesWith(sealed)).not.toEqual([]);
  journal.forgetPlacement("a");
  expect(filesWith(sealed)).toEqual([]);
  journal.commitAssignment({ chain, placements: [], forgotten: ["b"] });
  expect(filesWith(other)).toEqual([]);
});

test("what was deleted when the agent died leaves the files with the next start", () => {
  {
    using journal = openJournal(dir);
    journal.savePlacement(aRecord("a"));
  }
  const sealed = keptAs("a");
  const left = join(root, "left");
  {
    // In the write-ahead log, and not yet in the file.
    using db = new DatabaseSync(join(dir, "journal.sqlite"));
    db.exec("pragma secure_delete = on; pragma foreign_keys = on; delete from placement");
    cpSync(dir, left, { recursive: true });
  }
  expect(filesWith(sealed, left)).not.toEqual([]);
  using journal = openJournal(left);
  expect(journal.listPlacements()).toEqual([]);
  expect(filesWith(sealed, left)).toEqual([]);
});

test("a copy without the key opens nothing, and neither does a row in the place of another", () => {
  {
    using journal = openJournal(dir);
    journal.savePlacement(aRecord("a"));
    journal.savePlacement(aRecord("b"));
  }
  {
    using db = new DatabaseSync(join(dir, "journal.sqlite"));
    db.exec("update placement set message = (select message from placement where id = 'a') where id = 'b'");
  }
  using journal = openJournal(dir);
  expect([journal.unreadable, journal.listPlacements()]).toEqual([1, [aRecord("a")]]);
});

test.each([
  { what: "is lost", spoil: (path: string) => rmSync(path) },
  { what: "is half written", spoil: (path: string) => writeFileSync(path, "half") },
  { what: "is another one", spoil: (path: string) => writeFileSync(path, Buffer.alloc(32, 7)) },
])("when the key $what the journal is empty but for the chain and how far runs came", ({ spoil }) => {
  {
    using journal = openJournal(dir);
    journal.claim("c/n1/1");
    journal.commitAssignment({ chain, placements: [aRecord("a")], forgotten: [] });
    journal.saveRun(aRun());
    journal.saveSetting("registry", "x");
  }
  spoil(join(dir, "journal.key"));
  {
    using journal = openJournal(dir);
    journal.claim("c/n1/1");
    expect(journal.unreadable).toBe(3);
    expect([journal.listPlacements(), journal.findSetting("registry"), journal.chain()]).toEqual([[], null, chain]);
    // It does not run twice, and nobody knows any more what it was.
    expect(journal.listRuns()).toEqual([{ ...aRun(), offer: create(RunOfferSchema, { attemptId: "a.1" }) }]);
    journal.savePlacement(aRecord("b"));
  }
  using journal = openJournal(dir);
  expect([journal.unreadable, journal.listPlacements()]).toEqual([0, [aRecord("b")]]);
});

test("another identity has another key", () => {
  using journal = openJournal(dir);
  journal.claim("c/n1/1");
  const key = readFileSync(join(dir, "journal.key"));
  expect(statSync(join(dir, "journal.key")).mode & 0o777).toBe(0o600);
  journal.claim("c/n1/1");
  expect(readFileSync(join(dir, "journal.key"))).toEqual(key);
  journal.savePlacement(aRecord("a"));
  const sealed = keptAs("a");
  journal.claim("c/n2/1");
  expect(readFileSync(join(dir, "journal.key"))).not.toEqual(key);
  expect(filesWith(sealed)).toEqual([]);
  journal.saveSetting("registry", "x");
  expect(journal.findSetting("registry")).toBe("x");
});

test("a journal of an older agent is sealed, with what that one had deleted", () => {
  const { placement, status, memory } = aRecord("a");
  const run = aRun();
  mkdirSync(dir);
  {
    using db = new DatabaseSync(join(dir, "journal.sqlite"));
    db.exec(`pragma journal_mode = wal; pragma foreign_keys = on; ${schema}; pragma user_version = 1`);
    const insert = db.prepare("insert into placement (id, message, orphan) values (?, ?, 0)");
    insert.run("a", toBinary(PlacementSchema, placement));
    // Longer than a page, so that whole pages are free once it is deleted.
    insert.run("gone", Buffer.from("s3cret ".repeat(10_000)));
    db.prepare("insert into progress (id, status, memory) values (?, ?, ?)").run(
      ...["a", toBinary(PlacementStatusSchema, status), JSON.stringify(memory)],
    );
    const { offer, ...record } = run;
    db.prepare("insert into run (id, offer, record) values (?, ?, ?)").run(
      ...["a.1", toBinary(RunOfferSchema, offer), JSON.stringify(record)],
    );
    const set = db.prepare("insert into setting (key, value) values (?, ?)");
    set.run("owner", "c/n1/1");
    set.run("chain", JSON.stringify({ clusterEpoch: "1", leaderEpoch: "12345678901234567890", resultsIn: "42" }));
    set.run("registry", "s3cret");
    db.exec("delete from placement where id = 'gone'");
  }
  expect(filesWith("s3cret")).not.toEqual([]);
  {
    using journal = openJournal(dir);
    expect(filesWith("s3cret")).toEqual([]);
    journal.claim("c/n1/1");
    expect([journal.unreadable, journal.listPlacements()]).toEqual([0, [aRecord("a")]]);
    expect([journal.listRuns(), journal.findSetting("registry"), journal.chain()]).toEqual([[run], "s3cret", chain]);
  }
  using journal = openJournal(dir);
  expect(journal.listPlacements()).toEqual([aRecord("a")]);
});
