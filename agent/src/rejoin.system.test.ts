import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Desired, HealthState } from "@svc/proto/node";
import { loadIdentity } from "@svc/uplink";
import { afterAll, beforeAll, expect, test } from "vitest";
import { containerName } from "./placements/names.ts";
import { IdentityReplacedError } from "./rejoin.ts";
import { type Agent, start } from "./start.ts";
import { createTestNode, type TestNode } from "./testing/agent.ts";
import { pushApp } from "./testing/apps.ts";
import { createTestControl, type TestControl } from "./testing/control.ts";
import { startRegistry } from "./testing/registry.ts";
import { waitFor } from "./testing/wait.ts";

/** One that is over for years; nothing but its dates is looked at. */
const overCertificate = `-----BEGIN CERTIFICATE-----
MIIBDzCBtaADAgECAgEBMAoGCCqGSM49BAMCMA8xDTALBgNVBAMTBHRlc3QwHhcN
MjAwMTAxMDAwMDAwWhcNMjAwMTMxMDAwMDAwWjAPMQ0wCwYDVQQDEwR0ZXN0MFkw
EwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEeKSerT6gGh4AxjcFr305FPfTFn8NyhaJ
59k+axdhzz8EVW8W4oYWJUoJIbEq6pjtRrHZcQ0ytH+cSQs0V85zVKMCMAAwCgYI
KoZIzj0EAwIDSQAwRgIhAJwNq4kiMSxgy7ZFb3izwreBG4RsAiIhkF2NAiTRsfOH
AiEAikoyaT+09YSge06LC+xzKRDFus7EiSUs5VOIbuNYIrs=
-----END CERTIFICATE-----
`;
const app = 'require("node:http").createServer((_, reply) => reply.end("hello")).listen(3000);';

let registry: Awaited<ReturnType<typeof startRegistry>>;
let node: TestNode;
let control: TestControl;
let agent: Agent;
beforeAll(async () => {
  registry = await startRegistry();
  node = await createTestNode({ SVC_AGENT_ADDRESS: "127.0.9.6" });
  control = createTestControl({ registryHost: registry.host });
}, 120_000);
afterAll(async () => {
  await agent?.[Symbol.asyncDispose]();
  await node?.[Symbol.asyncDispose]();
  await registry?.[Symbol.asyncDispose]();
});

/** The node's certificate is over, and it has joined anew with another token when it was killed. */
async function killedAfterJoining(): Promise<void> {
  const { dir } = node.config;
  const file = join(dir, "identity.json");
  const identity = JSON.parse(await readFile(file, "utf8"));
  await mkdir(join(dir, "next"));
  await writeFile(join(dir, "next", "identity.json"), JSON.stringify({ ...identity, id: "another" }));
  await writeFile(file, JSON.stringify({ ...identity, certificatePem: overCertificate }));
}

test("what a node runs goes on under its old identity until control says that the node is gone", async () => {
  await killedAfterJoining();
  agent = await start(node.config, { openLink: control.openLink });
  await agent.ready;
  const reference = await pushApp(node.engine, registry.host, app);
  await control.assign({
    upserts: [
      {
        ...{ placementId: "a", epoch: 1n, desired: Desired.RUNNING, specHash: "h", projectId: "p1" },
        channel: "production",
        resources: { memoryMb: 64, cpuMillicores: 1_000, pidsLimit: 64 },
        spec: {
          case: "serve",
          value: {
            image: { reference, maxSizeMb: 1_000 },
            env: {},
            port: 3000,
            health: { path: "/", timeoutSeconds: 30 },
            stopGraceSeconds: 1,
          },
        },
      },
    ],
  });
  const { upstream } = await control.status("a", ({ health }) => health === HealthState.HEALTHY, 60_000);
  // Asked twice, and both times the node was still counted on.
  await waitFor("control to be asked again", () => control.goneNodesAsked.length >= 2);
  expect(new Set(control.goneNodesAsked.flat())).toEqual(new Set([node.owner.nodeId]));
  expect(await (await fetch(`http://${upstream}/`)).text()).toBe("hello");
  expect((await loadIdentity(node.config.dir))?.id).toBe(node.owner.nodeId);

  control.goneNodes.add(node.owner.nodeId);
  expect(await agent.ended).toBeInstanceOf(IdentityReplacedError);
  expect((await node.engine.listContainers()).map(({ name }) => name)).not.toContain(containerName("a"));
  expect((await loadIdentity(node.config.dir))?.id).toBe("another");
  expect(await readdir(node.config.dir)).not.toContain("next");
  await agent[Symbol.asyncDispose]();

  agent = await start(node.config, { openLink: control.openLink });
  expect(await agent.ready).toBe("another");
}, 120_000);
