import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createStepStorage } from "./step-storage.ts";

const mb = 1024 * 1024;
const bound = 100 * mb;

let dir = "";
let cache = "";
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "svc-steps-"));
  cache = join(dir, "cache");
  await mkdir(cache);
});
afterEach(() => rm(dir, { recursive: true, force: true }));

const write = (name: string) => writeFile(join(cache, name), Buffer.alloc(mb, 1));
const inMb = (bytes: number) => Math.floor(bytes / mb);
/** A step with the cache. Its root is not there any more. */
const places = () => ({ root: join(dir, "gone"), bound: [cache] });

test("of a cache counts what is added, at its most, and nothing of the builds before", async () => {
  const caches = new Map<string, number>();
  await write("earlier");
  const first = createStepStorage(caches, async () => "/");
  await first.add(places());
  expect(inMb(await first.written([], bound))).toBe(0);
  await write("a");
  await write("b");
  expect(inMb(await first.written([], bound))).toBe(2);
  await rm(join(cache, "a"));
  // A second step has the same cache.
  await first.add(places());
  expect(inMb(await first.written([], bound))).toBe(2);
  await first.settle();

  const second = createStepStorage(caches, async () => "/");
  // Written before anybody has looked: known all the same.
  await write("quick");
  await second.add(places());
  expect(inMb(await second.written([], bound))).toBe(1);
});

test("a cache that hides something in its depth ends builds, also later ones", async () => {
  const caches = new Map<string, number>();
  await mkdir(join(cache, ...Array.from({ length: 210 }, () => "d")), { recursive: true });
  for (const _ of [1, 2]) {
    const storage = createStepStorage(caches, async () => "/");
    await storage.add(places());
    expect(await storage.written([], bound)).toBeGreaterThan(bound);
    await storage.settle();
  }
});
