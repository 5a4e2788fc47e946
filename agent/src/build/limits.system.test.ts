import { access, readdir } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type BuildBench, baseImage, createBuildBench } from "../testing/builds.ts";
import { findProcesses } from "../testing/processes.ts";
import { waitFor } from "../testing/wait.ts";
import { findTrees, groupDirectories } from "./cgroups.ts";

// What a hostile or careless step may take is what its plan allows, whatever the engine does about it.

let bench: BuildBench;
const neighbour = "svc-build-neighbour";
const resources = { memoryMb: 256, cpuMillicores: 500, pidsLimit: 64 };

beforeAll(async () => {
  bench = await createBuildBench();
  const command = ["node", "-e", "let n = 0; setInterval(() => console.log(n++), 100)"];
  const { engine, owner } = bench.node;
  await engine.createContainer({
    name: `${neighbour}-${owner.nodeId}`,
    kind: "run",
    image: baseImage,
    command,
    env: {},
    labels: {},
    memoryMb: 128,
    cpuMillicores: 500,
    pidsLimit: 32,
    reserved: { memoryMb: 0, cpuMillicores: 0 },
    network: "none",
    databaseAt: null,
    publish: null,
  });
  await engine.startContainer(`${neighbour}-${owner.nodeId}`);
});

afterAll(async () => {
  await bench?.[Symbol.asyncDispose]();
});

/** How far the container beside the builds has counted. */
const beats = async (): Promise<number> =>
  Number(/ (\d+)\n$/.exec(await bench.node.engine.readLog(`${neighbour}-${bench.node.owner.nodeId}`, 1))?.[1] ?? 0);

/** Control groups that builds of this machine have left. */
async function groups(): Promise<string[]> {
  const all = await Promise.all(
    groupDirectories(await findTrees(), "svc-build").map(async (directory) => {
      const entries = await readdir(directory, { withFileTypes: true });
      return entries.filter((entry) => entry.isDirectory()).map((entry) => join(directory, entry.name));
    }),
  );
  return all.flat();
}

test("a step that takes too much memory is killed, and the person is told how much there is", async () => {
  const before = await beats();
  const program = "const all = []; for (let n = 0; n < 4096; n += 16) all.push(Buffer.alloc(16 * 1024 * 1024, 1));";
  const id = await bench.buildDockerfile(
    `FROM ${baseImage}\nCOPY eat.js /\nRUN node /eat.js && echo ate it all\n`,
    { "eat.js": program },
    { resources },
  );
  const { failure } = await bench.outcome(id);
  expect(failure).toMatchObject({ code: "OUT_OF_MEMORY" });
  expect(failure?.message).toContain('The step "RUN node /eat.js && echo ate it all" failed: out of memory.');
  expect(failure?.message).toContain("256 MB");
  expect(bench.log(id)).not.toContain("| ate it all");
  await waitFor("the neighbour to go on", async () => (await beats()) > before + 5);
});

test("steps that run at the same time share one limit", async () => {
  const program = "const all = Buffer.alloc(160 * 1024 * 1024, 1); setTimeout(() => console.log(all.length), 8000);";
  const id = await bench.buildDockerfile(
    [
      `FROM ${baseImage} AS base`,
      "COPY hold.js /",
      "FROM base AS a",
      "RUN node /hold.js && touch /a",
      "FROM base AS b",
      "RUN node /hold.js && touch /b",
      "FROM base",
      "COPY --from=a /a /",
      "COPY --from=b /b /",
    ].join("\n"),
    { "hold.js": program },
    { resources },
  );
  expect((await bench.outcome(id)).failure).toMatchObject({ code: "OUT_OF_MEMORY" });
});

test("a step that forks without end stops at the limit, and the rest of the machine goes on", async () => {
  const before = await beats();
  // Every process starts two more and waits for them.
  const bomb = "b() { b & b & wait; }; (b); exit 9";
  const id = await bench.buildDockerfile(`FROM ${baseImage}\nRUN ${bomb}\n`, {}, { resources });
  const { failure } = await bench.outcome(id);
  expect(failure).toMatchObject({ code: "BUILD_FAILED", exitCode: 9 });
  expect(failure?.message).toContain("limit of 64 processes and threads");
  await waitFor("the neighbour to go on", async () => (await beats()) > before + 5);
});

test("a step that computes without end gets its share of the processor and no more", async () => {
  const program = `
    const startedMs = performance.now();
    const before = process.cpuUsage();
    const usedMs = () => { const { user, system } = process.cpuUsage(before); return (user + system) / 1000; };
    // By what it got, not by the clock: in a second with much else to do it may get next to nothing.
    while (usedMs() < 1000);
    console.log("share", Math.round((100 * usedMs()) / (performance.now() - startedMs)), "%");
  `;
  const id = await bench.buildDockerfile(
    `FROM ${baseImage}\nCOPY spin.js /\nRUN node /spin.js\n`,
    { "spin.js": program },
    { resources: { ...resources, cpuMillicores: 250 } },
  );
  const status = await bench.outcome(id);
  expect(status.failure).toBeUndefined();
  await waitFor("the log", () => bench.log(id).includes("share"));
  const share = Number(/share (\d+) %/.exec(bench.log(id))?.[1]);
  expect(share).toBeGreaterThan(5);
  expect(share).toBeLessThan(40);
  await bench.removeImage(status);
});

test("a build under way has a group of its own, which is gone afterwards", async () => {
  const before = await groups();
  const step = "sleep 1732.05 || echo through";
  const id = await bench.buildDockerfile(`FROM ${baseImage}\nRUN ${step}\n`, {}, { resources });
  const sleep = await waitFor("the step", async () =>
    (await findProcesses("1732.05")).find(({ line }) => line.startsWith("sleep")),
  );
  expect((await groups()).filter((group) => !before.includes(group))).not.toEqual([]);
  // It goes on when its sleep ends, and not before.
  process.kill(sleep.pid);
  await bench.removeImage(await bench.outcome(id));
  await waitFor("the groups to go", async () => {
    const left = (await groups()).filter((group) => !before.includes(group));
    return (
      await Promise.all(
        left.map((group) =>
          access(group).then(
            () => true,
            () => false,
          ),
        ),
      )
    ).every((found) => !found);
  });
});
