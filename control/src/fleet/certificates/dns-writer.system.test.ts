import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createDnsWriter } from "./dns-writer.ts";

let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "svc-dns-hook-"));
});
afterAll(() => rm(dir, { recursive: true, force: true }));

const program = async (name: string, lines: readonly string[]): Promise<string> => {
  const path = join(dir, name);
  await writeFile(path, ["#!/bin/sh", ...lines, ""].join("\n"), { mode: 0o700 });
  return path;
};
const writerOf = (path: string) =>
  createDnsWriter({ clock: systemClock, random: systemRandom }, { by: "hook", program: path });
const never = new AbortController().signal;

test("a program is told what to do by its arguments, and nothing of control's environment", async () => {
  process.env["SVC_TEST_SECRET"] = "secret";
  try {
    const said = join(dir, "said");
    const writer = writerOf(await program("hook", [`printf '%s|' "$@" >> ${said}`, `env >> ${said}`]));
    await writer.put("_acme-challenge.content.example", "a b;$(c)", never);
    await writer.remove("_acme-challenge.content.example", "a b;$(c)", never);
    const text = await readFile(said, "utf8");
    expect(text).toContain("put|_acme-challenge.content.example|a b;$(c)|");
    expect(text).toContain("remove|_acme-challenge.content.example|a b;$(c)|");
    expect(text).not.toContain("SVC_TEST_SECRET");
  } finally {
    delete process.env["SVC_TEST_SECRET"];
  }
});

test("a program that fails is told with what it said, and one that hangs is ended", async () => {
  const failing = writerOf(await program("failing", ["echo 'no such zone' >&2", "exit 3"]));
  await expect(failing.put("a.example", "text", never)).rejects.toThrow(/code 3\nno such zone/);
  const started = join(dir, "started");
  const hanging = writerOf(await program("hanging", [`echo > ${started}`, "exec sleep 600"]));
  const giveUp = new AbortController();
  const putting = hanging.put("a.example", "text", giveUp.signal);
  const ended = expect(putting).rejects.toThrow(/interrupted/);
  await expect.poll(() => readFile(started, "utf8").catch(() => null), { timeout: 30_000 }).not.toBeNull();
  giveUp.abort();
  await ended;
});
