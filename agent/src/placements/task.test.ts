import { create } from "@bufbuild/protobuf";
import { Observed, PlacementSchema } from "@svc/proto/node";
import { createManualClock } from "@svc/runtime/testing/manual-clock";
import { expect, test } from "vitest";
import type { Journal } from "../journal/journal.ts";
import { createTask, newRecord } from "./task.ts";

test("what could not be written has not changed, and is told once it is", () => {
  const clock = createManualClock();
  const told: Observed[] = [];
  let isFull = true;
  const saveProgress = (): void => {
    if (isFull) throw new Error("disk I/O error");
  };
  const task = createTask({
    clock,
    record: newRecord(create(PlacementSchema, { placementId: "t1" }), clock.now()),
    journal: { saveProgress } as unknown as Journal,
    onChange: ({ status }) => void told.push(status.observed),
  });
  expect(() => task.update({ observed: Observed.FAILED })).toThrow("disk I/O error");
  expect(task.record().status).toMatchObject({ observed: Observed.ASSIGNED, statusSeq: 1n });
  isFull = false;
  task.update({ observed: Observed.FAILED });
  expect(task.record().status).toMatchObject({ observed: Observed.FAILED, statusSeq: 2n });
  expect(told).toEqual([Observed.FAILED]);
});
