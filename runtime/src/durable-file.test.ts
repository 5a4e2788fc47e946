import { mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createDurably, isFileError, readIfThere, writeDurably } from "./durable-file.ts";

let dir: string;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "svc-durable-"));
});
afterEach(() => rm(dir, { recursive: true }));

test("replaces the whole file, makes its directory, and leaves nothing beside it", async () => {
  const path = join(dir, "new", "kept");
  await writeDurably(path, "first, and longer");
  await writeDurably(path, "second");
  expect(await readFile(path, "utf8")).toBe("second");
  expect(await readdir(join(dir, "new"))).toEqual(["kept"]);
  expect((await stat(path)).mode & 0o777).toBe(0o600);
  expect((await stat(join(dir, "new"))).mode & 0o777).toBe(0o700);
});

test("what others may read is written so", async () => {
  const path = join(dir, "open");
  await writeDurably(path, Buffer.from("text"), { mode: 0o644 });
  expect((await stat(path)).mode & 0o777).toBe(0o644);
});

test("a write that fails leaves the old file, and nothing beside it", async () => {
  await expect(writeDurably(dir, "in the place of a directory")).rejects.toThrow();
  expect(await readdir(dir)).toEqual([]);
});

test("creates only where there is nothing, not even a dangling link", async () => {
  await writeFile(join(dir, "there"), "kept");
  await symlink(join(dir, "nowhere"), join(dir, "link"));
  for (const name of ["there", "link"])
    await expect(createDurably(join(dir, name), "other")).rejects.toSatisfy((cause) => isFileError(cause, "EEXIST"));
  expect(await readIfThere(join(dir, "there"))).toBe("kept");
  expect(await readIfThere(join(dir, "nowhere"))).toBeNull();
});
