import { get as httpGet, type IncomingMessage } from "node:http";
import { text } from "node:stream/consumers";
import { Desired, HealthState, Observed } from "@svc/proto/node";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Agent, start } from "../start.ts";
import { createTestNode, type TestNode } from "../testing/agent.ts";
import { pushApp } from "../testing/apps.ts";
import { createTestControl, type TestControl } from "../testing/control.ts";
import { type EngineProxy, type Play, startEngineProxy } from "../testing/engine-proxy.ts";
import { startRegistry } from "../testing/registry.ts";
import { containerName } from "./names.ts";

/*
 * What is still open when a container is to go. All drains but those of the last two tests are longer than any test may
 * take: the app ends its answers when it is told to, and says when that was.
 */

/** Keeps an answer to /hold open until /let-go, or until it is asked to end. */
const app = `
const held = new Set();
const endAll = (word) => { for (const reply of held) reply.end(word); held.clear(); };
const server = require("node:http").createServer((request, reply) => {
  if (request.url === "/hold") { reply.write("held "); held.add(reply); return; }
  if (request.url === "/let-go") endAll("let go");
  reply.setHeader("Connection", "close").end("ok");
}).listen(process.env.PORT);
process.on("SIGTERM", () => { server.close(() => process.exit(0)); endAll("asked to end at " + Date.now()); });
`;

let registry: Awaited<ReturnType<typeof startRegistry>>;
let node: TestNode;
let control: TestControl;
let proxy: EngineProxy;
let agent: Agent;
let image = "";
const newAgent = () => start({ ...node.config, dockerSocket: proxy.socketPath }, { openLink: control.openLink });
beforeAll(async () => {
  registry = await startRegistry();
  node = await createTestNode({ SVC_AGENT_ADDRESS: "127.0.9.7" });
  control = createTestControl({ registryHost: registry.host });
  proxy = await startEngineProxy(node.config.dockerSocket);
  agent = await newAgent();
  await agent.ready;
  image = await pushApp(node.engine, registry.host, app);
}, 120_000);
afterAll(async () => {
  await agent?.[Symbol.asyncDispose]();
  await proxy?.[Symbol.asyncDispose]();
  await node?.[Symbol.asyncDispose]();
  await registry?.[Symbol.asyncDispose]();
});

const longSeconds = 3_600;
const aPlacement = (placementId: string, desired: Desired, drainSeconds = 0) => ({
  ...{ placementId, epoch: 1n, desired, drainSeconds, specHash: "h", projectId: "p1", channel: "production" },
  resources: { memoryMb: 64, cpuMillicores: 1_000, pidsLimit: 64 },
  spec: {
    case: "serve" as const,
    value: {
      image: { reference: image, maxSizeMb: 1_000 },
      env: { PORT: "3000" },
      ...{ port: 3000, health: { path: "/", timeoutSeconds: 30 }, stopGraceSeconds: 30 },
    },
  },
});

async function serve(placementId: string): Promise<string> {
  await control.assign({ upserts: [aPlacement(placementId, Desired.RUNNING)] });
  const { upstream } = await control.status(placementId, ({ health }) => health === HealthState.HEALTHY);
  return upstream;
}

const assignRemoved = (placementId: string, drainSeconds: number) =>
  control.assign({ upserts: [aPlacement(placementId, Desired.REMOVED, drainSeconds)] });
const isRemoved = (placementId: string) => control.status(placementId, ({ observed }) => observed === Observed.REMOVED);

const get = (upstream: string, path: string): Promise<IncomingMessage> =>
  new Promise((resolve, reject) => {
    httpGet(`http://${upstream}${path}`, { agent: false }, resolve).on("error", reject);
  });

/** When the app was asked to end, by what it said to whoever held on. */
async function askedToEndMs(held: IncomingMessage): Promise<number> {
  const said = await text(held);
  expect(said).toMatch(/^held asked to end at \d+$/);
  return Number(said.split(" ").at(-1));
}

test("a container that is to go serves what is open to its end, and goes then", async () => {
  const upstream = await serve("open-1");
  const held = await get(upstream, "/hold");
  await assignRemoved("open-1", longSeconds);
  // Whatever the agent has begun is over once it has stopped; a drain is not.
  await agent[Symbol.asyncDispose]();
  agent = await newAgent();
  await agent.ready;
  await text(await get(upstream, "/let-go"));
  expect(await text(held)).toBe("held let go");
  await isRemoved("open-1");
});

test("without an open connection it goes at once", async () => {
  await serve("open-2");
  await assignRemoved("open-2", longSeconds);
  await isRemoved("open-2");
});

test("who comes after nothing was open, while the engine is slow to answer, is served as well", async () => {
  const upstream = await serve("open-6");
  const slow = Promise.withResolvers<void>();
  const asked = Promise.withResolvers<void>();
  let looks = 0;
  proxy.play(async ({ method, path }): Promise<Play> => {
    if (method !== "GET" || path !== `/containers/${containerName("open-6")}/json`) return "pass";
    looks += 1;
    // The first is the look that finds it running, with nothing open.
    if (looks > 1) {
      asked.resolve();
      await slow.promise;
    }
    return "pass";
  });
  await assignRemoved("open-6", longSeconds);
  await asked.promise;
  const held = await get(upstream, "/hold");
  slow.resolve();
  // Whatever was decided before somebody came is done by the time that an agent has stopped.
  await agent[Symbol.asyncDispose]();
  agent = await newAgent();
  await agent.ready;
  await text(await get(upstream, "/let-go"));
  expect(await text(held)).toBe("held let go");
  await isRemoved("open-6");
});

test("what is to go at once after all is asked to end, and may finish what is open", async () => {
  const upstream = await serve("open-3");
  const held = await get(upstream, "/hold");
  await assignRemoved("open-3", longSeconds);
  await agent[Symbol.asyncDispose]();
  agent = await newAgent();
  await agent.ready;
  // Nobody was asked yet.
  expect(await text(await get(upstream, "/"))).toBe("ok");
  const nowMs = Date.now();
  await assignRemoved("open-3", 0);
  expect(await askedToEndMs(held)).toBeGreaterThanOrEqual(nowMs);
  await isRemoved("open-3");
});

test("once the time is up it is asked to end, and not before", async () => {
  const upstream = await serve("open-4");
  const held = await get(upstream, "/hold");
  const drainSeconds = 2;
  const nowMs = Date.now();
  await assignRemoved("open-4", drainSeconds);
  expect(await askedToEndMs(held)).toBeGreaterThanOrEqual(nowMs + drainSeconds * 1000);
  await isRemoved("open-4");
});

test("a time that was shortened counts from then on, however often it is said", async () => {
  const upstream = await serve("open-5");
  const held = await get(upstream, "/hold");
  await assignRemoved("open-5", longSeconds);
  const said: string[] = [];
  const listening = text(held).then((word) => said.push(word));
  while (said.length === 0) await assignRemoved("open-5", 2);
  await listening;
  expect(said[0]).toContain("asked to end");
  await isRemoved("open-5");
});
