import { createHash } from "node:crypto";
import { countUniques } from "@svc/proto/uniques";
import { systemRandom } from "@svc/runtime/system";
import { describe, expect, test } from "vitest";
import { rowOf } from "./message.ts";
import { dimensions, type PageView } from "./sketch.ts";
import { createSketches, type Sketches } from "./sketches.ts";

const shop = { projectId: "p1", channel: "production", hour: 100 };
const nothing = Object.fromEntries(dimensions.map((dimension) => [dimension, null])) as PageView["values"];
const viewOf = (path: string, more: Partial<PageView> = {}): PageView => ({
  ...{ values: { ...nothing, paths: path }, visitor: null, weight: 1 },
  ...more,
});
const keyOf = (n: number) => createHash("sha256").update(String(n)).digest("hex").slice(0, 16);
const only = (sketches: Sketches) => {
  const [sketch, ...more] = sketches.all();
  if (sketch === undefined || more.length > 0) throw new Error("not one sketch");
  return sketch;
};

test("known visits come out as they went in", () => {
  const sketches = createSketches(systemRandom, []);
  for (let n = 0; n < 20_000; n += 1) {
    // Page k is every second, third, … visit's.
    const page = [2, 3, 5, 7, 11, 13].find((divisor) => n % divisor === 0) ?? 1;
    sketches.add(shop, n % 100 === 0 ? 404 : 200, viewOf(`/${page}`, { visitor: keyOf(n % 1_000) }));
  }
  const row = rowOf(only(sketches));
  const counts = Object.fromEntries(row.paths.map(({ value, count }) => [value, Number(count)]));
  const truth: Record<string, number> = {};
  for (let n = 0; n < 20_000; n += 1) {
    const path = `/${[2, 3, 5, 7, 11, 13].find((divisor) => n % divisor === 0) ?? 1}`;
    truth[path] = (truth[path] ?? 0) + 1;
  }
  expect(counts).toEqual(truth);
  expect([row.status2xx, row.status4xx]).toEqual([19_800n, 200n]);
  expect(Math.abs(countUniques(only(sketches).visitors) / 1_000 - 1)).toBeLessThan(0.05);
});

describe("room is bounded:", () => {
  test("10,000 invented paths take no more of it than 200, and the real ones stay", () => {
    const sketches = createSketches(systemRandom, []);
    for (let n = 0; n < 10_000; n += 1) {
      sketches.add(shop, 200, viewOf(`/invented/${n}`));
      if (n % 20 === 0) sketches.add(shop, 200, viewOf("/real"));
    }
    expect(sketches.values()).toBe(200);
    const { paths } = rowOf(only(sketches));
    expect(paths.find(({ value }) => value === "/real")?.count).toBe(500n);
    expect(paths.reduce((sum, { count }) => sum + count, 0n)).toBe(10_500n);
  });

  test("when all sites together have too much, lists stay short", () => {
    const sketches = createSketches(systemRandom, [], { sketchesMax: 100, valuesMax: 300 });
    for (let site = 0; site < 50; site += 1) {
      for (let n = 0; n < 100; n += 1) sketches.add({ ...shop, projectId: `p${site}` }, 200, viewOf(`/${site}/${n}`));
    }
    expect(sketches.values()).toBeLessThanOrEqual(300 + 50 * 10);
  });

  test("of too many hours the oldest go", () => {
    const sketches = createSketches(systemRandom, [], { sketchesMax: 3, valuesMax: 300 });
    for (const hour of [5, 1, 4, 2, 3]) sketches.add({ ...shop, hour }, 200, null);
    expect(sketches.forget().dropped).toHaveLength(2);
    expect([...sketches.all()].map(({ hour }) => hour).sort()).toEqual([3, 4, 5]);
  });
});

test("a sketch is sent until control has it as it is, and forgotten when its hour is over", () => {
  const sketches = createSketches(systemRandom, []);
  sketches.add(shop, 200, null);
  sketches.takeChanged();
  const sent = only(sketches);
  expect(sketches.unsent(10)).toEqual([sent]);
  const { series, seq } = sent;
  sketches.add(shop, 200, null);
  sketches.acknowledge(series, seq);
  expect(sketches.unsent(10)).toEqual([sent]);
  sketches.acknowledge(series, sent.seq);
  expect(sketches.unsent(10)).toEqual([]);
  expect(sketches.forget()).toEqual({ done: [], dropped: [] });
  sketches.add({ ...shop, hour: 101 }, 200, null);
  expect(sketches.forget()).toEqual({ done: [series], dropped: [] });
  // A line of the hour that comes late is of another series: it adds to what was sent.
  sketches.add(shop, 200, null);
  const [late] = sketches.unsent(10);
  expect(late).toMatchObject({ hour: 100, seq: 1, statuses: [1, 0, 0, 0] });
  expect(late?.series).not.toBe(series);
});

test("hours, days and months are kept apart", () => {
  const sketches = createSketches(systemRandom, []);
  const midnight = Date.UTC(2026, 1, 1) / 3_600_000;
  for (const hour of [midnight - 1, midnight, midnight - 1]) sketches.add({ ...shop, hour }, 200, null);
  expect(sketches.unsent(10).map(({ hour, statuses }) => [hour - midnight, statuses[0]])).toEqual([
    [-1, 2],
    [0, 1],
  ]);
});

test("what stands for several is marked", () => {
  const sketches = createSketches(systemRandom, []);
  sketches.add(shop, 200, viewOf("/", { weight: 10 }));
  expect(rowOf(only(sketches))).toMatchObject({ sampled: true, status2xx: 1n, paths: [{ value: "/", count: 10n }] });
});
