import { request } from "node:http";
import { Desired, HealthState, Observed, type PlacementStatus } from "@svc/proto/node";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Container, Limits } from "../engine/engine.ts";
import { createTestNode, type TestNode } from "../testing/agent.ts";
import { pushApp } from "../testing/apps.ts";
import { createTestControl, type TestControl } from "../testing/control.ts";
import { groupLimits } from "../testing/group-limits.ts";
import { createKillableAgent, type KillableAgent } from "../testing/killable.ts";
import { startRegistry } from "../testing/registry.ts";
import { waitFor } from "../testing/wait.ts";
import { containerName } from "./names.ts";

// Containers that run get other limits: a real agent process, a real engine, and what the kernel says.

/** Fills memory on /fill?<MB>, and crashes on /crash. */
const app = `
const kept = [];
require("node:http").createServer((request, reply) => {
  const [path, size] = request.url.split("?");
  if (path === "/crash") process.exit(1);
  if (path === "/fill") kept.push(Buffer.alloc(Number(size) * 1024 * 1024, 1));
  reply.end("ok");
}).listen(3000);
`;

let registry: Awaited<ReturnType<typeof startRegistry>>;
let node: TestNode;
let control: TestControl;
let agent: KillableAgent;
let image = "";
beforeAll(async () => {
  registry = await startRegistry();
  node = await createTestNode({ SVC_AGENT_ADDRESS: "127.0.9.5", SVC_AGENT_SUBNETS: "10.214.80.0/22" });
  control = createTestControl({ registryHost: registry.host });
  agent = await createKillableAgent(node, control);
  await agent.start();
  image = await pushApp(node.engine, registry.host, app);
}, 120_000);
afterAll(async () => {
  await agent?.[Symbol.asyncDispose]();
  const built = image === "" ? null : await node.engine.findImage(image);
  await node?.[Symbol.asyncDispose]();
  if (built) await node.engine.removeImage(built.id);
  await registry?.[Symbol.asyncDispose]();
});

const small = { memoryMb: 128, cpuMillicores: 500, pidsLimit: 64 };
const large = { memoryMb: 320, cpuMillicores: 1_500, pidsLimit: 128 };

const aSite = (placementId: string, limits: Limits, generation: bigint, desired: Desired = Desired.RUNNING) => ({
  placementId,
  epoch: 1n,
  desired,
  specHash: "h",
  projectId: "p1",
  channel: "production",
  resources: { ...limits, generation },
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
const give = (placementId: string, limits: Limits, generation: bigint) =>
  control.assign({ upserts: [aSite(placementId, limits, generation)] });
const isUp = ({ observed, health }: PlacementStatus) => observed === Observed.RUNNING && health === HealthState.HEALTHY;
const has =
  (limits: Limits, generation: bigint) =>
  ({ resources, resourcesProblem }: PlacementStatus) =>
    resources?.generation === generation &&
    resources.memoryMb === limits.memoryMb &&
    resources.cpuMillicores === limits.cpuMillicores &&
    resources.pidsLimit === limits.pidsLimit &&
    resourcesProblem === "";

async function containerOf(placementId: string): Promise<Container> {
  const found = await node.engine.findContainer(containerName(placementId));
  if (found === null) throw new Error(`${placementId} has no container`);
  return found;
}

/** A site that serves with `small` limits, of generation 0. */
async function serve(placementId: string): Promise<Container> {
  await give(placementId, small, 0n);
  await control.status(placementId, (status) => isUp(status) && has(small, 0n)(status));
  return containerOf(placementId);
}

async function remove(placementId: string): Promise<void> {
  await control.assign({ upserts: [aSite(placementId, small, 0n, Desired.REMOVED)] });
  await control.status(placementId, ({ observed }) => observed === Observed.REMOVED);
  await control.assign({ removes: [{ placementId, epoch: 1n }] });
}

const get = (upstream: string, path: string): Promise<void> =>
  new Promise((resolve, reject) => {
    request(`http://${upstream}${path}`, { agent: false }, (reply) => reply.resume().on("end", resolve))
      .on("error", reject)
      .end();
  });

test("a site gets more, and less again, and never restarts; what comes late changes nothing", async () => {
  const before = await serve("site-1");
  await give("site-1", large, 2n);
  await control.status("site-1", has(large, 2n));
  const { id, pid, startedAt } = before;
  expect(await containerOf("site-1")).toMatchObject({ id, pid, startedAt, limits: large });
  expect(await groupLimits(pid ?? 0)).toEqual(large);

  await give("site-1", small, 1n);
  // Long enough for it to be acted on, if it were.
  await serve("site-0");
  await remove("site-0");
  expect(await groupLimits(pid ?? 0)).toEqual(large);
  await give("site-1", { ...small, pidsLimit: 80 }, 3n);
  await control.status("site-1", has({ ...small, pidsLimit: 80 }, 3n));
  expect(await containerOf("site-1")).toMatchObject({ id, pid, startedAt });
  expect(await groupLimits(pid ?? 0)).toEqual({ ...small, pidsLimit: 80 });
  const status = control.statuses.get("site-1");
  expect([status?.restartSeq, status && isUp(status)]).toEqual([0, true]);
  await remove("site-1");
});

test("a site that uses more memory than it is to have keeps what it has, says so, and gets it with its next start", async () => {
  const before = await serve("site-2");
  await give("site-2", large, 1n);
  await control.status("site-2", has(large, 1n));
  const upstream = before.upstream ?? "";
  await get(upstream, "/fill?200");

  await give("site-2", small, 2n);
  const refused = await control.status("site-2", ({ resources }) => resources?.generation === 2n);
  expect(refused.resources).toMatchObject(large);
  expect(refused.resourcesProblem).toMatch(/^the app uses \d+ MiB of memory, too much for a limit of 128 MiB$/);
  await get(upstream, "/");
  expect(await containerOf("site-2")).toMatchObject({ id: before.id, pid: before.pid, limits: large });

  await get(upstream, "/crash").catch(() => {});
  await control.status("site-2", (status) => isUp(status) && status.restartSeq === 1 && has(small, 2n)(status));
  const after = await containerOf("site-2");
  expect([after.id, await groupLimits(after.pid ?? 0)]).toEqual([before.id, small]);
  await remove("site-2");
});

test("a container that is made anew has the newest limits", async () => {
  await serve("site-3");
  await give("site-3", large, 1n);
  await control.status("site-3", has(large, 1n));
  await node.engine.removeContainer(containerName("site-3"));
  await control.status("site-3", (status) => isUp(status) && status.restartSeq === 1);
  expect(await groupLimits((await containerOf("site-3")).pid ?? 0)).toEqual(large);
  await remove("site-3");
});

test("wherever the agent is killed, its containers end up with what was asked for last, and control knows", async () => {
  const before = await serve("site-4");
  let generation = 0n;
  for (const delayMs of [0, 10, 40]) {
    for (const limits of [large, small]) {
      generation += 1n;
      await give("site-4", limits, generation);
      await new Promise((resolve) => setTimeout(resolve, delayMs));
      await agent.kill();
      await agent.start();
      await control.status("site-4", has(limits, generation));
      await waitFor("the kernel", async () => {
        const { memoryMb } = await groupLimits(before.pid ?? 0);
        return memoryMb === limits.memoryMb;
      });
    }
  }
  expect(await containerOf("site-4")).toMatchObject({ id: before.id, pid: before.pid, startedAt: before.startedAt });
  await remove("site-4");
}, 120_000);
