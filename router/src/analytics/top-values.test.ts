import { expect, test } from "vitest";
import { addValue, certain, type TopValues } from "./top-values.ts";

const of = (values: TopValues) => Object.fromEntries(certain(values).counts.map(({ value, count }) => [value, count]));

test("with room for all, all counts are exact", () => {
  const values: TopValues = new Map();
  for (const value of ["a", "b", "a", "c", "a"]) addValue(values, value, 1, 3);
  expect(of(values)).toEqual({ a: 3, b: 1, c: 1 });
  expect(certain(values).other).toBe(0);
});

test("invented values cost the frequent ones nothing, take no more room, and are together what they were", () => {
  const values: TopValues = new Map();
  let added = 0;
  for (let n = 0; n < 10_000; n += 1) {
    addValue(values, `invented ${n}`, 1, 200);
    added += 1;
    if (n % 10 !== 0) continue;
    for (const value of ["/", "/about"]) addValue(values, value, 1, 200);
    added += 2;
  }
  expect(values.size).toBe(200);
  const { counts, other } = certain(values);
  expect(of(values)).toMatchObject({ "/": 1000, "/about": 1000 });
  expect(counts.reduce((sum, { count }) => sum + count, other)).toBe(added);
});

test("a value that becomes frequent late is never said to be more frequent than it is", () => {
  const values: TopValues = new Map();
  for (let n = 0; n < 5_000; n += 1) addValue(values, `invented ${n}`, 1, 50);
  for (let n = 0; n < 300; n += 1) addValue(values, "/late", 1, 50);
  expect(of(values)["/late"]).toBe(300);
});

test("without any room nothing is kept", () => {
  const values: TopValues = new Map();
  addValue(values, "a", 1, 0);
  expect(values.size).toBe(0);
});
