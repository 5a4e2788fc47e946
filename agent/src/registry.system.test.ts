import { Code, ConnectError } from "@connectrpc/connect";
import { Desired, HealthState, type IssueRegistryTokenRequest, Observed, type PlacementStatus } from "@svc/proto/node";
import { createTokenSigner, type IssuedToken, type TokenSigner } from "@svc/registry";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { aTokenKey } from "../../registry/src/testing/token-key.ts";
import { type Agent, start } from "./start.ts";
import { createTestNode, type TestNode } from "./testing/agent.ts";
import { BASE_IMAGE } from "./testing/builds.ts";
import { createTestControl, type TestControl } from "./testing/control.ts";
import { startRegistry, type TestRegistry } from "./testing/registry.ts";
import { packSource, pushSource } from "./testing/source.ts";

const server = `require("node:http").createServer((_, reply) => reply.end("hello")).listen(process.env.PORT, "0.0.0.0");`;

let registry: TestRegistry;
let sign: TokenSigner;
let node: TestNode;
let control: TestControl;
let agent: Agent;
/** What control says before it gives a token. */
let refusals: Code[];

/** As control would: a token for exactly what was asked. */
function issue({ repository, push }: IssueRegistryTokenRequest): IssuedToken {
  const refusal = refusals.shift();
  if (refusal !== undefined) throw new ConnectError("not now", refusal);
  const actions = push ? (["pull", "push"] as const) : (["pull"] as const);
  return sign("node/test", [{ type: "repository", name: repository, actions }], new Date());
}

beforeAll(async () => {
  const key = await aTokenKey();
  sign = createTokenSigner(key, new Date());
  registry = await startRegistry({ tokenCertificate: key.certificate });
  node = await createTestNode();
  control = createTestControl({ registryHost: registry.host, issue });
  agent = await start(node.config, { openLink: control.openLink });
  await agent.ready;
});
afterAll(async () => {
  await agent?.[Symbol.asyncDispose]();
  await node?.[Symbol.asyncDispose]();
  await registry?.[Symbol.asyncDispose]();
});
beforeEach(() => {
  refusals = [];
  control.tokensAsked.length = 0;
});

/** What was asked for, each once: "<work> <repository> <for what>". */
const asked = () => [
  ...new Set(
    control.tokensAsked.map(({ workId, repository, push }) => `${workId} ${repository} ${push ? "push" : "pull"}`),
  ),
];
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
    ...{ baseImage: BASE_IMAGE, timeoutSeconds: 120, maxImageMb: 1_000, maxUnpackedMb: 50 },
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
  expect(asked().sort()).toEqual(["build-1 svc/p1/app pull", "build-1 svc/p1/app push", "build-1 svc/p1/source pull"]);
  control.tokensAsked.length = 0;
  expect(await serve("serve-1", reference)).toMatchObject({ health: HealthState.HEALTHY });
  expect(asked()).toEqual(["serve-1 svc/p1/app pull"]);
});

test("layers that another project pushed are pushed again, since nobody may mount them", async () => {
  await build("build-5", "p1");
  await build("build-6", "p2");
  expect(asked().filter((wish) => wish.startsWith("build-6"))).toEqual([
    "build-6 svc/p2/source pull",
    "build-6 svc/p2/app push",
    "build-6 svc/p2/app pull",
  ]);
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
