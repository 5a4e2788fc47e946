import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ownProgram, spawnProgram } from "@svc/runtime/programs";
import { afterEach, beforeEach, expect, test } from "vitest";
import { gateDirectory } from "../engine/gate-directory.ts";
import { gatedCommand, gateName, heldBack } from "./gate.ts";
import { openGate, readGate, shutGate } from "./gate-files.ts";

let directory = "";
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "svc-gate-"));
  await openGate(directory);
});
afterEach(() => rm(directory, { recursive: true, force: true }));

/** What a container does, with the gate where this machine has it. */
async function run(command: string): Promise<{ code: number; output: string }> {
  const [file = "", ...args] = gatedCommand(command).map((arg) => arg.replaceAll(gateDirectory, directory));
  const child = spawnProgram([ownProgram(file), ...args], { stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += String(chunk)));
  const [code] = await once(child, "close");
  return { code, output };
}

test("a command claims its gate and runs, and is the same command as without one", async () => {
  expect(await readGate(directory)).toBe("open");
  expect(await run(`echo "$0 $# $-"; exit 7`)).toMatchObject({ code: 7, output: expect.not.stringContaining("C") });
  expect(await readGate(directory)).toBe("claimed");
  expect(await shutGate(directory)).toBe("claimed");
});

test("it runs once, however often its container is started", async () => {
  await run("exit 0");
  expect(await run("echo again")).toEqual({ code: heldBack, output: "" });
});

test("nothing runs behind a shut gate, and it stays shut", async () => {
  expect(await shutGate(directory)).toBe("shut");
  expect(await run("echo no")).toEqual({ code: heldBack, output: "" });
  expect(await shutGate(directory)).toBe("shut");
  expect(await readGate(directory)).toBe("shut");
});

test("a command that takes its claim away has run all the same", async () => {
  await run(`rm ${join(directory, gateName)}`);
  expect(await readGate(directory)).toBe("claimed");
  expect(await shutGate(directory)).toBe("claimed");
});

test("a gate that is gone with its container is not one that is open", async () => {
  await rm(directory, { recursive: true });
  expect(await readGate(directory)).toBe("gone");
  expect(await shutGate(directory)).toBe("gone");
});

test("what is no directory is no gate", async () => {
  await rm(directory, { recursive: true });
  await writeFile(directory, "");
  await expect(shutGate(directory)).rejects.toThrow(/ENOTDIR/);
});

test("of both at once one is first, and both agree who", async () => {
  for (let round = 0; round < 60; round += 1) {
    await rm(directory, { recursive: true, force: true });
    directory = await mkdtemp(join(tmpdir(), "svc-gate-"));
    await openGate(directory);
    const running = run("echo ran");
    // Later and later, so that each of the two is first at times.
    for (let turn = 0; turn < round; turn += 1) await readGate(directory);
    const gate = await shutGate(directory);
    const { code, output } = await running;
    expect({ gate, code, output }).toEqual(
      gate === "shut" ? { gate: "shut", code: heldBack, output: "" } : { gate: "claimed", code: 0, output: "ran\n" },
    );
  }
});
