import { link, mkdir, mkdtemp, rm, symlink, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { bytesBelow, type Counting, entryMinBytes } from "./written.ts";

let dir = "";
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "svc-written-"));
});
afterEach(() => rm(dir, { recursive: true, force: true }));

const mb = 1024 * 1024;
const write = (name: string, bytes: number) => writeFile(join(dir, name), Buffer.alloc(bytes, 1));

test.each<{ when: string; make(): Promise<unknown>; counting?: Counting; atLeast: number; below: number }>([
  { when: "nothing", make: async () => {}, atLeast: 0, below: 1 },
  { when: "a file", make: () => write("a", mb), atLeast: mb, below: mb + 2 * entryMinBytes },
  {
    when: "files in directories",
    make: async () => {
      await mkdir(join(dir, "x/y"), { recursive: true });
      await Promise.all([write("x/a", mb), write("x/y/b", mb)]);
    },
    atLeast: 2 * mb,
    below: 2 * mb + 6 * entryMinBytes,
  },
  {
    when: "a file with two names",
    make: async () => {
      await write("a", mb);
      await link(join(dir, "a"), join(dir, "b"));
    },
    atLeast: mb,
    below: mb + 3 * entryMinBytes,
  },
  {
    when: "many empty files",
    make: () => Promise.all(Array.from({ length: 100 }, (_, n) => write(`e${n}`, 0))),
    atLeast: 100 * entryMinBytes,
    below: 101 * entryMinBytes,
  },
  {
    when: "a link to something large elsewhere",
    make: () => symlink("/usr", join(dir, "usr")),
    atLeast: entryMinBytes,
    below: 2 * entryMinBytes,
  },
  {
    when: "a file of holes, by its blocks",
    make: async () => {
      await write("a", 1);
      await truncate(join(dir, "a"), 100 * mb);
    },
    atLeast: entryMinBytes,
    below: mb,
  },
  {
    when: "a file of holes, by its length",
    make: async () => {
      await write("a", 1);
      await truncate(join(dir, "a"), 100 * mb);
    },
    counting: "length",
    atLeast: 100 * mb,
    below: 101 * mb,
  },
])("$when", async ({ make, counting = "blocks", atLeast, below }) => {
  await make();
  const bytes = await bytesBelow(dir, 1e12, counting);
  expect(bytes).toBeGreaterThanOrEqual(atLeast);
  expect(bytes).toBeLessThan(below);
});

test("nobody looks further than the answer needs", async () => {
  await Promise.all(Array.from({ length: 1_000 }, (_, n) => write(`e${n}`, 0)));
  const bytes = await bytesBelow(dir, 10 * entryMinBytes, "blocks");
  expect(bytes).toBeGreaterThan(10 * entryMinBytes);
  expect(bytes).toBeLessThan(100 * entryMinBytes);
});

test("what lies too deep to be looked at counts as more than any bound", async () => {
  await mkdir(join(dir, ...Array.from({ length: 210 }, () => "d")), { recursive: true });
  expect(await bytesBelow(dir, 1e12, "blocks")).toBe(Number.POSITIVE_INFINITY);
});

test("a directory that is not there", async () => {
  expect(await bytesBelow(join(dir, "none"), 1, "blocks")).toBeNull();
});
