import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { listFormer, rememberFormer } from "./former.ts";

let dir = "";
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "svc-former-"));
});
afterEach(() => rm(dir, { recursive: true, force: true }));

test("what a machine was is known in order, each once, and in bounds", async () => {
  expect(await listFormer(dir)).toEqual([]);
  for (const id of ["a", "b", "a"]) await rememberFormer(dir, id);
  expect(await listFormer(dir)).toEqual(["b", "a"]);
  for (let at = 0; at < 30; at += 1) await rememberFormer(dir, `n${at}`);
  const known = await listFormer(dir);
  expect([known.length, known.at(-1)]).toEqual([20, "n29"]);
});
