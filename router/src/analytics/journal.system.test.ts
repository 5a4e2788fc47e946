import { appendFile, mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemRandom } from "@svc/runtime/system";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { LogPosition } from "../traffic/access-log.ts";
import { isLong, openJournal } from "./journal.ts";
import { createSketches } from "./sketches.ts";

let path: string;
let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "svc-journal-"));
  path = join(dir, "journal");
});
afterEach(() => rm(dir, { recursive: true, force: true }));

const at = (offset: number): LogPosition => [{ inode: "1", head: "h", offset }];
const shop = { projectId: "p1", channel: "production", hour: 5 };

/** Rounds of one request each; the last ends at `to`. */
async function rounds(to: number): Promise<void> {
  const { journal, sketches: kept } = await openJournal(path, []);
  await using _ = journal;
  const sketches = createSketches(systemRandom, kept);
  for (let n = 1; n <= to; n += 1) {
    sketches.add(shop, 200, null);
    await journal.append(at(n), sketches.takeChanged(), []);
  }
}

async function read(position: LogPosition | null) {
  const { journal, sketches } = await openJournal(path, position);
  await journal[Symbol.asyncDispose]();
  return sketches.map(({ statuses }) => statuses[0]);
}

test("the last round counts exactly when the log is counted up to its end", async () => {
  await rounds(3);
  expect(await read(at(3))).toEqual([3]);
  await rm(path);
  await rounds(3);
  expect(await read(at(2))).toEqual([2]);
  expect(await read(at(2))).toEqual([2]);
});

test("when nobody knows how far the log is counted, what is there stays", async () => {
  await rounds(3);
  expect(await read(null)).toEqual([3]);
});

test.each([
  { what: "is cut short", end: '{"position":[{"ino' },
  { what: "is damaged", end: "\u0000\u0000\n" },
  { what: "says something else", end: '{"position":[],"changed":7}\n' },
])("an end that $what costs itself only", async ({ end }) => {
  await rounds(2);
  await appendFile(path, end);
  expect(await read(at(2))).toEqual([2]);
});

test("what is gone stays gone, and a rewritten journal is short and the same", async () => {
  const { journal } = await openJournal(path, []);
  const sketches = createSketches(systemRandom, []);
  for (const hour of [1, 2]) sketches.add({ ...shop, hour }, 200, null);
  const [first, second] = sketches.takeChanged();
  await journal.append(at(1), first && second ? [first, second] : [], []);
  await journal.append(at(2), [], [first?.series ?? ""]);
  await journal[Symbol.asyncDispose]();
  const opened = await openJournal(path, at(2));
  expect(opened.sketches).toEqual([second]);
  await opened.journal.rewrite(at(3), opened.sketches);
  expect((await readFile(path, "utf8")).split("\n")).toHaveLength(2);
  await opened.journal[Symbol.asyncDispose]();
  expect((await openJournal(path, at(3))).sketches).toEqual([second]);
  expect((await stat(path)).mode & 0o777).toBe(0o600);
});

test.each([
  { mb: 4, usefulMb: 0, is: false },
  { mb: 5, usefulMb: 0, is: true },
  { mb: 44, usefulMb: 10, is: false },
  { mb: 45, usefulMb: 10, is: true },
  // As long as a text that can be read may be.
  { mb: 257, usefulMb: 200, is: true },
  { mb: 303, usefulMb: 300, is: false },
])("$mb MB with $usefulMb MB of use are too long: $is", ({ mb, usefulMb, is }) => {
  expect(isLong(mb * 1024 ** 2, usefulMb * 1024 ** 2)).toBe(is);
});
