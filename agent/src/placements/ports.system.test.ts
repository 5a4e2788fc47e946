import { createServer } from "node:net";
import { Desired, HealthState, Observed } from "@svc/proto/node";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Agent, start } from "../start.ts";
import { createTestNode, type TestNode } from "../testing/agent.ts";
import { pushApp } from "../testing/apps.ts";
import { createTestControl, type TestControl } from "../testing/control.ts";
import { startRegistry } from "../testing/registry.ts";
import { waitFor } from "../testing/wait.ts";
import { containerName } from "./names.ts";

// A node with as many ports as sites: whoever lets go of one for a moment loses it.

const app = 'require("node:http").createServer((_, reply) => reply.end(process.env.NAME)).listen(3000);';

let registry: Awaited<ReturnType<typeof startRegistry>>;
let node: TestNode;
let control: TestControl;
let agent: Agent;
let image = "";
beforeAll(async () => {
  registry = await startRegistry();
  node = await createTestNode({ SVC_AGENT_ADDRESS: "127.0.9.4", SVC_AGENT_PORTS: "23000-23001" });
  control = createTestControl({ registryHost: registry.host });
  agent = await start(node.config, { openLink: control.openLink });
  await agent.ready;
  image = await pushApp(node.engine, registry.host, app);
}, 120_000);
afterAll(async () => {
  await agent?.[Symbol.asyncDispose]();
  await node?.[Symbol.asyncDispose]();
  await registry?.[Symbol.asyncDispose]();
});

const assign = (placementId: string, desired: Desired) =>
  control.assign({
    upserts: [
      {
        ...{ placementId, epoch: 1n, desired, specHash: "h", projectId: placementId, channel: "production" },
        resources: { memoryMb: 64, cpuMillicores: 1_000, pidsLimit: 64 },
        spec: {
          case: "serve",
          value: {
            image: { reference: image, maxSizeMb: 1_000 },
            env: { NAME: placementId },
            port: 3000,
            health: { path: "/", timeoutSeconds: 30 },
            stopGraceSeconds: 1,
          },
        },
      },
    ],
  });

async function remove(placementId: string): Promise<void> {
  await assign(placementId, Desired.REMOVED);
  await control.status(placementId, ({ observed }) => observed === Observed.REMOVED);
}

/** The upstream of a placement that was started again so many times. */
async function upstreamOf(placementId: string, restarts = 0): Promise<string> {
  const { upstream } = await control.status(
    placementId,
    ({ health, restartSeq }) => health === HealthState.HEALTHY && restartSeq === restarts,
    60_000,
  );
  return upstream;
}

const nameAt = async (upstream: string): Promise<string> => (await fetch(`http://${upstream}/`)).text();

test("a port stays with its placement until that is removed, whatever happens to the container", async () => {
  await assign("a", Desired.RUNNING);
  await assign("b", Desired.RUNNING);
  const upstreams = { a: await upstreamOf("a"), b: await upstreamOf("b") };
  expect(upstreams.a).not.toBe(upstreams.b);

  // Nobody else finds a port, although those of `a` and `b` are free for a moment after each blow. Whoever looks for
  // one gives up after some seconds, so there is another for each.
  await assign("c", Desired.RUNNING);
  const refused = await control.status("c", ({ observed }) => observed === Observed.FAILED, 60_000);
  expect(refused.failure).toMatchObject({ code: "NODE_CAPACITY_UNAVAILABLE" });
  await assign("d", Desired.RUNNING);
  await node.engine.removeContainer(containerName("a"));
  await node.engine.killContainer(containerName("b"), "SIGKILL");
  expect(await upstreamOf("a", 1)).toBe(upstreams.a);
  expect(await upstreamOf("b", 1)).toBe(upstreams.b);
  expect([await nameAt(upstreams.a), await nameAt(upstreams.b)]).toEqual(["a", "b"]);

  // As after a restart of the machine: the agent comes up and finds nothing but its journal.
  await assign("e", Desired.RUNNING);
  await agent[Symbol.asyncDispose]();
  for (const name of ["b", "a"]) await node.engine.removeContainer(containerName(name));
  control.statuses.clear();
  agent = await start(node.config, { openLink: control.openLink });
  await agent.ready;
  expect([await upstreamOf("a", 2), await upstreamOf("b", 2)]).toEqual([upstreams.a, upstreams.b]);
  expect([await nameAt(upstreams.a), await nameAt(upstreams.b)]).toEqual(["a", "b"]);

  for (const id of ["d", "e", "a"]) await remove(id);
  await assign("f", Desired.RUNNING);
  expect(await upstreamOf("f")).toBe(upstreams.a);
});

test("a port that somebody else on the machine took is given up, in the end", async () => {
  const before = await upstreamOf("b", 2);
  await remove("f");
  const [host = "", port = ""] = before.split(":");
  await agent[Symbol.asyncDispose]();
  await node.engine.removeContainer(containerName("b"));
  const squatter = createServer((socket) => socket.destroy());
  await waitFor(
    "the port",
    () =>
      new Promise<boolean>((resolve) => {
        squatter.once("error", () => resolve(false));
        squatter.listen(Number(port), host, () => resolve(true));
      }),
  );
  agent = await start(node.config, { openLink: control.openLink });
  const after = await upstreamOf("b", 3);
  expect(after).not.toBe(before);
  expect(await nameAt(after)).toBe("b");
  squatter.close();
});
