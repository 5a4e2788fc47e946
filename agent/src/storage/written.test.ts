import { link, mkdir, mkdtemp, rm, symlink, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { bytesBelow, type Counting, ENTRY_MIN_BYTES } from "./written.ts";

let dir = "";
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "svc-written-"));
});
afterEach(() => rm(dir, { recursive: true, force: true }));

const MB = 1024 * 1024;
const write = (name: string, bytes: number) => writeFile(join(dir, name), Buffer.alloc(bytes, 1));

test.each<{ when: string; make(): Promise<unknown>; counting?: Counting; atLeast: number; below: number }>([
  { when: "nothing", make: async () => {}, atLeast: 0, below: 1 },
  { when: "a file", make: () => write("a", MB), atLeast: MB, below: MB + 2 * ENTRY_MIN_BYTES },
  {
    when: "files in directories",
    make: async () => {
      await mkdir(join(dir, "x/y"), { recursive: true });
      await Promise.all([write("x/a", MB), write("x/y/b", MB)]);
    },
    atLeast: 2 * MB,
    below: 2 * MB + 6 * ENTRY_MIN_BYTES,
  },
  {
    when: "a file with two names",
    make: async () => {
      await write("a", MB);
      await link(join(dir, "a"), join(dir, "b"));
    },
    atLeast: MB,
    below: MB + 3 * ENTRY_MIN_BYTES,
  },
  {
    when: "many empty files",
    make: () => Promise.all(Array.from({ length: 100 }, (_, n) => write(`e${n}`, 0))),
    atLeast: 100 * ENTRY_MIN_BYTES,
    below: 101 * ENTRY_MIN_BYTES,
  },
  {
    when: "a link to something large elsewhere",
    make: () => symlink("/usr", join(dir, "usr")),
    atLeast: ENTRY_MIN_BYTES,
    below: 2 * ENTRY_MIN_BYTES,
  },
  {
    when: "a file of holes, by its blocks",
    make: async () => {
      await write("a", 1);
      await truncate(join(dir, "a"), 100 * MB);
    },
    atLeast: ENTRY_MIN_BYTES,
    below: MB,
  },
  {
    when: "a file of holes, by its length",
    make: async () => {
      await write("a", 1);
      await truncate(join(dir, "a"), 100 * MB);
    },
    counting: "length",
    atLeast: 100 * MB,
    below: 101 * MB,
  },
])("$when", async ({ make, counting = "blocks", atLeast, below }) => {
  await make();
  const bytes = await bytesBelow(dir, 1e12, counting);
  expect(bytes).toBeGreaterThanOrEqual(atLeast);
  expect(bytes).toBeLessThan(below);
});

test("nobody looks further than the answer needs", async () => {
  await Promise.all(Array.from({ length: 1_000 }, (_, n) => write(`e${n}`, 0)));
  const bytes = await bytesBelow(dir, 10 * ENTRY_MIN_BYTES, "blocks");
  expect(bytes).toBeGreaterThan(10 * ENTRY_MIN_BYTES);
  expect(bytes).toBeLessThan(100 * ENTRY_MIN_BYTES);
});

test("what lies too deep to be looked at counts as more than any bound", async () => {
  await mkdir(join(dir, ...Array.from({ length: 210 }, () => "d")), { recursive: true });
  expect(await bytesBelow(dir, 1e12, "blocks")).toBe(Number.POSITIVE_INFINITY);
});

test("a directory that is not there", async () => {
  expect(await bytesBelow(join(dir, "none"), 1, "blocks")).toBeNull();
});
