import { mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openSalts } from "./salts.ts";

const now = new Date("2026-03-02T12:00:00Z");
const [old, present] = [1, 2].map((byte) => new Uint8Array(32).fill(byte)) as [Uint8Array, Uint8Array];
const given = [
  { day: "2026-03-01", salt: old },
  { day: "2026-03-02", salt: present },
];
const hex = (salt: Uint8Array) => Buffer.from(salt).toString("hex");

let root: string;
let path: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "svc-salts-"));
  path = join(root, "salts.json");
});
afterEach(() => rm(root, { recursive: true, force: true }));
const open = () => openSalts(path, pino({ level: "silent" }));

test("a salt that could not be destroyed on disk is destroyed by the next round", async () => {
  const salts = await open();
  await salts.learn(given);
  await rm(path);
  await mkdir(path);
  await expect(salts.tidy(now)).rejects.toThrow("EISDIR");
  await rm(path, { recursive: true });
  await salts.tidy(now);
  const text = await readFile(path, "utf8");
  expect(text).toContain(hex(present));
  expect(text).not.toContain(hex(old));
});

test("of what is learnt and destroyed at once the last is on disk", async () => {
  const salts = await open();
  await Promise.all([salts.learn(given), salts.tidy(now), salts.learn([]), salts.learn(given), salts.tidy(now)]);
  expect(await readFile(path, "utf8")).not.toContain(hex(old));
  expect((await open()).isTold()).toBe(true);
});
