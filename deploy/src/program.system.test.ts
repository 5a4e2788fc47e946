import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { thisNode } from "@svc/runtime/programs";
import { systemClock } from "@svc/runtime/system";
import { afterEach, beforeEach, expect, test } from "vitest";
import { endLeftovers } from "./leftovers.ts";
import { identify, isAlive } from "./process-id.ts";
import { createProgram, type ProgramSpec } from "./program.ts";

let dir = "";
let dirs = { runRecords: "", logs: "" };
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "svc-program-"));
  dirs = { runRecords: join(dir, "run"), logs: join(dir, "log") };
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const script = (code: string, changes: Partial<ProgramSpec> = {}): ProgramSpec => ({
  name: "example",
  argv: [thisNode, "-e", code],
  env: process.env,
  ready: "line",
  readyMs: 10_000,
  stopSignal: "SIGTERM",
  graceMs: 2_000,
  ...changes,
});
const serves = `console.log('{"msg":"ready"}'); setInterval(() => {}, 1000);`;
const create = (spec: ProgramSpec) => createProgram(systemClock, spec, dirs, () => {});

async function gone(pid: number): Promise<boolean> {
  const id = identify(pid);
  for (let attempt = 0; attempt < 100 && isAlive(id); attempt += 1) await delay(50);
  return !isAlive(id);
}

test("a program that is killed comes back as another process, until it is stopped", async () => {
  const program = create(script(serves));
  await program.start();
  const first = program.pid;
  program.kill("SIGKILL");
  await program.waitReady(10_000);
  const second = program.pid;
  expect(second).not.toBe(first);
  await program.stop();
  expect(program.pid).toBeNull();
  expect(await gone(second ?? 0)).toBe(true);
  expect(readdirSync(dirs.runRecords)).toEqual([]);
});

test("a program that ends instead of serving is reported with the end of its log", async () => {
  const program = create(script(`console.error("the disk is full"); process.exit(3);`));
  await expect(program.start()).rejects.toThrow(/exited with code 3[\s\S]*the disk is full/);
});

test("a program that never serves is ended after its time", async () => {
  const program = create(script("setInterval(() => {}, 1000)", { readyMs: 300 }));
  await expect(program.start()).rejects.toThrow("did not serve within 0.3 s");
  expect(program.pid).toBeNull();
});

test("a program that does not listen to the stop signal is killed", async () => {
  const program = create(script(`process.on("SIGTERM", () => {}); ${serves}`, { graceMs: 300 }));
  await program.start();
  const pid = program.pid ?? 0;
  await program.stop();
  expect(await gone(pid)).toBe(true);
});

test("a program can be started again after a stop", async () => {
  const program = create(script(serves));
  await program.start();
  await program.stop();
  await program.start();
  expect(program.pid).not.toBeNull();
  await program.stop();
});

test("what a killed supervisor left is ended by its record, and nothing else is", async () => {
  const program = create(script(serves));
  await program.start();
  const pid = program.pid ?? 0;
  expect(await endLeftovers(systemClock, dirs.runRecords)).toEqual(["example"]);
  expect(await gone(pid)).toBe(true);
  await program.stop();
  expect(await endLeftovers(systemClock, dirs.runRecords)).toEqual([]);
});
