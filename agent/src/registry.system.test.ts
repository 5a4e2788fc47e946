import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { Code, ConnectError } from "@connectrpc/connect";
import { Desired, HealthState, type IssueRegistryTokenRequest, Observed, type PlacementStatus } from "@svc/proto/node";
import { type Access, createTokenSigner, type IssuedToken, type TokenSigner } from "@svc/registry";
import { systemRandom } from "@svc/runtime/system";
import Docker from "dockerode";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { type RegistryProcess, startDockerRegistry } from "../../registry/src/testing/docker-registry.ts";
import { aTokenKey } from "../../registry/src/testing/token-key.ts";
import { type Agent, start } from "./start.ts";
import { createTestNode, type TestNode } from "./testing/agent.ts";
import { baseImage } from "./testing/builds.ts";
import { createTestControl, type TestControl } from "./testing/control.ts";
import { removeImagesOf } from "./testing/registry.ts";
import { packSource, pushSource } from "./testing/source.ts";

const server = `require("node:http").createServer((_, reply) => reply.end("hello")).listen(process.env.PORT, "0.0.0.0");`;

let store: RegistryProcess;
let registry: Awaited<ReturnType<typeof startCounter>>;
let sign: TokenSigner;
let node: TestNode;
let control: TestControl;
let agent: Agent;
/** What control says before it gives a token. */
let refusals: Code[];

/** What was sent to the registry. */
let sentBytes = 0;

const may = (name: string, ...actions: Access["actions"]): Access => ({ type: "repository", name, actions });

/** As control would: a token for exactly what was asked. */
function issue({ repository, push, mountFrom }: IssueRegistryTokenRequest): IssuedToken {
  const refusal = refusals.shift();
  if (refusal !== undefined) throw new ConnectError("not now", refusal);
  const mounted = mountFrom === "" ? [] : [may(mountFrom, "pull")];
  const access = push ? [may(repository, "pull", "push"), ...mounted] : [may(repository, "pull")];
  return sign("node/test", access, new Date());
}

/** The registry on another port, which counts what is sent there. */
async function startCounter(to: number) {
  const server = createServer((socket) => {
    const behind = connect(to, "127.0.0.1");
    socket.on("data", (data) => {
      sentBytes += data.length;
    });
    socket.pipe(behind).pipe(socket);
    for (const [one, other] of [
      [socket, behind],
      [behind, socket],
    ] as const)
      one.on("error", () => other.destroy());
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  return {
    host: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    [Symbol.dispose]: () => void server.close(),
  };
}

beforeAll(async () => {
  const key = await aTokenKey();
  sign = createTokenSigner(systemRandom, key, new Date());
  store = await startDockerRegistry({ tokenCertificate: key.certificate });
  registry = await startCounter(Number(new URL(store.url).port));
  node = await createTestNode();
  await publishBase();
  control = createTestControl({ registryHost: registry.host, issue });
  agent = await start(node.config, { openLink: control.openLink });
  await agent.ready;
});
afterAll(async () => {
  await agent?.[Symbol.asyncDispose]();
  await node?.[Symbol.asyncDispose]();
  registry?.[Symbol.dispose]();
  await store?.[Symbol.asyncDispose]();
  await removeImagesOf(registry.host);
});
beforeEach(() => {
  refusals = [];
  control.tokensAsked.length = 0;
});

/** What was asked for, each once: "<work> <repository> <for what>". */
const asked = () =>
  new Set(
    control.tokensAsked.map(({ workId, repository, push, mountFrom }) =>
      [workId, repository, push ? "push" : "pull", ...(mountFrom === "" ? [] : ["with", mountFrom])].join(" "),
    ),
  );

/** The base image below `bases/`, as an operator puts it there. */
async function publishBase(): Promise<void> {
  const target = { repository: `${registry.host}/bases/node`, tag: "24-slim" };
  await new Docker().getImage(baseImage).tag({ repo: target.repository, tag: target.tag });
  const { token } = sign("operator", [may("bases/node", "pull", "push")], new Date());
  await node.engine.pushImage(target, { token }, new AbortController().signal);
}
const common = { epoch: 1n, desired: Desired.RUNNING, specHash: "h", projectId: "p1", channel: "production" };

/** Builds an image, and takes it off the node again: whoever wants it has to pull it. Returns its reference. */
async function build(placementId: string, projectId = "p1"): Promise<string> {
  // Each has an image of its own, which nothing else keeps on the node.
  const archive = await packSource({ "server.js": server, id: placementId });
  const sourceDigest = await pushSource(registry.host, `svc/${projectId}/source`, archive, async (access) =>
    sign("control", access, new Date()),
  );
  const value = {
    ...{ sourceRepository: `svc/${projectId}/source`, sourceDigest, targetRepository: `svc/${projectId}/app` },
    rootDirectory: ".",
    recipe: { case: "image" as const, value: { startCommand: "node server.js", port: 3000 } },
    ...{ baseImage: baseImage, timeoutSeconds: 120, maxImageMb: 1_000, maxUnpackedMb: 50 },
    cacheNamespace: `${node.owner.nodeId}-${placementId}`,
  };
  await control.assign({ upserts: [{ ...common, projectId, placementId, spec: { case: "build", value } }] });
  const status = await control.status(placementId, ({ observed }) => observed >= Observed.COMPLETED, 120_000);
  expect(status).toMatchObject({ observed: Observed.COMPLETED });
  const reference = `${registry.host}/svc/${projectId}/app@${status.build?.digest}`;
  const image = await node.engine.findImage(reference);
  for (const name of [...(image?.repoTags ?? []), reference]) await node.engine.removeImage(name);
  expect(await node.engine.findImage(reference)).toBeNull();
  return reference;
}

const served = (status: PlacementStatus) =>
  status.health === HealthState.HEALTHY || status.observed >= Observed.COMPLETED;

async function serve(placementId: string, reference: string): Promise<PlacementStatus> {
  const value = {
    image: { reference, maxSizeMb: 1_000 },
    ...{ command: [], env: { PORT: "3000" }, port: 3000, health: { path: "/", timeoutSeconds: 30 } },
    stopGraceSeconds: 1,
  };
  const resources = { memoryMb: 128, cpuMillicores: 500, pidsLimit: 128, generation: 1n };
  await control.assign({ upserts: [{ ...common, placementId, resources, spec: { case: "serve", value } }] });
  return control.status(placementId, served, 60_000);
}

test("an image is built, pushed and pulled with a token for each repository, of the placement that needs it", async () => {
  const reference = await build("build-1");
  expect(asked()).toEqual(
    new Set([
      "build-1 svc/p1/source pull",
      "build-1 bases/node pull",
      "build-1 svc/p1/app pull",
      "build-1 svc/p1/app push with bases/node",
      "build-1 svc/p1/app push",
    ]),
  );
  control.tokensAsked.length = 0;
  expect(await serve("serve-1", reference)).toMatchObject({ health: HealthState.HEALTHY });
  expect(asked()).toEqual(new Set(["serve-1 svc/p1/app pull"]));
});

test("a base image is in the registry once: a project's first build sends what is its own", async () => {
  const before = sentBytes;
  await build("build-first", "p-new");
  expect(sentBytes - before).toBeLessThan(10_000_000);
  expect(asked()).toContain("build-first svc/p-new/app push with bases/node");
});

test("while control is away what needs a token waits, and goes on when it is back", async () => {
  // More often than a placement is tried that has not run yet.
  const away = () => Array.from({ length: 5 }, () => Code.Unavailable);
  refusals = away();
  const reference = await build("build-2");
  refusals = away();
  expect(await serve("serve-2", reference)).toMatchObject({ health: HealthState.HEALTHY });
});

test("what control refuses is tried again, and is the platform's failure when it stays so", async () => {
  const reference = await build("build-3");
  refusals = [Code.PermissionDenied];
  expect(await serve("serve-3", reference)).toMatchObject({ health: HealthState.HEALTHY });
  const other = await build("build-4");
  refusals = Array.from({ length: 100 }, () => Code.PermissionDenied);
  const { failure, observed } = await serve("serve-4", other);
  expect(observed).toBe(Observed.FAILED);
  expect(failure).toMatchObject({ code: "ARTIFACT_REGISTRY_UNAVAILABLE", message: expect.stringMatching(/platform/i) });
});
