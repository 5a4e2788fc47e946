import type { PlacementStatus } from "@svc/proto/node";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type BuildBench, createBuildBench, type TestBuild } from "../testing/builds.ts";
import { waitFor } from "../testing/wait.ts";

let bench: BuildBench;
beforeAll(async () => {
  bench = await createBuildBench();
});
afterAll(async () => {
  await bench?.[Symbol.asyncDispose]();
});

const files = {
  "build.js": `
    const { mkdirSync, writeFileSync } = require("node:fs");
    mkdirSync("dist");
    writeFileSync("dist/index.html", "built " + Math.random());
    console.log("it is built");
  `,
};
const recipe = { case: "static", value: { command: "node build.js", output: "dist" } } as const;
const envDigest = "e".repeat(64);
const deploymentId = "11111111-2222-4333-8444-555555555555";

/** A build that succeeds, and its log. */
async function built(spec: TestBuild): Promise<{ status: PlacementStatus; log: string }> {
  const id = await bench.build(files, recipe, spec);
  const status = await bench.outcome(id);
  expect(status.failure).toBeUndefined();
  await waitFor("the end of the log", () => /Stored sha256:|svc deploy --no-cache/.test(bench.log(id)));
  return { status, log: bench.log(id) };
}

test("what was built of the same is used, unless something that decides it has changed", {
  timeout: 300_000,
}, async () => {
  const first = await built({ envDigest });
  const { digest = "", sizeBytes = 0n, key = "" } = first.status.build ?? {};
  expect(key).toMatch(/^[0-9a-f]{64}$/);
  const priorBuilds = [{ deploymentId, key, digest, sizeBytes, platform: { os: "linux", architecture: "amd64" } }];

  const again = await built({ envDigest, priorBuilds });
  expect(again.log).toContain(`the build of deployment ${deploymentId} is used (${digest})`);
  expect(again.log).not.toContain("RUN node build.js");
  expect(again.status.build).toMatchObject({ digest, sizeBytes, key, reusedFrom: deploymentId });

  const changed = await built({ envDigest: "f".repeat(64), priorBuilds });
  expect(changed.log).toContain("RUN node build.js");
  expect(changed.status.build?.reusedFrom).toBe("");
  expect(changed.status.build?.key).not.toBe(key);
});

test("without what was built before no step is taken from the cache either", { timeout: 300_000 }, async () => {
  await built({ envDigest });
  expect((await built({ envDigest })).log).not.toContain("it is built");
  expect((await built({ envDigest, noCache: true })).log).toContain("it is built");
});
