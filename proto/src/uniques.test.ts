import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { addUnique, countUniques, decodeUniques, encodeUniques, noUniques, type Uniques, unite } from "./uniques.ts";

const keyOf = (n: number) => createHash("sha256").update(`visitor ${n}`).digest("hex").slice(0, 16);

function uniquesOf(from: number, to: number): Uniques {
  const uniques = noUniques();
  for (let n = from; n < to; n += 1) addUnique(uniques, keyOf(n));
  return uniques;
}

test.each([0, 1, 2, 100, 256])("%d keys are counted exactly, however often they come", (count) => {
  const uniques = uniquesOf(0, count);
  for (let n = 0; n < count; n += 1) addUnique(uniques, keyOf(n));
  expect(countUniques(uniques)).toBe(count);
});

// 1.04 / √4096 = 1.6 % is the standard error: 5 % are three of it.
test.each([257, 1_000, 5_000, 10_000, 20_000, 100_000, 300_000])("%d keys are counted within 5 per cent", (count) => {
  expect(Math.abs(countUniques(uniquesOf(0, count)) / count - 1)).toBeLessThan(0.05);
});

test.each([
  { from: 0, to: 100, and: [50, 200], are: 200 },
  { from: 0, to: 200, and: [100, 5_000], are: 5_000 },
  { from: 0, to: 5_000, and: [100, 200], are: 5_000 },
  { from: 0, to: 4_000, and: [2_000, 8_000], are: 8_000 },
])("$from to $to and $and are $are together, in either order and more than once", ({ from, to, and, are }) => {
  const whole = encodeUniques(uniquesOf(0, are));
  const [one, other] = [uniquesOf(from, to), uniquesOf(and[0] ?? 0, and[1] ?? 0)];
  const united = noUniques();
  for (const each of [other, one, other, one]) unite(united, each);
  unite(one, other);
  expect(encodeUniques(one)).toEqual(whole);
  expect(encodeUniques(united)).toEqual(whole);
});

test.each([0, 3, 256, 257, 10_000])("%d keys survive being written and read", (count) => {
  const uniques = uniquesOf(0, count);
  const read = decodeUniques(encodeUniques(uniques));
  expect(read && countUniques(read)).toBe(countUniques(uniques));
  if (read !== null) addUnique(read, keyOf(count + 1));
  expect(read && countUniques(read)).toBeGreaterThanOrEqual(countUniques(uniques));
});

test.each([
  { what: "nothing", bytes: [] },
  { what: "another format", bytes: [7, 1, 2] },
  { what: "half a key", bytes: [1, 1, 2, 3] },
  { what: "too many keys", bytes: [1, ...new Array<number>(257 * 8).fill(1)] },
  { what: "too few registers", bytes: [2, ...new Array<number>(100).fill(0)] },
  { what: "a run of zeros that no key has", bytes: [2, 54, ...new Array<number>(4095).fill(0)] },
])("$what is read as nothing", ({ bytes }) => {
  expect(decodeUniques(Uint8Array.from(bytes))).toBeNull();
});
