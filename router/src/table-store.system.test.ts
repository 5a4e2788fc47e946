import { appendFile, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Route } from "@svc/proto/edge";
import { afterEach, beforeEach, expect, test } from "vitest";
import { tableText } from "./table.ts";
import { openTableFile } from "./table-file.ts";
import { createTableStore, type KeptTable, type TableStore } from "./table-store.ts";
import { quiet } from "./testing/edge.ts";
import { aPage, aProxy } from "./testing/routes.ts";

let dir: string;
let store: TableStore;
const open = async () => createTableStore(await openTableFile(dir), quiet);
const path = () => join(dir, "table.jsonl");
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "svc-store-"));
  store = await open();
});
afterEach(async () => {
  await store[Symbol.asyncDispose]();
  await rm(dir, { recursive: true, force: true });
});

const kept = (generation: bigint, routes: Route[], whole = true): KeptTable => ({
  table: { clusterEpoch: 3n, generation, routes: new Map(routes.map((route) => [route.host, route])) },
  whole,
});
const loaded = async () => {
  const found = await (await open()).load();
  if (found === null) return null;
  const { clusterEpoch, generation, routes } = found.table;
  return { clusterEpoch, generation, whole: found.whole, text: tableText(routes) };
};
const expected = ({ table: { clusterEpoch, generation, routes }, whole }: KeptTable) => ({
  clusterEpoch,
  generation,
  whole,
  text: tableText(routes),
});

const a = aProxy("a.test", "10.0.0.1:80");
const b = aPage("b.test", "STOPPED");
const many = Array.from({ length: 200 }, (_, n) => aProxy(`h${n}.test`, "10.0.0.1:80"));

test("there is nothing before the first save", async () => {
  expect(await store.load()).toBeNull();
});

test.each([
  { what: "no routes", states: [kept(1n, [])] },
  { what: "some routes", states: [kept(1n, [a, b])] },
  { what: "a table that grew", states: [kept(1n, []), kept(2n, [a]), kept(3n, [a, b])] },
  { what: "a table that lost everything", states: [kept(1n, [a, b]), kept(5n, [])] },
  { what: "a route that changed", states: [kept(1n, [a, b]), kept(2n, [aPage("a.test", "EMPTY"), b])] },
  { what: "nothing but a generation", states: [kept(1n, [a]), kept(9n, [a])] },
  { what: "a table that became partial", states: [kept(1n, [a]), kept(2n, [a], false)] },
])("$what comes back", async ({ states }) => {
  for (const state of states) {
    await store.save(state, ["a.test", "b.test"]);
    expect(await loaded()).toEqual(expected(state));
  }
});

test("a change is written in its own length, until the table is written anew", async () => {
  await store.save(kept(1n, many), []);
  const whole = (await stat(path())).size;
  await store.save(kept(2n, [...many, a]), ["a.test"]);
  expect((await stat(path())).size - whole).toBeLessThan(1000);
  const long = aProxy("a.test", ...Array.from({ length: 8 }, (_, n) => `10.0.0.${n}:8080`));
  let largest = 0;
  // Long changes, so that few ways to the disk are enough.
  const changed = ["a.test", ...many.map(({ host }) => host)];
  for (let generation = 3n; generation < 200n; generation += 1n) {
    await store.save(kept(generation, [...many, generation % 2n === 0n ? a : long]), changed);
    largest = Math.max(largest, (await stat(path())).size);
  }
  expect(largest).toBeLessThan(2 * 1024 ** 2);
  expect(await loaded()).toMatchObject({ generation: 199n });
});

test.each([
  { what: "half a line", damage: async () => appendFile(path(), `${"0".repeat(64)} {"generation":"9`) },
  { what: "a line with another digest", damage: async () => appendFile(path(), `${"0".repeat(64)} {}\n`) },
])("a change that was not written to its end is left out: $what", async ({ damage }) => {
  await store.save(kept(1n, [a]), ["a.test", "b.test"]);
  await store.save(kept(2n, [a, b]), ["a.test", "b.test"]);
  await damage();
  expect(await loaded()).toEqual(expected(kept(2n, [a, b])));
});

test("after a torn change the next one is kept", async () => {
  await store.save(kept(1n, [a]), ["a.test", "b.test"]);
  await store[Symbol.asyncDispose]();
  await appendFile(path(), `${"0".repeat(64)} {"gen`);
  store = await open();
  await store.load();
  await store.save(kept(2n, [a, b]), ["a.test", "b.test"]);
  expect(await loaded()).toEqual(expected(kept(2n, [a, b])));
});

test.each(["", "{}", "{\n", "null\n"])("a file that holds %j is put aside", async (content) => {
  await writeFile(path(), content);
  expect(await store.load()).toBeNull();
  expect(await readFile(`${path()}.damaged`, "utf8")).toBe(content);
});

test("a table whose routes were changed on disk is put aside", async () => {
  await store.save(kept(1n, [a, b]), ["a.test", "b.test"]);
  await writeFile(path(), (await readFile(path(), "utf8")).replace("10.0.0.1", "10.6.6.6"));
  expect(await loaded()).toBeNull();
});
