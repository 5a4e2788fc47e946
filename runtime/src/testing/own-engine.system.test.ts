import { once } from "node:events";
import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { spawnProgram, thisNode } from "../programs.ts";
import { startOwnEngine } from "./own-engine.ts";

const program = fileURLToPath(new URL("./own-engine-child.ts", import.meta.url));
/** Bridges of engines that the process has started. */
const bridgesOf = async (pid: number) =>
  (await readdir("/sys/class/net")).filter((name) => name.startsWith(`svceng${pid.toString(36)}-`));
const mounts = () => readFile("/proc/self/mountinfo", "utf8");

test("an engine leaves nothing when it is done with, and what a killed test left goes with the next", async () => {
  const child = spawnProgram([thisNode, program], { stdio: ["ignore", "inherit", "inherit", "ipc"] });
  const [socketPath] = (await once(child, "message")) as [string];
  const dir = dirname(socketPath);
  const engine = Number(await readFile(`${dir}/pid`, "utf8"));
  const exited = once(child, "exit");
  child.kill("SIGKILL");
  await exited;
  await expect.poll(() => existsSync(`/proc/${engine}`)).toBe(false);
  expect(await mounts()).toContain(dir);
  expect(await bridgesOf(child.pid ?? 0)).toHaveLength(1);

  const next = await startOwnEngine({ dataMb: 100 });
  expect(existsSync(dir)).toBe(false);
  expect(await mounts()).not.toContain(dir);
  expect(await bridgesOf(child.pid ?? 0)).toEqual([]);

  const own = dirname(next.socketPath);
  expect(await mounts()).toContain(own);
  await next[Symbol.asyncDispose]();
  expect(existsSync(own)).toBe(false);
  expect(await mounts()).not.toContain(own);
  expect(await bridgesOf(process.pid)).toEqual([]);
});
