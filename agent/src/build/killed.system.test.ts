import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { Observed } from "@svc/proto/node";
import { afterAll, beforeAll, expect, test } from "vitest";
import { baseImage, createKillableBench } from "../testing/builds.ts";
import { processesWith } from "../testing/processes.ts";
import { waitFor } from "../testing/wait.ts";
import { findTrees, groupDirectories } from "./cgroups.ts";
import { groupPrefix } from "./step-limits.ts";

// An agent is killed in the middle of a build.

let bench: Awaited<ReturnType<typeof createKillableBench>>;
beforeAll(async () => {
  bench = await createKillableBench();
});
afterAll(async () => {
  await bench?.[Symbol.asyncDispose]();
});

/** Control groups that this agent has made. */
async function ownGroups(): Promise<string[]> {
  const names = await Promise.all(
    groupDirectories(await findTrees(), "svc-build").map((directory) => readdir(directory).catch(() => [])),
  );
  return names.flat().filter((name) => name.startsWith(groupPrefix(bench.node.owner)));
}

const nothingIsLeft = async (placementId: string): Promise<void> => {
  await waitFor("no process to be left", async () => (await processesWith("1618.03")).length === 0);
  await waitFor("no group to be left", async () => (await ownGroups()).length === 0);
  expect(await bench.node.engine.listContainers()).toEqual([]);
  expect(await bench.node.engine.findImage(`${bench.registryHost}/svc/p1/app:${placementId}`)).toBeNull();
  expect(await readdir(join(bench.node.config.dir, "spool")).catch(() => [])).toEqual([]);
};

test("the steps end with the agent, and the next one builds again", async () => {
  // Long at the first try, at once at the second: the cache mount remembers.
  const step = "test -e /c/tried || { touch /c/tried; echo begun; sleep 1618.03; }; echo through";
  const id = await bench.buildDockerfile(`FROM ${baseImage}\nRUN --mount=type=cache,id=try,target=/c ${step}\n`);
  await waitFor("the step", () => /#\d+ begun/.test(bench.log(id)));
  await bench.agent.kill();
  await waitFor("no process to be left", async () => (await processesWith("1618.03")).length === 0);
  await bench.agent.start();
  const status = await bench.outcome(id);
  expect(status).toMatchObject({ observed: Observed.COMPLETED });
  await waitFor("the log of both", () => /#\d+ begun[\s\S]*#\d+ through/.test(bench.log(id)));
  await bench.removeImage(status);
});

test("a build that nobody wants any more when the agent is back leaves nothing", async () => {
  const id = await bench.buildDockerfile(`FROM ${baseImage}\nRUN echo begun; sleep 1618.03\n`);
  await waitFor("the step", () => /#\d+ begun/.test(bench.log(id)));
  await bench.agent.kill();
  await bench.agent.start();
  await bench.stop(id);
  await bench.control.status(id, ({ observed }) => observed === Observed.STOPPED);
  await nothingIsLeft(id);
});
