import { create } from "@bufbuild/protobuf";
import { Observed, type PlacementStatus, PlacementStatusSchema } from "@svc/proto/node";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
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

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] }));
afterEach(() => void vi.useRealTimers());

test("the first change goes at once, those right behind it share a batch", () => {
  const reporter = createStatusReporter();
  const batches = connect(reporter);
  reporter.report(aStatus("a", 1n));
  vi.advanceTimersByTime(0);
  reporter.acknowledge(1n);
  reporter.report(aStatus("b", 1n));
  reporter.report(aStatus("c", 1n));
  vi.advanceTimersByTime(99);
  expect(batches).toHaveLength(1);
  vi.advanceTimersByTime(1);
  expect(batches.map((batch) => batch.items)).toEqual([["a:1"], ["b:1", "c:1"]]);
});

test("what a deployment waits for does not wait for the window", () => {
  const reporter = createStatusReporter();
  const batches = connect(reporter);
  reporter.report(aStatus("a", 1n));
  vi.advanceTimersByTime(0);
  reporter.acknowledge(1n);
  reporter.report(aStatus("b", 1n));
  vi.advanceTimersByTime(10);
  reporter.report(aStatus("a", 2n, Observed.RUNNING));
  vi.advanceTimersByTime(0);
  expect(batches.at(-1)?.items).toEqual(["b:1", "a:2"]);
  reporter.acknowledge(2n);
  // It ran before: this is only a change of its health.
  reporter.report(aStatus("a", 3n, Observed.RUNNING));
  vi.advanceTimersByTime(50);
  expect(batches).toHaveLength(2);
});

test("one batch is under way at a time, and carries the newest status", () => {
  const reporter = createStatusReporter();
  const batches = connect(reporter);
  reporter.report(aStatus("a", 1n));
  vi.advanceTimersByTime(0);
  reporter.report(aStatus("a", 2n));
  reporter.report(aStatus("a", 3n));
  vi.advanceTimersByTime(1_000);
  expect(batches).toHaveLength(1);
  reporter.acknowledge(1n);
  vi.advanceTimersByTime(100);
  expect(batches.at(-1)?.items).toEqual(["a:3"]);
});

test("what was not acknowledged goes again in the next session", () => {
  const reporter = createStatusReporter();
  connect(reporter);
  reporter.report(aStatus("a", 1n));
  vi.advanceTimersByTime(0);
  reporter.close();
  const batches = connect(reporter);
  vi.advanceTimersByTime(0);
  expect(batches).toEqual([{ batchSeq: 2n, items: ["a:1"] }]);
  reporter.acknowledge(1n);
  reporter.report(aStatus("b", 1n));
  vi.advanceTimersByTime(1_000);
  expect(batches).toHaveLength(1);
});
