import { readdir, readlink } from "node:fs/promises";
import { join } from "node:path";
import { Observed } from "@svc/proto/node";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createDockerEngine } from "../engine/docker.ts";
import { type BuildBench, baseImage, createBuildBench } from "../testing/builds.ts";
import { processesWith } from "../testing/processes.ts";
import { waitFor } from "../testing/wait.ts";
import { packTar } from "./tar.ts";

// A build that is not wanted any more ends at once and leaves nothing.

let bench: BuildBench;
beforeAll(async () => {
  bench = await createBuildBench();
});
afterAll(async () => {
  await bench?.[Symbol.asyncDispose]();
});

/** Connections of this process to the engine. */
async function openSockets(): Promise<number> {
  const names = await readdir("/proc/self/fd");
  const targets = await Promise.all(names.map((name) => readlink(`/proc/self/fd/${name}`).catch(() => "")));
  return targets.filter((target) => target.startsWith("socket:")).length;
}

const imagesOf = async (placementId: string) =>
  bench.node.engine.findImage(`${bench.registryHost}/svc/p1/app:${placementId}`);

test("a cancelled build ends at once, with every process of its steps, and leaves nothing", async () => {
  // The second one would outlive a shell that only got a signal.
  const command = "trap '' TERM HUP; (setsid sleep 3141.59 &) ; echo begun; sleep 3141.59";
  const id = await bench.buildDockerfile(`FROM ${baseImage}\nRUN ${command}\n`);
  await waitFor("the step", async () => (await processesWith("3141.59")).some((line) => line.startsWith("sleep")));
  await bench.stop(id);
  const status = await bench.control.status(id, ({ observed }) => observed === Observed.STOPPED);
  expect(status.failure).toBeUndefined();
  await waitFor("no process to be left", async () => (await processesWith("3141.59")).length === 0);
  expect(await imagesOf(id)).toBeNull();
  expect(await readdir(join(bench.node.config.dir, "spool")).catch(() => [])).toEqual([]);
  expect((await bench.node.engine.listContainers()).length).toBe(0);
});

test("a build past its time is stopped, and the person is told where it stood", async () => {
  const id = await bench.buildDockerfile(
    `FROM ${baseImage}\nRUN echo still at it && sleep 2718.28\n`,
    {},
    // Time enough to get to the step on a slow machine, too.
    { timeoutSeconds: 15 },
  );
  const { failure } = await bench.outcome(id);
  expect(failure).toMatchObject({ code: "BUILD_TIMEOUT" });
  expect(failure?.message).toContain('took longer than 15 seconds and was stopped in the step "RUN echo still at it');
  expect(failure?.message).toContain("still at it");
  await waitFor("no process to be left", async () => (await processesWith("2718.28")).length === 0);
});

test("builds that wait for another one of their project leave the queue when they are cancelled", async () => {
  const first = await bench.buildDockerfile(`FROM ${baseImage}\nRUN echo first && sleep 1414.2\n`);
  await waitFor("the first", () => bench.log(first).includes("first"));
  const second = await bench.buildDockerfile(`FROM ${baseImage}\nRUN true\n`);
  const other = await bench.buildDockerfile(`FROM ${baseImage}\nRUN true\n`, {}, { projectId: "p2" });
  // Another project does not wait.
  await bench.removeImage(await bench.outcome(other));
  expect(bench.control.statuses.get(second)?.observed ?? 0).toBeLessThan(Observed.RUNNING);
  await bench.stop(second);
  await bench.control.status(second, ({ observed }) => observed === Observed.STOPPED);
  await bench.stop(first);
  await bench.control.status(first, ({ observed }) => observed === Observed.STOPPED);
});

test("a build that the engine refuses leaves no connection open", async () => {
  const { engine } = bench.node;
  async function* nothing() {}
  const refused = () =>
    engine.buildImage(
      (owner) => packTar(nothing(), owner),
      // Not a name: the engine refuses the request before it begins.
      { tag: "NOT/A/NAME", dockerfile: "Dockerfile", buildArgs: {} },
      () => {},
      AbortSignal.timeout(10_000),
    );
  await expect(refused()).rejects.toThrow("invalid");
  const before = await openSockets();
  for (let n = 0; n < 5; n += 1) await expect(refused()).rejects.toThrow("invalid");
  // Node itself keeps one that is free for five seconds, in case another call of the agent's comes.
  await waitFor("the connections to close", async () => (await openSockets()) <= before);
});

test("an engine that does not answer is said to be out of reach", async () => {
  async function* nothing() {}
  const engine = createDockerEngine({
    socketPath: "/nonexistent/engine.sock",
    owner: bench.node.owner,
    clock: systemClock,
    random: systemRandom,
  });
  const building = engine.buildImage(
    (owner) => packTar(nothing(), owner),
    { tag: "a:1", dockerfile: "Dockerfile", buildArgs: {} },
    () => {},
    AbortSignal.timeout(10_000),
  );
  await expect(building).rejects.toMatchObject({ kind: "unreachable" });
});
