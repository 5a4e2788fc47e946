import { once } from "node:events";
import { open } from "node:fs/promises";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { spawnProgram, thisNode } from "@svc/runtime/programs";
import { describe, expect, test } from "vitest";
import {
  aDeployment,
  anAccepted,
  aProject,
  deploymentId,
  ok,
  projectId,
  type Routes,
  startApi,
} from "./testing/api.ts";
import { aDirectory, envelopeOf, svc, testedProgram } from "./testing/svc.ts";

const files = {
  "svc.yml": "version: 2\nslug: shop\napp: { name: Shop, type: static }\n",
  "index.html": "<h1>Shop</h1>\n",
  ".svc/state.json": JSON.stringify({ project: { id: projectId, slug: "shop" } }),
};
const routesTo = (status: "running" | "failed"): Routes => ({
  [`GET /api/v1/projects/${projectId}`]: ok({ project: aProject(), deployments: [aDeployment()] }),
  [`POST /api/v1/projects/${projectId}/deployments`]: ok(anAccepted(), 202),
  [`GET /api/v1/deployments/${deploymentId}`]: ok({ deployment: aDeployment({ status }) }),
  [`GET /api/v1/deployments/${deploymentId}/logs`]: ok({ log: "", offset: 0 }),
});

/** Deploys what comes to `status`, and reads no more than the beginning of one of the two outputs. */
async function deployUnread(status: "running" | "failed", unread: "stdout" | "stderr") {
  await using api = await startApi(routesTo(status));
  await using directory = await aDirectory(files);
  const env = { SVC_TOKEN: "svc_key-secret", SVC_API_URL: api.url };
  return await svc(["deploy", "--json"], { cwd: directory.path, env, unread });
}

describe.each([
  ["running", 0],
  ["failed", 4],
] as const)("a deployment that comes to %s", (status, exit) => {
  test("goes to its end where nobody reads on how it goes", async () => {
    const ended = await deployUnread(status, "stderr");
    expect(ended.status).toBe(exit);
    expect(envelopeOf(ended)).toMatchObject({ ok: exit === 0, operation: "deploy" });
  });

  test("ends as it went where nobody reads its result", async () => {
    expect(await deployUnread(status, "stdout")).toMatchObject({ status: exit, stdout: "" });
  });
});

test("a failure before the first call to the platform is one also where nobody reads it", async () => {
  await using directory = await aDirectory({});
  const ended = await svc(["whoami", "--json"], { cwd: directory.path, unread: "stdout" });
  expect(ended.status).toBe(2);
});

test("a result that cannot be written is a failure that says so", async () => {
  await using directory = await aDirectory({});
  await using full = await open("/dev/full", "w");
  const child = spawnProgram([thisNode, testedProgram().program, "--version"], {
    cwd: directory.path,
    env: { PATH: process.env["PATH"], HOME: directory.path },
    stdio: ["ignore", full.fd, "pipe"],
  });
  const said = child.stderr ?? Readable.from([]);
  const [stderr] = await Promise.all([text(said), once(child, "exit")]);
  expect({ stderr, status: child.exitCode }).toEqual({
    stderr: "Error: cannot write: ENOSPC: no space left on device, write (UNEXPECTED)\n",
    status: 1,
  });
});
