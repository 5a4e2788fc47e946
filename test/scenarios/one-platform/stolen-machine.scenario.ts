import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { EdgeService } from "@svc/proto/edge";
import { NodeService } from "@svc/proto/node";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { createEndpoints, createTransport, type Identity, loadIdentity } from "@svc/uplink";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Cluster, startCluster } from "../../cluster.ts";
import { type Deployed, deploy } from "../../support/deploy.ts";

// What whoever has copied the files of a machine of the fleet can do with the artifact registry, and what not.

let cluster: Cluster;
let app: Deployed;
let site: Deployed;
beforeAll(async () => {
  cluster = await startCluster({ agents: 1 });
  app = await deploy(cluster, await cluster.exampleDir("ssr"));
  site = await deploy(cluster, await cluster.exampleDir("static"));
});
afterAll(() => cluster?.[Symbol.asyncDispose]());

/** The identity that a daemon keeps in its directory. */
async function stolen(dir: string): Promise<Identity> {
  const identity = await loadIdentity(dir);
  if (identity === null) throw new Error(`there is no identity in ${dir}`);
  return identity;
}

/** Calls control as that machine. The code of its refusal, or what it answers. */
async function ask<T>(
  identity: Identity,
  call: (link: ReturnType<typeof createTransport>["transport"]) => Promise<T>,
): Promise<T | Code> {
  const link = createTransport(
    systemClock,
    identity,
    createEndpoints([`https://127.0.0.1:${cluster.platform.ports.link}`], systemRandom),
  );
  try {
    return await call(link.transport);
  } catch (error) {
    return ConnectError.from(error).code;
  } finally {
    link.close();
  }
}

/** What the registry answers to the holder of a token, or to nobody. */
async function status(method: string, path: string, token: string | null): Promise<number> {
  const headers = token === null ? {} : { authorization: `Bearer ${token}` };
  const reply = await fetch(`http://${cluster.platform.registry.host}${path}`, { method, headers });
  await reply.arrayBuffer();
  return reply.status;
}

/** Where nothing is: whoever may look is told so. */
const manifestIn = (repository: string) => `/v2/${repository}/manifests/sha256:${"0".repeat(64)}`;
/** What is open to nobody. */
async function expectShut(token: string | null): Promise<void> {
  expect(await status("GET", "/v2/_catalog", token)).toBe(401);
  for (const repository of [`svc/${site.project.id}/source`, `svc/${app.project.id}/source`, "examples/tide-clock"]) {
    expect(await status("GET", manifestIn(repository), token)).toBe(401);
    expect(await status("POST", `/v2/${repository}/blobs/uploads/`, token)).toBe(401);
  }
}

test("without a token the registry is shut", async () => {
  expect(await status("GET", "/v2/", null)).toBe(401);
  await expectShut(null);
});

describe("the identity of a node", () => {
  const tokenOf = async (workId: string, repository: string, push = false) =>
    ask(await stolen(cluster.platform.layout.agent(1)), async (link) => {
      const { token } = await createClient(NodeService, link).issueRegistryToken({ workId, repository, push });
      return token;
    });

  test("reads the image that the node runs, and nothing else, as long as it runs it", async () => {
    const own = `svc/${app.project.id}/app`;
    const [container] = await cluster.containers();
    const workId = container?.labels["svc.placement"] ?? "";
    const token = await tokenOf(workId, own);
    if (typeof token !== "string") throw new Error(`refused with ${token}`);
    expect(await status("GET", manifestIn(own), token)).toBe(404);
    expect(await status("POST", `/v2/${own}/blobs/uploads/`, token)).toBe(401);
    expect(await status("DELETE", manifestIn(own), token)).toBe(401);
    await expectShut(token);

    expect(await tokenOf(workId, own, true)).toBe(Code.PermissionDenied);
    for (const repository of [`svc/${app.project.id}/source`, `svc/${site.project.id}/bundle`, "bases/local", ""])
      expect(await tokenOf(workId, repository)).toBe(Code.PermissionDenied);

    const stopped = await cluster.cli(["stop", "--json", "--project", app.slug]);
    expect(stopped.exitCode).toBe(0);
    await expect.poll(() => tokenOf(workId, own), { timeout: 60_000 }).toBe(Code.PermissionDenied);
  });
});

describe("the identity of an edge", () => {
  const tokenOf = async (repository: string) =>
    ask(await stolen(`${cluster.platform.layout.router}/identity`), async (link) => {
      const { token } = await createClient(EdgeService, link).issueRegistryToken({ repository });
      return token;
    });

  test("reads the bundles that the edge serves, and nothing else", async () => {
    const own = `svc/${site.project.id}/bundle`;
    const token = await tokenOf(own);
    if (typeof token !== "string") throw new Error(`refused with ${token}`);
    expect(await status("GET", manifestIn(own), token)).toBe(404);
    expect(await status("POST", `/v2/${own}/blobs/uploads/`, token)).toBe(401);
    await expectShut(token);
    for (const repository of [`svc/${site.project.id}/source`, `svc/${app.project.id}/app`, "bases/local"])
      expect(await tokenOf(repository)).toBe(Code.PermissionDenied);
  });
});
