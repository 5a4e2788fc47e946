import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import { onAbort } from "./on-abort.ts";

const told: string[] = [];
const tell = (what: string) => () => void told.push(what);

test("calls everybody once, in their order, but who took it back", () => {
  told.length = 0;
  const ending = new AbortController();
  onAbort(ending.signal, tell("first"));
  const leave = onAbort(ending.signal, tell("second"));
  onAbort(ending.signal, tell("third"));
  leave();
  ending.abort();
  ending.abort();
  expect(told).toEqual(["first", "third"]);
});

test("does not call who is taken back by another in that very moment, and takes back what was called without harm", () => {
  told.length = 0;
  const ending = new AbortController();
  const leaveFirst = onAbort(ending.signal, () => leaveSecond());
  const leaveSecond = onAbort(ending.signal, tell("second"));
  ending.abort();
  leaveFirst();
  leaveSecond();
  expect(told).toEqual([]);
});

test("counts a function that is handed over twice as two", () => {
  told.length = 0;
  const ending = new AbortController();
  const same = tell("same");
  const leave = onAbort(ending.signal, same);
  onAbort(ending.signal, same);
  leave();
  ending.abort();
  expect(told).toEqual(["same"]);
});

test("listens once, and not any more when nobody waits", () => {
  const { signal } = new AbortController();
  const leaves = Array.from({ length: 100 }, () => onAbort(signal, () => {}));
  expect(getEventListeners(signal, "abort")).toHaveLength(1);
  for (const leave of leaves) leave();
  expect(getEventListeners(signal, "abort")).toEqual([]);
  onAbort(signal, tell("again"));
  expect(getEventListeners(signal, "abort")).toHaveLength(1);
});
