import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type LogPosition, readAccessLog, removeFinished, unreadBytes } from "./access-log.ts";

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "svc-access-log-"));
});
afterEach(() => rm(dir, { recursive: true, force: true }));

const nameOf = (nth: number) => `visits-${String(nth).padStart(20, "0")}.log`;

/** A file as the module of `edge-module` has it: as long as ever, and whole to the end of `text`. */
async function writeVisits(nth: number, text: string, beyond = ""): Promise<void> {
  const bytes = Buffer.alloc(4096);
  bytes.write(`${`svc-visits ${String(nth).padStart(20, "0")}`}\n`);
  bytes.writeBigUInt64LE(BigInt(64 + text.length), 32);
  bytes.write(`${text}${beyond}`, 64);
  await writeFile(join(dir, nameOf(nth)), bytes);
}

async function read(from: LogPosition): Promise<{ lines: string[]; position: LogPosition; finished: string[] }> {
  const lines: string[] = [];
  const { position, finished } = await readAccessLog(
    dir,
    from,
    (line) => lines.push(line),
    () => false,
  );
  return { lines, position, finished };
}

test("of a file of the module that is read which is whole, and each line once", async () => {
  await writeVisits(7, "a\nb\n", "half a li");
  expect(await unreadBytes(dir, [])).toBe(4);
  const first = await read([]);
  expect([first.lines, first.finished]).toEqual([["a", "b"], []]);
  expect(await unreadBytes(dir, first.position)).toBe(0);
  await writeVisits(7, "a\nb\nhalf a line\n");
  expect(await unreadBytes(dir, first.position)).toBe(12);
});

test("one with nothing in it yet is none to read", async () => {
  await writeVisits(7, "");
  const { lines, finished, position } = await read([]);
  expect([lines, finished, await unreadBytes(dir, position)]).toEqual([[], [], 0]);
});

test("the newest stays; all before it go once they are read", async () => {
  for (const nth of [8, 9, 10]) await writeVisits(nth, `of ${nth}\n`);
  const { lines, finished } = await read([]);
  expect(lines).toEqual(["of 8", "of 9", "of 10"]);
  await removeFinished(finished);
  expect(await readdir(dir)).toEqual([nameOf(10)]);
});
