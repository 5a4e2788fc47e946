import { once } from "node:events";
import { expect, test } from "vitest";
import { run } from "./command.ts";
import { type Argv, programAt, runProgramSync, spawnProgram, thisNode } from "./programs.ts";

const nowhere = { env: { PATH: "/nowhere" } };
const remedy = "etcdctl is not on this machine; it comes with Debian's package etcd-client";

test("a program that the machine lacks is named with the package that has it", async () => {
  const [error] = await once(spawnProgram(["etcdctl"], nowhere), "error").catch((error: unknown) => [error]);
  expect(String(error)).toContain(remedy);
  await expect(run(["etcdctl"], nowhere)).rejects.toThrow(remedy);
  expect(() => runProgramSync(["etcdctl"], nowhere)).toThrow(remedy);
});

test("a working directory that is not there is not taken for a missing program", async () => {
  await expect(run([thisNode, "--version"], { cwd: "/nowhere" })).rejects.toThrow("ENOENT");
});

test("a program that set-up does not know is refused", () => {
  const unknown = ["curl", "--version"] as unknown as Argv;
  expect(() => spawnProgram(unknown)).toThrow("curl is not among the programs that set-up knows");
  expect(() => runProgramSync(unknown)).toThrow("runtime/src/program-list.mjs");
});

test("what is started gets its arguments as they are", async () => {
  const echo = ["-e", "process.stdout.write(process.argv[1])", "$(id) ; '*'"];
  expect((await run([thisNode, ...echo])).stdout).toBe("$(id) ; '*'");
  expect(runProgramSync([programAt("node", process.execPath), ...echo]).toString()).toBe("$(id) ; '*'");
});
