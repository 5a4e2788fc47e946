import { create } from "@bufbuild/protobuf";
import { Observed, type PlacementStatus, PlacementStatusSchema } from "@svc/proto/node";
import { createManualClock, type ManualClock } from "@svc/runtime/testing/manual-clock";
import { beforeEach, expect, test } from "vitest";
import { createStatusReporter } from "./status-reporter.ts";

const aStatus = (placementId: string, statusSeq: bigint, observed: Observed = Observed.STARTING): PlacementStatus =>
  create(PlacementStatusSchema, { placementId, statusSeq, observed });

function connect(reporter: ReturnType<typeof createStatusReporter>) {
  const batches: { batchSeq: bigint; items: string[] }[] = [];
  reporter.open((batchSeq, items) => {
    batches.push({ batchSeq, items: items.map((item) => `${item.placementId}:${item.statusSeq}`) });
    return true;
  });
  return batches;
}

let clock: ManualClock;
beforeEach(() => {
  clock = createManualClock();
});

test("the first change goes at once, those right behind it share a batch", async () => {
  const reporter = createStatusReporter(clock);
  const batches = connect(reporter);
  reporter.report(aStatus("a", 1n));
  await clock.advance(0);
  reporter.acknowledge(1n);
  reporter.report(aStatus("b", 1n));
  reporter.report(aStatus("c", 1n));
  await clock.advance(99);
  expect(batches).toHaveLength(1);
  await clock.advance(1);
  expect(batches.map((batch) => batch.items)).toEqual([["a:1"], ["b:1", "c:1"]]);
});

test("what a deployment waits for does not wait for the window", async () => {
  const reporter = createStatusReporter(clock);
  const batches = connect(reporter);
  reporter.report(aStatus("a", 1n));
  await clock.advance(0);
  reporter.acknowledge(1n);
  reporter.report(aStatus("b", 1n));
  await clock.advance(10);
  reporter.report(aStatus("a", 2n, Observed.RUNNING));
  await clock.advance(0);
  expect(batches.at(-1)?.items).toEqual(["b:1", "a:2"]);
  reporter.acknowledge(2n);
  // It ran before: this is only a change of its health.
  reporter.report(aStatus("a", 3n, Observed.RUNNING));
  await clock.advance(50);
  expect(batches).toHaveLength(2);
});

test("one batch is under way at a time, and carries the newest status", async () => {
  const reporter = createStatusReporter(clock);
  const batches = connect(reporter);
  reporter.report(aStatus("a", 1n));
  await clock.advance(0);
  reporter.report(aStatus("a", 2n));
  reporter.report(aStatus("a", 3n));
  await clock.advance(1_000);
  expect(batches).toHaveLength(1);
  reporter.acknowledge(1n);
  await clock.advance(100);
  expect(batches.at(-1)?.items).toEqual(["a:3"]);
});

test("what was not acknowledged goes again in the next session", async () => {
  const reporter = createStatusReporter(clock);
  connect(reporter);
  reporter.report(aStatus("a", 1n));
  await clock.advance(0);
  reporter.close();
  const batches = connect(reporter);
  await clock.advance(0);
  expect(batches).toEqual([{ batchSeq: 2n, items: ["a:1"] }]);
  reporter.acknowledge(1n);
  reporter.report(aStatus("b", 1n));
  await clock.advance(1_000);
  expect(batches).toHaveLength(1);
});
