import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type BuildBench, baseImage, createBuildBench } from "../testing/builds.ts";
import { waitFor } from "../testing/wait.ts";

// What a build writes is bounded by its plan, whatever it writes it to.

let bench: BuildBench;
beforeAll(async () => {
  bench = await createBuildBench();
});
afterAll(async () => {
  await bench?.[Symbol.asyncDispose]();
});

const resources = { memoryMb: 256, cpuMillicores: 1_000, pidsLimit: 64, storageMb: 24 };
const twoFiles = (where: string) => `fallocate -l 16M ${where}/a && fallocate -l 16M ${where}/b && sleep 600`;
const wrote = "The build wrote more than 24 MB to the disk";

test.each([
  { what: "a large file", step: "RUN fallocate -l 40M /full && sleep 600" },
  { what: "a step that is over at once", step: "RUN fallocate -l 40M /full" },
  { what: "a file of holes, which a copy would fill", step: "RUN truncate -s 40M /full && sleep 600" },
  { what: "holes in several files", step: "RUN truncate -s 16M /a /b && sleep 600" },
  { what: "a cache", step: `RUN --mount=type=cache,target=/cache ${twoFiles("/cache")}` },
  {
    what: "a mount whose changes are thrown away",
    step: `RUN --mount=type=bind,source=here,target=/there,rw ${twoFiles("/there")}`,
  },
  {
    what: "files that have no name any more",
    step: "RUN exec 5>/a 6>/b; rm /a /b; for n in 5 6; do dd if=/dev/zero bs=1M count=16 >&$n; done; sleep 600",
  },
  { what: "several steps", step: "RUN fallocate -l 16M /a\nRUN fallocate -l 16M /b && sleep 600" },
])("$what ends the build, which is told its bound", async ({ step }) => {
  const id = await bench.buildDockerfile(`FROM ${baseImage}\n${step}\n`, { "here/x": "y" }, { resources });
  const { failure } = await bench.outcome(id);
  expect(failure).toMatchObject({ code: "BUILD_FAILED" });
  expect(failure?.message).toContain(wrote);
  await waitFor("the log", () => bench.log(id).includes(wrote));
});

test("what a step wrote goes with its build", async () => {
  const name = `gone-${bench.node.owner.nodeId}`;
  const text = `FROM ${baseImage}\nRUN fallocate -l 16M /${name} && fallocate -l 16M /b && sleep 600\n`;
  expect((await bench.outcome(await bench.buildDockerfile(text, {}, { resources }))).failure?.message).toContain(wrote);
  const { rootDir } = await bench.node.engine.describe();
  await waitFor("the layer to go", async () => {
    const layers = await readdir(join(rootDir, "overlay2"));
    const found = await Promise.all(
      layers.map((layer) => stat(join(rootDir, "overlay2", layer, "diff", name)).catch(() => null)),
    );
    return found.every((stats) => stats === null);
  });
});

test("a build that writes as much as it may, or takes it away in time, goes on", async () => {
  const steps = "RUN fallocate -l 16M /a && rm /a\nRUN fallocate -l 16M /b\nRUN exit 3\n";
  const id = await bench.buildDockerfile(`FROM ${baseImage}\n${steps}`, {}, { resources });
  expect((await bench.outcome(id)).failure).toMatchObject({ code: "BUILD_FAILED", exitCode: 3 });
});

test("what a cache holds from earlier builds does not count again", async () => {
  for (const file of ["a", "b", "c"]) {
    const step = `RUN --mount=type=cache,target=/cache fallocate -l 12M /cache/${file} && ls /cache && exit 3`;
    const id = await bench.buildDockerfile(`FROM ${baseImage}\n${step}\n`, {}, { resources, projectId: "cached" });
    expect((await bench.outcome(id)).failure).toMatchObject({ code: "BUILD_FAILED", exitCode: 3 });
  }
});
