import { afterAll, beforeAll, expect, test } from "vitest";
import { type BuildBench, baseImage, createBuildBench } from "../testing/builds.ts";
import { waitFor } from "../testing/wait.ts";

let bench: BuildBench;
beforeAll(async () => {
  bench = await createBuildBench();
});
afterAll(async () => {
  await bench?.[Symbol.asyncDispose]();
});

/** The log of a build that succeeds. */
async function logOf(dockerfile: string, files: Record<string, string>, projectId: string): Promise<string> {
  const id = await bench.buildDockerfile(dockerfile, files, { projectId });
  const status = await bench.outcome(id);
  expect(status.failure).toBeUndefined();
  await waitFor("the log", () => bench.log(id).includes("Stored sha256:"));
  await bench.removeImage(status);
  return bench.log(id);
}

const roll = `FROM ${baseImage}\nCOPY lock /\nRUN head -c 9 /dev/urandom | base64 | sed "s/^/rolled /"\nCOPY . /app\n`;

test("a step whose inputs did not change is taken from the cache of its project", async () => {
  const first = await logOf(roll, { lock: "1", "server.js": "a" }, "p1");
  expect(first).toMatch(/#\d+ rolled/);
  const second = await logOf(roll, { lock: "1", "server.js": "b" }, "p1");
  expect(second).not.toMatch(/#\d+ rolled/);
  expect(second).toMatch(/#\d+ cached/);
  expect(await logOf(roll, { lock: "2", "server.js": "b" }, "p1")).toMatch(/#\d+ rolled/);
});

test("no project is served a step of another, whatever its Dockerfile says", async () => {
  const poisoned = `FROM ${baseImage}\nENV SVC_CACHE_NAMESPACE=${bench.node.owner.nodeId}-p2\nRUN echo ran for $(hostname) | tee /result\n`;
  await logOf(poisoned, {}, "p1");
  expect(await logOf(poisoned, {}, "p2")).toContain("ran for");
});

test("no project finds what another left in a cache mount, however that is written", async () => {
  const put = (mount: string) => `FROM ${baseImage}\nRUN --mount=${mount} echo poison > /c/found\n`;
  const look = (mount: string) => `FROM ${baseImage}\nRUN --mount=${mount} ls /c | sed "s/^/sees /"\n`;
  const plain = "type=cache,id=shared,target=/c";
  for (const mount of [plain, "type=ca\\\nche,id=shared,target=/c", "target=/c,ID=shared,type=cache"]) {
    await logOf(put(mount), {}, "p1");
    expect(await logOf(look(mount), {}, "p2")).not.toContain("sees found");
  }
  // While the project itself does.
  expect(await logOf(look(plain), {}, "p1")).toContain("sees found");
});

test("a cache within its bound is left as it is", async () => {
  await logOf(roll, { lock: "3", "server.js": "a" }, "p1");
  expect(await bench.node.engine.pruneBuildCache(2 ** 50)).toBe(0);
  expect(await logOf(roll, { lock: "3", "server.js": "b" }, "p1")).not.toMatch(/#\d+ rolled/);
});
