import { expect, test } from "vitest";
import { afterAnswer, mayTell, type Setbacks, stillWanted } from "./setbacks.ts";

const told = new Map([["shop.test", "f1"]]);
const none: Setbacks = new Map();

test("what is refused again and again is told later and later, at last every ten minutes", () => {
  let setbacks = none;
  let nowMs = 0;
  const pausesMs: number[] = [];
  for (let times = 0; times < 9; times += 1) {
    setbacks = afterAnswer(setbacks, told, true, nowMs);
    expect(mayTell(setbacks, "shop.test", "f1", nowMs)).toBe(false);
    const againAtMs = setbacks.get("shop.test")?.againAtMs ?? 0;
    expect(mayTell(setbacks, "shop.test", "f1", againAtMs)).toBe(true);
    pausesMs.push(againAtMs - nowMs);
    nowMs = againAtMs;
  }
  expect(pausesMs.map((ms) => ms / 1_000)).toEqual([10, 20, 40, 80, 160, 320, 600, 600, 600]);
});

test("neither another certificate of the name nor one of another name waits", () => {
  const setbacks = afterAnswer(none, told, true, 0);
  expect(mayTell(setbacks, "shop.test", "f2", 0)).toBe(true);
  expect(mayTell(setbacks, "other.test", "f1", 0)).toBe(true);
  const again = afterAnswer(afterAnswer(setbacks, told, true, 10_000), new Map([["shop.test", "f2"]]), true, 20_000);
  expect(again.get("shop.test")).toMatchObject({ times: 1 });
});

test("what is taken over, or wanted no more, is forgotten", () => {
  const setbacks = afterAnswer(none, told, true, 0);
  expect(afterAnswer(setbacks, told, false, 1).size).toBe(0);
  expect(stillWanted(setbacks, told).size).toBe(1);
  expect(stillWanted(setbacks, new Map()).size).toBe(0);
});
