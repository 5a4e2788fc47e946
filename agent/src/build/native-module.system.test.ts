import Docker from "dockerode";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type BuildBench, createBuildBench } from "../testing/builds.ts";

let bench: BuildBench;
beforeAll(async () => {
  bench = await createBuildBench();
});
afterAll(async () => {
  await bench?.[Symbol.asyncDispose]();
});

const addon = `
#include <node_api.h>
static napi_value answer(napi_env env, napi_callback_info info) {
  napi_value result;
  napi_create_int32(env, 6 * 7, &result);
  return result;
}
NAPI_MODULE_INIT() {
  napi_value function;
  napi_create_function(env, NULL, 0, answer, NULL, &function);
  napi_set_named_property(env, exports, "answer", function);
  return exports;
}
`;
const files = {
  "package.json": JSON.stringify({ name: "app", version: "1.0.0", gypfile: true }),
  "package-lock.json": JSON.stringify({
    ...{ name: "app", version: "1.0.0", lockfileVersion: 3 },
    packages: { "": { name: "app", version: "1.0.0" } },
  }),
  "binding.gyp": JSON.stringify({ targets: [{ target_name: "addon", sources: ["addon.c"] }] }),
  "addon.c": addon,
  "server.js": `
    const { existsSync } = require("node:fs");
    const tools = ["python3", "make", "g++"].filter((name) => existsSync("/usr/bin/" + name));
    console.log("answer " + require("./build/Release/addon.node").answer() + " tools " + (tools.join() || "none"));
  `,
};

test("a native module without a binary is compiled, and runs where no compiler is", { timeout: 300_000 }, async () => {
  const recipe = { case: "image", value: { startCommand: "node server.js", port: 3000 } } as const;
  const id = await bench.build(files, recipe, { builderImage: "node:24" });
  const status = await bench.outcome(id);
  expect(status.failure, bench.log(id)).toBeUndefined();

  const docker = new Docker();
  const Image = `${bench.registryHost}/svc/p1/app@${status.build?.digest}`;
  const container = await docker.createContainer({ Image, Tty: true, Labels: { "svc.test": bench.node.owner.nodeId } });
  try {
    await container.start();
    await container.wait();
    expect((await container.logs({ stdout: true })).toString("utf8")).toContain("answer 42 tools none");
  } finally {
    await container.remove({ force: true });
    await bench.removeImage(status);
  }
});
