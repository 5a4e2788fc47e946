import { Desired, HealthState, Observed, RunPhase } from "@svc/proto/node";
import { afterAll, beforeAll, expect, test } from "vitest";
import { containerName } from "./placements/names.ts";
import { runContainerName } from "./runs/attempt.ts";
import { createTestNode, type TestNode } from "./testing/agent.ts";
import { createTestControl, type TestControl } from "./testing/control.ts";
import { createKillableAgent, type KillableAgent } from "./testing/killable.ts";
import { startRegistry } from "./testing/registry.ts";
import { packSource, pushSource } from "./testing/source.ts";
import { waitFor } from "./testing/wait.ts";

// Kills a real agent process in the middle of things, again and again.

const server = 'require("http").createServer((_, reply) => reply.end("ok")).listen(3000);';

let registry: Awaited<ReturnType<typeof startRegistry>>;
let node: TestNode;
let control: TestControl;
let agent: KillableAgent;
let image = "";

beforeAll(async () => {
  registry = await startRegistry();
  node = await createTestNode({ SVC_AGENT_ADDRESS: "127.0.9.2" });
  control = createTestControl({ registryHost: registry.host });
  agent = await createKillableAgent(node, control);
  await agent.start();
  const dockerfile = `FROM node:24-slim\nCOPY server.js /\nCMD ["node", "/server.js"]\n`;
  const sourceDigest = await pushSource(
    registry.host,
    "svc/p1/source",
    await packSource({ Dockerfile: dockerfile, "server.js": server }),
  );
  const value = {
    sourceRepository: "svc/p1/source",
    sourceDigest,
    targetRepository: "svc/p1/app",
    recipe: { case: "image" as const, value: { dockerfile: "Dockerfile", port: 3000 } },
    timeoutSeconds: 120,
    maxImageMb: 1_000,
    maxUnpackedMb: 10,
    cacheNamespace: "p1",
  };
  await control.assign({
    upserts: [
      { placementId: "build", epoch: 1n, desired: Desired.RUNNING, specHash: "h", spec: { case: "build", value } },
    ],
  });
  const status = await control.status("build", ({ observed }) => observed >= Observed.COMPLETED, 120_000);
  image = `${registry.host}/svc/p1/app@${status.build?.digest}`;
}, 240_000);

afterAll(async () => {
  await agent?.[Symbol.asyncDispose]();
  const built = image === "" ? null : await node.engine.findImage(image);
  await node?.[Symbol.asyncDispose]();
  if (built) await node.engine.removeImage(built.id);
  await registry?.[Symbol.asyncDispose]();
});

const aSite = (placementId: string, desired: Desired) => ({
  placementId,
  epoch: 1n,
  desired,
  specHash: "h",
  projectId: "p1",
  channel: "production",
  resources: { memoryMb: 128, cpuMillicores: 1_000, pidsLimit: 64 },
  spec: {
    case: "serve" as const,
    value: {
      image: { reference: image, maxSizeMb: 1_000 },
      port: 3000,
      health: { path: "/", timeoutSeconds: 60 },
      stopGraceSeconds: 1,
    },
  },
});

test("a site comes up once, wherever its agent was killed on the way", async () => {
  for (const delayMs of [0, 30, 80, 150, 250, 400, 700]) {
    const id = `site-${delayMs}`;
    await control.assign({ upserts: [aSite(id, Desired.RUNNING)] });
    await new Promise((resolve) => setTimeout(resolve, delayMs));
    await agent.kill();
    await agent.start();
    await control.status(id, ({ observed, health }) => observed === Observed.RUNNING && health === HealthState.HEALTHY);
    const own = (await node.engine.listContainers()).map((container) => container.name);
    expect(own).toEqual([containerName(id)]);
    await control.assign({ upserts: [aSite(id, Desired.REMOVED)] });
    await control.status(id, ({ observed }) => observed === Observed.REMOVED);
    await control.assign({ removes: [{ placementId: id, epoch: 1n }] });
  }
  expect((await node.engine.listNetworks()).filter(({ labels }) => labels["svc.node"] === node.owner.nodeId)).toEqual(
    [],
  );
}, 180_000);

test("a command runs at most once, wherever its agent was killed on the way", async () => {
  const outcomes = new Map<string, RunPhase>();
  // Before it is granted, so long after that, and once it was started, however long the engine takes for that.
  for (const at of ["accepted", 0, 20, 60, 120, 200, 300, 450, 700, "started"] as const) {
    const attemptId = `kill-${at}.1`;
    const value = {
      attemptId,
      projectId: "p1",
      channel: "production",
      image: { reference: image },
      command: "echo ran; sleep 0.5",
      resources: { memoryMb: 64, cpuMillicores: 1_000, pidsLimit: 32 },
      timeoutSeconds: 60,
    };
    control.send({ message: { case: "runOffer", value } });
    await waitFor("the acceptance", () => control.accepts.some((accept) => accept.attemptId === attemptId));
    const grant = () =>
      control.send({ message: { case: "runGrant", value: { attemptId, token: "t", startWithinMs: 10_000 } } });
    if (at !== "accepted") grant();
    if (at === "started") await waitFor("the start", () => control.runs.has(attemptId));
    else if (at !== "accepted") await new Promise((resolve) => setTimeout(resolve, at));
    await agent.kill();
    await agent.start();
    const evidence = await waitFor(`evidence of ${attemptId}`, () => {
      const status = control.runs.get(attemptId);
      return status !== undefined && status.phase !== RunPhase.STARTED ? status : null;
    });
    outcomes.set(attemptId, evidence.phase);
    // A grant after the restart must find nothing left to start.
    grant();
    const output = await node.engine.readLog(runContainerName(attemptId), 100);
    const times = output.split("\n").filter((line) => line.endsWith(" ran")).length;
    const allowed: Partial<Record<RunPhase, number[]>> = { [RunPhase.EXITED]: [1], [RunPhase.INDETERMINATE]: [0, 1] };
    expect(allowed[evidence.phase] ?? [0]).toContain(times);
    control.send({ message: { case: "runAck", value: { attemptId } } });
    await waitFor(
      "the container to go",
      async () => (await node.engine.findContainer(runContainerName(attemptId))) === null,
    );
  }
  expect([outcomes.get("kill-accepted.1"), outcomes.get("kill-started.1")]).toEqual([
    RunPhase.NOT_STARTED,
    RunPhase.EXITED,
  ]);
}, 180_000);
