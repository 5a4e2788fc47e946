import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemRandom } from "@svc/runtime/system";
import { afterEach, beforeEach, expect, test } from "vitest";
import { quiet } from "../testing/edge.ts";
import type { LogPosition } from "./access-log.ts";
import { openBatchStore } from "./batch-store.ts";
import { addVisit, type Counts } from "./counts.ts";

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "svc-batches-"));
});
afterEach(() => rm(dir, { recursive: true, force: true }));

const open = () => openBatchStore(systemRandom, dir, quiet);
const at = (offset: number): LogPosition => [{ inode: "1", head: "h", offset }];

function visits(requests: number, projects = 1): Counts {
  const counts: Counts = new Map();
  for (let project = 0; project < projects; project += 1) {
    for (let n = 0; n < requests; n += 1) {
      const visit = { host: "a.test", hour: 1, status: 200, bytesIn: 0, bytesOut: 1 };
      addVisit(counts, { projectId: `p${project}`, channel: "production", unmetered: false }, visit);
    }
  }
  return counts;
}

test("what waits grows in one batch, and what may have been sent never changes", async () => {
  const store = await open();
  expect(store.position()).toEqual([]);
  await store.keep(visits(1), at(10));
  await store.keep(visits(2), at(20));
  const first = await store.next();
  expect(first).toMatchObject({ number: 1, counts: [{ requests: 3, status2xx: 3 }] });
  await store.keep(visits(4), at(30));
  await store.keep(visits(5), at(40));
  expect(await store.next()).toEqual(first);
  await store.acknowledge(1);
  expect(await store.next()).toMatchObject({ series: first?.series, number: 2, counts: [{ requests: 9 }] });
});

test("a store that is opened again goes on with its series, its batches and its place in the log", async () => {
  const before = await open();
  await before.keep(visits(1), at(10));
  const first = await before.next();
  await before.keep(visits(2), at(20));

  const after = await open();
  expect(after.position()).toEqual(at(20));
  expect(await after.next()).toEqual(first);
  await after.acknowledge(1);
  // It may have been sent by the process before.
  await after.keep(visits(4), at(30));
  expect(await after.next()).toMatchObject({ number: 2, counts: [{ requests: 2 }] });
  await after.acknowledge(2);
  expect(await after.next()).toMatchObject({ number: 3, counts: [{ requests: 4 }] });
  await after.acknowledge(3);
  expect(await after.next()).toBeNull();
  expect(await readdir(dir)).toEqual(["0000000000000003.json"]);
  expect((await open()).position()).toEqual(at(30));
});

test("a batch that an earlier version kept is sent", async () => {
  const before = await open();
  await before.keep(visits(1), at(10));
  const path = join(dir, "0000000000000001.json");
  const kept = await readFile(path, "utf8");
  expect(kept).toContain(',"unmetered":false');
  await writeFile(path, kept.replace(',"unmetered":false', ""));
  expect(await (await open()).next()).toMatchObject({ number: 1, counts: [{ requests: 1, unmetered: false }] });
});

test("a place in the log without counts is kept and never sent", async () => {
  const store = await open();
  await store.keep(new Map(), at(10));
  expect(await store.next()).toBeNull();
  expect((await open()).position()).toEqual(at(10));
});

test("a batch has so many counts, and there are so many batches: then the oldest go", async () => {
  const store = await openBatchStore(systemRandom, dir, quiet, { countsPerBatch: 3, batchesMax: 4 });
  for (let n = 0; n < 6; n += 1) await store.keep(visits(1, 2), at(n));
  expect(await readdir(dir)).toHaveLength(4);
  expect((await store.next())?.number).toBe(3);
});

test("after damage there is a new series, and nobody knows how far the log is counted", async () => {
  const before = await open();
  await before.keep(visits(1), at(10));
  await before.next();
  await before.keep(visits(1), at(20));
  const first = await before.next();
  const path = join(dir, "0000000000000002.json");
  await writeFile(path, (await readFile(path, "utf8")).slice(0, -5));
  const after = await open();
  expect(after.position()).toBeNull();
  expect(await after.next()).toEqual(first);
  await after.keep(visits(3), at(30));
  await after.acknowledge(1);
  const next = await after.next();
  expect(next?.counts).toMatchObject([{ requests: 3 }]);
  expect(next?.series).not.toBe(first?.series);
});
