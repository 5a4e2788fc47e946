import { randomBytes } from "node:crypto";
import { cpus } from "node:os";
import { Desired, HealthState, Observed, type PlacementStatus } from "@svc/proto/node";
import Docker from "dockerode";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { Limits } from "../engine/engine.ts";
import { type ProxiedAgent, startProxiedAgent } from "../testing/proxied-agent.ts";
import { waitFor } from "../testing/wait.ts";
import { containerName } from "./names.ts";

// An engine that refuses, or says yes and does less: sites go on, and it is asked again only now and then.

/** Crashes on /crash. */
const app = `
require("node:http").createServer((request, reply) => {
  if (request.url === "/crash") process.exit(1);
  reply.end("ok");
}).listen(3000);
`;

let world: ProxiedAgent;
beforeAll(async () => {
  world = await startProxiedAgent({ SVC_AGENT_ADDRESS: "127.0.9.6", SVC_AGENT_SUBNETS: "10.214.96.0/22" }, app);
}, 120_000);
afterEach(() => world.proxy.play(() => "pass"));
afterAll(() => world?.[Symbol.asyncDispose]());

// One engine serves several agents, and names of containers are its own.
const mark = randomBytes(3).toString("hex");
const ids = {
  processors: `few-${mark}`,
  memory: `none-${mark}`,
  stuck: `stuck-${mark}`,
  mute: `mute-${mark}`,
  portless: `portless-${mark}`,
  over: `over-${mark}`,
};
const small = { memoryMb: 128, cpuMillicores: 500, pidsLimit: 64 };

const give = (placementId: string, limits: Limits, generation: bigint, desired: Desired = Desired.RUNNING) =>
  world.control.assign({
    upserts: [
      {
        ...{ placementId, epoch: 1n, desired, specHash: "h", projectId: "p1", channel: "production" },
        resources: { ...limits, generation },
        spec: {
          case: "serve",
          value: {
            image: { reference: world.image, maxSizeMb: 1_000 },
            port: 3000,
            health: { path: "/", timeoutSeconds: 60 },
            stopGraceSeconds: 1,
          },
        },
      },
    ],
  });
const isUp = ({ observed, health }: PlacementStatus) => observed === Observed.RUNNING && health === HealthState.HEALTHY;
const upAgain = (placementId: string, restarts: number) =>
  world.control.status(placementId, (status) => isUp(status) && status.restartSeq === restarts);

async function remove(placementId: string): Promise<void> {
  await give(placementId, small, 0n, Desired.REMOVED);
  await world.control.status(placementId, ({ observed }) => observed === Observed.REMOVED, 60_000);
}

async function crash(placementId: string): Promise<void> {
  const { upstream } = world.control.statuses.get(placementId) ?? { upstream: "" };
  await fetch(`http://${upstream}/crash`).catch(() => {});
}

/** One site at a time gets other limits here. */
const updates = () => world.proxy.count("POST", /^\/containers\/\w+\/update$/);

/** How long it takes from `begin` until the calls that `count` counts have become so many more. */
async function timeOf(calls: number, count: () => number, begin: () => Promise<void>): Promise<number> {
  const before = count();
  const startedMs = performance.now();
  await begin();
  await waitFor(`${calls} calls`, () => count() >= before + calls);
  return performance.now() - startedMs;
}

test("a site that is to have more processors than its machine keeps what it has, also through a crash and in a new container", async () => {
  await give(ids.processors, small, 0n);
  await upAgain(ids.processors, 0);
  const before = updates();
  const large = { ...small, memoryMb: 192, cpuMillicores: (cpus().length + 2) * 1_000 };
  await give(ids.processors, large, 1n);
  const refused = await world.control.status(ids.processors, ({ resources }) => resources?.generation === 1n);
  expect(refused.resources).toMatchObject(small);
  expect(refused.resourcesProblem).toBe("the container engine refused them");

  await crash(ids.processors);
  await upAgain(ids.processors, 1);
  expect(updates() - before).toBeLessThanOrEqual(3);

  // A new container is refused these limits, too.
  await world.node.engine.removeContainer(containerName(ids.processors));
  const after = await upAgain(ids.processors, 2);
  expect(after.resources).toMatchObject({ ...small, generation: 1n });
  expect(after.resourcesProblem).toBe("the container engine refused them");
  expect(updates() - before).toBeLessThanOrEqual(5);

  await give(ids.processors, { ...small, memoryMb: 192 }, 2n);
  const given = await world.control.status(ids.processors, ({ resources }) => resources?.generation === 2n);
  expect(given.resources).toMatchObject({ ...small, memoryMb: 192 });
  expect(given.resourcesProblem).toBe("");
  await remove(ids.processors);
});

test("a site starts, and starts again, on a machine whose engine takes limits of memory and drops them", async () => {
  const without = (body: unknown) => ({ ...Object(body), Memory: 0, MemorySwap: 0 });
  world.proxy.play(({ method, path }) => {
    if (method !== "POST") return "pass";
    if (path === "/containers/create") {
      return { rewrite: (body) => ({ ...Object(body), HostConfig: without(Object(body).HostConfig) }) };
    }
    return path.endsWith("/update") ? { rewrite: without } : "pass";
  });
  const before = updates();
  await give(ids.memory, small, 1n);
  const up = await upAgain(ids.memory, 0);
  expect(up.resources).toMatchObject({ ...small, memoryMb: 0, generation: 1n });
  expect(up.resourcesProblem).toBe("the container engine took them, but did not apply that of memory");
  expect(updates() - before).toBe(1);

  await crash(ids.memory);
  const again = await upAgain(ids.memory, 1);
  expect(again.resourcesProblem).toBe(up.resourcesProblem);
  expect(updates() - before).toBeLessThanOrEqual(3);
  expect(Number(again.statusSeq)).toBeLessThan(20);
  await remove(ids.memory);
});

test("a container that cannot be removed is tried again less and less often, and replaced in the end", async () => {
  await give(ids.stuck, small, 0n);
  await upAgain(ids.stuck, 0);
  world.proxy.play(({ method }) => (method === "DELETE" ? { answer: 409 } : "pass"));
  await new Docker({ socketPath: world.node.config.dockerSocket }).getContainer(containerName(ids.stuck)).pause();
  const removals = () => world.proxy.count("DELETE", /^\/containers\//);
  const before = removals();
  // Asked for the same again, it looks. It may have looked by itself just before, as it does every half minute.
  await give(ids.stuck, small, 0n);
  let last = { calls: before, atMs: performance.now() };
  await waitFor("a pause between two tries", () => {
    const [calls, nowMs] = [removals(), performance.now()];
    if (calls !== last.calls) last = { calls, atMs: nowMs };
    return calls > before && nowMs - last.atMs > 1_500;
  });
  expect(removals() - before).toBeLessThanOrEqual(20);
  world.proxy.play(() => "pass");
  await upAgain(ids.stuck, 1);
  await remove(ids.stuck);
});

test("a new site whose containers are made and never start fails after a few of them", async () => {
  const message = "driver failed: port is already allocated";
  world.proxy.play(({ path }) => (path.endsWith("/start") ? { answer: 500, message } : "pass"));
  const before = world.proxy.count("POST", /^\/containers\/create$/);
  await give(ids.portless, small, 0n);
  const { failure } = await world.control.status(ids.portless, ({ observed }) => observed === Observed.FAILED);
  expect(failure?.message).toBe("The container's port or network was not available.");
  expect(world.proxy.count("POST", /^\/containers\/create$/) - before).toBe(3);
  await remove(ids.portless);
});

test("an engine that cannot tell of a container is asked less and less often, and changes nothing of it", async () => {
  await give(ids.mute, small, 0n);
  await upAgain(ids.mute, 0);
  await give(ids.over, small, 0n, Desired.STOPPED);
  const stopped = await world.control.status(ids.over, ({ observed }) => observed === Observed.STOPPED);
  const looks = (placementId: string) =>
    world.proxy.count("GET", new RegExp(`/containers/${containerName(placementId)}/json`));
  world.proxy.play(({ method, path }) => (method === "GET" && path.endsWith("/json") ? { answer: 500 } : "pass"));
  const times = await Promise.all([
    timeOf(
      3,
      () => looks(ids.mute),
      () => give(ids.mute, small, 0n),
    ),
    timeOf(
      3,
      () => looks(ids.over),
      () => give(ids.over, small, 0n, Desired.STOPPED),
    ),
  ]);
  for (const timeMs of times) expect(timeMs).toBeGreaterThan(1_500);
  world.proxy.play(() => "pass");
  await give(ids.mute, { ...small, memoryMb: 192 }, 1n);
  const up = await world.control.status(ids.mute, ({ resources }) => resources?.memoryMb === 192);
  expect([isUp(up), up.restartSeq, up.failure]).toEqual([true, 0, undefined]);
  expect(world.control.statuses.get(ids.over)).toMatchObject({
    observed: Observed.STOPPED,
    statusSeq: stopped.statusSeq,
  });
  await remove(ids.mute);
  await remove(ids.over);
});
