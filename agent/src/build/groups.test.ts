import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { systemClock } from "@svc/runtime/system";
import { expect, onTestFinished, test } from "vitest";
import { moveAll } from "./groups.ts";

test("a process that takes its time to end is waited for, and what runs beside it may go on to fork", async () => {
  const dir = await mkdtemp(join(tmpdir(), "svc-groups-"));
  onTestFinished(() => rm(dir, { recursive: true }));
  const [from, to] = [join(dir, "from"), join(dir, "to")];
  await Promise.all([from, to].map((each) => mkdir(each)));
  // As the kernel has it for a process that is ending: listed, and not there for who wants to move it.
  await writeFile(join(from, "cgroup.procs"), "4711\n");
  await writeFile(join(from, "pids.max"), "max");
  const moving = moveAll(systemClock, from, to);
  await delay(300);
  await writeFile(join(from, "cgroup.procs"), "");
  await moving;
  expect(await readFile(join(from, "pids.max"), "utf8")).toBe("max");
});
