import { expect, test } from "vitest";
import { orderInTurn } from "./turns.ts";

const jobs = ["a", "b", "c", "d"].map((jobId) => ({ jobId }));
const firstAt = (minute: number, second = 0): string | undefined =>
  jobs.toSorted(orderInTurn(new Date(Date.UTC(2030, 0, 1, 0, minute, second))))[0]?.jobId;

test("where room is short each job is the first to get it within the hour, and one at a time", () => {
  const first = Array.from({ length: 60 }, (_, minute) => firstAt(minute));
  expect(new Set(first)).toEqual(new Set(["a", "b", "c", "d"]));
  expect(Array.from({ length: 60 }, (_, minute) => firstAt(minute, 59))).toEqual(first);
});
