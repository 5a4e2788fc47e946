import { Desired, Observed } from "@svc/proto/node";
import { FencedError } from "@svc/uplink";
import { afterAll, beforeAll, expect, test } from "vitest";
import { labels } from "./engine/engine.ts";
import { containerName } from "./placements/names.ts";
import type { Play } from "./testing/engine-proxy.ts";
import { type ProxiedAgent, startProxiedAgent } from "./testing/proxied-agent.ts";
import { waitFor } from "./testing/wait.ts";

let world: ProxiedAgent;
beforeAll(async () => {
  const env = { SVC_AGENT_ADDRESS: "127.0.9.7", SVC_AGENT_SUBNETS: "10.214.100.0/22" };
  world = await startProxiedAgent(
    env,
    `require("node:http").createServer((_, reply) => reply.end("ok")).listen(3000);`,
  );
}, 120_000);
afterAll(() => world?.[Symbol.asyncDispose]());

const ownNetworks = async ({ node }: ProxiedAgent) =>
  (await node.engine.listNetworks()).filter((network) => network.labels[labels.node] === node.owner.nodeId);

test("a fence leaves nothing: a command whose container is just being made goes as well, and so do networks", async () => {
  const { node, control, proxy, agent, image } = world;
  const [placementId, attemptId] = ["clear-1", "clear-2.1"];
  const resources = { memoryMb: 128, cpuMillicores: 500, pidsLimit: 64 };
  const spec = {
    case: "serve" as const,
    value: { image: { reference: image, maxSizeMb: 1_000 }, port: 3000, health: { path: "/", timeoutSeconds: 60 } },
  };
  const whose = { projectId: "p1", channel: "production", resources };
  await control.assign({
    upserts: [{ ...whose, placementId, epoch: 1n, desired: Desired.RUNNING, specHash: "h", spec }],
  });
  await control.status(placementId, ({ observed }) => observed === Observed.RUNNING);
  const offer = { ...whose, attemptId, projectId: "p2", image: { reference: image }, kind: "job", command: "sleep 60" };
  control.send({ message: { case: "runOffer", value: { ...offer, env: {}, timeoutSeconds: 60 } } });
  await waitFor("the acceptance", () => control.accepts.find((accept) => accept.attemptId === attemptId));

  let letOn = (): void => {};
  const held = new Promise<void>((resolve) => (letOn = resolve));
  proxy.play(async ({ path }): Promise<Play> => {
    if (path === "/containers/create") await held;
    return "pass";
  });
  const made = proxy.count("POST", /^\/containers\/create$/);
  control.send({ message: { case: "runGrant", value: { attemptId, token: "t1", startWithinMs: 60_000 } } });
  await waitFor("its container to be asked for", () => proxy.count("POST", /^\/containers\/create$/) > made);
  control.send({ message: { case: "fenced", value: { reason: "declared lost" } } });
  await waitFor("the node to leave", () => control.farewells() > 0);
  letOn();

  expect(await agent.ended).toBeInstanceOf(FencedError);
  expect(await node.engine.findContainer(containerName(placementId))).toBeNull();
  expect(await node.engine.listContainers()).toEqual([]);
  expect(await ownNetworks(world)).toEqual([]);
}, 120_000);
