import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { Desired, Observed, PlacementSchema, RunOfferSchema } from "@svc/proto/node";
import { afterEach, beforeEach, expect, test } from "vitest";
import { newRecord } from "../placements/task.ts";
import { JournalBusyError, openJournal } from "./journal.ts";

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "svc-journal-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const aRecord = (placementId: string) => {
  const spec = { case: "serve" as const, value: { env: { SECRET: "s3cret" }, port: 3000 } };
  return newRecord(
    create(PlacementSchema, { placementId, epoch: 7n, desired: Desired.RUNNING, specHash: "h", spec }),
    new Date(0),
  );
};
const chain = { clusterEpoch: 1n, leaderEpoch: 12345678901234567890n, resultsIn: "42" };

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
  const record = {
    offer: create(RunOfferSchema, { attemptId: "a.1", command: "x" }),
    state: "start-sent" as const,
    token: "t",
    exitCode: 0,
    timedOut: true,
    message: "",
    startedAt: "2030-01-01T00:00:00Z",
    finishedAt: "",
  };
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
  expect(journal.chain()).toEqual({ clusterEpoch: 0n, leaderEpoch: 0n, resultsIn: "" });
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
