import { randomBytes, randomUUID } from "node:crypto";
import { create, toJsonString } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { RouteSchema } from "@svc/proto/edge";
import type { TaskKind } from "@svc/proto/kinds";
import { createRegistry, createTokenSigner, type Registry, type TokenSigner } from "@svc/registry";
import { systemClock, systemRandom } from "@svc/runtime/system";
import pino from "pino";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type RegistryProcess, startDockerRegistry } from "../../../../registry/src/testing/docker-registry.ts";
import { aTokenKey } from "../../../../registry/src/testing/token-key.ts";
import { type TestApi, testApi } from "../../http/testing.ts";
import { repositories } from "../artifacts/repositories.ts";
import { keys } from "../cluster/keys.ts";
import type { Link } from "../daemons/start.ts";
import { aDaemon, asNode, aWorld, connect, type DaemonFiles, until, type World } from "../daemons/testing.ts";
import { createRegistryTokens } from "./issue.ts";

let api: TestApi;
let world: World;
let server: RegistryProcess;
let sign: TokenSigner;
/** Control's own client. */
let own: Registry;
let link: Link;
/** Whose certificate and key somebody has stolen. */
let node: DaemonFiles;
let neighbour: DaemonFiles;
let edge: DaemonFiles;

beforeAll(async () => {
  [api, world] = await Promise.all([testApi(), aWorld()]);
  const key = await aTokenKey();
  server = await startDockerRegistry({ tokenCertificate: key.certificate });
  sign = createTokenSigner(systemRandom, key, new Date());
  own = createRegistry(systemClock, { url: server.url, tokens: async (access) => sign("control", access, new Date()) });
  const { etcd } = world;
  const log = pino({ level: "silent" });
  link = await world.startLink({
    registryTokens: createRegistryTokens({ clock: systemClock, db: api.db, etcd, sign, log }),
  });
  [node, neighbour, edge] = [
    await aDaemon(world, link, "node"),
    await aDaemon(world, link, "node"),
    await aDaemon(world, link, "edge"),
  ];
});
afterAll(async () => {
  await link[Symbol.asyncDispose]();
  await own.close();
  await server[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
  await api[Symbol.asyncDispose]();
});

interface App {
  projectId: string;
  deploymentId: string;
  source: string;
  image: string;
  bundle: string;
  /** Of something in each of the three. */
  digest: string;
}

/** A project that has something in each of its repositories. */
async function anApp(): Promise<App> {
  const project = await api.newProject(await api.newUser());
  const [source, image, bundle] = [
    repositories.source(project.id),
    repositories.image(project.id),
    repositories.bundle(project.id),
  ];
  const content = randomBytes(200);
  const pushed = [];
  for (const repository of [source, image, bundle])
    pushed.push(await own.pushArtifact(repository, { kind: "source", stream: content }));
  const digest = pushed[0]?.digest ?? "";
  const deployment = await api.newDeployment(project, {
    status: "deploying",
    artifact_repository: image,
    artifact_digest: digest,
  });
  return { projectId: project.id, deploymentId: deployment.id, source, image, bundle, digest };
}

async function aTask(app: App, kind: TaskKind): Promise<string> {
  const deployment = await api.db
    .selectFrom("deployment")
    .selectAll()
    .where("id", "=", app.deploymentId)
    .executeTakeFirstOrThrow();
  const { id } = await api.newTask(deployment, { kind });
  const build = {
    ...{ kind, sourceRepository: app.source, sourceDigest: app.digest, targetRepository: app.image },
    ...{ rootDirectory: ".", recipe: { static: { command: "", output: "." } }, timeoutSeconds: 900 },
    ...{ maxImageMb: 100, maxUnpackedMb: 100, cacheNamespace: app.projectId },
  };
  const serve = {
    ...{ kind, repository: app.image, digest: app.digest, registryHost: null, command: [], port: 8080 },
    ...{ health: { path: "/", timeoutSeconds: 60 }, maxImageMb: 100 },
  };
  const spec = JSON.stringify(kind === "build" ? build : serve);
  await api.db.updateTable("task").set({ spec }).where("id", "=", id).execute();
  return id;
}

/** The registry as somebody sees it who asks control for every token with these files. */
const asThief = (files: DaemonFiles, workId: string): Registry =>
  createRegistry(systemClock, {
    url: server.url,
    async tokens([wanted]) {
      using connection = asNode(link, files);
      const push = wanted?.actions.some((action) => action !== "pull") ?? false;
      return await connection.node.issueRegistryToken({ workId, repository: wanted?.name ?? "", push });
    },
  });

/** What control says to a request of the node: the token's rights, or the code of its refusal. */
async function asked(files: DaemonFiles, workId: string, repository: string, push = false): Promise<unknown> {
  using connection = asNode(link, files);
  try {
    const { token, expiresInSeconds } = await connection.node.issueRegistryToken({ workId, repository, push });
    expect(expiresInSeconds).toBe(900);
    return JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString()).access;
  } catch (error) {
    return (error as { code: Code }).code;
  }
}
const pull = (name: string) => [{ type: "repository", name, actions: ["pull"] }];
const refused = { code: "ARTIFACT_REGISTRY_UNAVAILABLE", cause: { code: Code.PermissionDenied } };

describe("whoever has the identity of a node", () => {
  test("reads the image that the node serves, and neither its project's other repositories nor another project's", async () => {
    const [mine, other] = [await anApp(), await anApp()];
    const id = await aTask(mine, "serve");
    await world.place(node.id, id);
    await using thief = asThief(node, id);
    expect(await thief.getManifest(mine.image, mine.digest)).toMatchObject({ digest: mine.digest });
    for (const { repository, digest } of [
      { repository: mine.source, digest: mine.digest },
      { repository: other.image, digest: other.digest },
      { repository: other.source, digest: other.digest },
    ])
      await expect(thief.getManifest(repository, digest)).rejects.toMatchObject(refused);
    await expect(thief.pushBlob(mine.image, randomBytes(10))).rejects.toMatchObject(refused);
    await expect(thief.deleteManifest(mine.image, mine.digest)).rejects.toMatchObject(refused);
    await own.getManifest(mine.image, mine.digest);
  });

  test("writes where its build's result goes, and nowhere else", async () => {
    const [mine, other] = [await anApp(), await anApp()];
    const id = await aTask(mine, "build");
    await world.place(node.id, id, { kind: "build" });
    await using thief = asThief(node, id);
    await thief.pushArtifact(mine.image, { kind: "bundle", stream: randomBytes(100) });
    expect(await thief.getManifest(mine.source, mine.digest)).toMatchObject({ digest: mine.digest });
    for (const repository of [mine.source, mine.bundle, other.image, "bases/docker.io/library/node"])
      await expect(thief.pushBlob(repository, randomBytes(10))).rejects.toMatchObject(refused);
    await expect(thief.getManifest(other.source, other.digest)).rejects.toMatchObject(refused);
    expect(await asked(node, id, "bases/docker.io/library/node")).toEqual(pull("bases/docker.io/library/node"));
  });

  test("deletes and lists nothing with what it was given, not even its own", async () => {
    const mine = await anApp();
    const id = await aTask(mine, "build");
    await world.place(node.id, id, { kind: "build" });
    using connection = asNode(link, node);
    const { token } = await connection.node.issueRegistryToken({ workId: id, repository: mine.image, push: true });
    const statusOf = async (method: string, path: string) => {
      const headers = { authorization: `Bearer ${token}`, accept: "application/vnd.oci.image.manifest.v1+json" };
      const reply = await fetch(new URL(path, server.url), { method, headers });
      await reply.arrayBuffer();
      return reply.status;
    };
    expect(await statusOf("GET", `/v2/${mine.image}/manifests/${mine.digest}`)).toBe(200);
    expect(await statusOf("DELETE", `/v2/${mine.image}/manifests/${mine.digest}`)).toBe(401);
    expect(await statusOf("GET", "/v2/_catalog")).toBe(401);
    expect(await statusOf("GET", `/v2/${mine.source}/tags/list`)).toBe(401);
  });

  test("gets nothing for what is on another node, has moved away, or is to go", async () => {
    const app = await anApp();
    const id = await aTask(app, "serve");
    await world.place(neighbour.id, id);
    expect(await asked(neighbour, id, app.image)).toEqual(pull(app.image));
    expect(await asked(node, id, app.image)).toBe(Code.PermissionDenied);
    await world.place(neighbour.id, id, { desired: "removed" });
    expect(await asked(neighbour, id, app.image)).toBe(Code.PermissionDenied);
    await world.place(neighbour.id, id);
    await world.remove(keys.placement(neighbour.id, id));
    expect(await asked(neighbour, id, app.image)).toBe(Code.PermissionDenied);
  });

  test("gets the image of a release command as long as the attempt is its own and not over", async () => {
    const app = await anApp();
    const attempt = randomUUID();
    const run = {
      ...{
        attemptId: attempt,
        kind: "release",
        ownerKind: "deployment",
        ownerId: app.deploymentId,
        projectId: app.projectId,
        state: "offered",
      },
      ...{ cancel: false, token: null, exitCode: null, timedOut: false, message: null, startedAt: null },
      ...{ finishedAt: null, changedAt: new Date().toISOString() },
    };
    await world.put(keys.run(node.id, attempt), run);
    expect(await asked(node, attempt, app.image)).toEqual(pull(app.image));
    expect(await asked(node, attempt, app.image, true)).toBe(Code.PermissionDenied);
    expect(await asked(node, attempt, app.source)).toBe(Code.PermissionDenied);
    expect(await asked(neighbour, attempt, app.image)).toBe(Code.PermissionDenied);
    await world.put(keys.run(node.id, attempt), { ...run, state: "exited" });
    expect(await asked(node, attempt, app.image)).toBe(Code.PermissionDenied);
  });

  test.each(["", "../x", "no id", `${randomUUID()}/x`, randomUUID(), `${randomUUID()}.1`])(
    "gets nothing for work called %j",
    async (workId) => {
      expect(await asked(node, workId, "bases/node")).toBe(Code.PermissionDenied);
    },
  );
});

describe("whoever has the identity of an edge", () => {
  let generation = 0;
  /** Publishes a table of which each host serves the bundle of one of the apps. */
  async function publish(apps: readonly App[]): Promise<void> {
    generation += 1;
    const before = await world.etcd.range(keys.route(""));
    const routes = apps.map(({ bundle, digest }, index) =>
      create(RouteSchema, {
        host: `site-${index}.svc.test`,
        target: { case: "static", value: { repository: bundle, digest, sizeBytes: 200n } },
      }),
    );
    const meta = JSON.stringify({ generation, digest: "d", count: routes.length });
    await world.etcd.txn({
      ops: [
        ...before.entries.slice(routes.length).map(({ key }) => ({ delete: { key } })),
        ...routes.map((route) => ({ put: { key: keys.route(route.host), value: toJsonString(RouteSchema, route) } })),
        { put: { key: keys.routesMeta, value: meta } },
      ],
    });
  }
  const ask = async (repository: string) => {
    using connection = connect(link.linkPort, { ca: edge.ca, cert: edge.certificate, key: edge.privateKey });
    return await connection.edge.issueRegistryToken({ repository });
  };
  /** Whether control gives it a token for the repository. */
  const gets = (repository: string) =>
    ask(repository).then(
      () => true,
      (error: { code: Code }) => {
        expect(error.code).toBe(Code.PermissionDenied);
        return false;
      },
    );

  test("reads the bundles of the table in force, and nothing else", async () => {
    const [one, two] = [await anApp(), await anApp()];
    await publish([one]);
    await until("the table is known", () => gets(one.bundle));
    await using thief = createRegistry(systemClock, { url: server.url, tokens: ([wanted]) => ask(wanted?.name ?? "") });
    expect(await thief.getManifest(one.bundle, one.digest)).toMatchObject({ digest: one.digest });
    // The token that it gets is for reading, whatever it wants to do.
    await expect(thief.pushBlob(one.bundle, randomBytes(10))).rejects.toMatchObject({ status: 401 });
    await expect(thief.deleteManifest(one.bundle, one.digest)).rejects.toMatchObject({ status: 401 });
    for (const repository of [one.source, one.image, two.bundle, "bases/node", ""])
      expect(await gets(repository)).toBe(false);
    await publish([two]);
    await until("the next table is known", () => gets(two.bundle));
    expect(await gets(one.bundle)).toBe(false);
  });

  test("cannot ask as a node", async () => {
    using connection = asNode(link, edge);
    const call = connection.node.issueRegistryToken({ workId: randomUUID(), repository: "bases/node" });
    await expect(call).rejects.toMatchObject({ code: Code.Unauthenticated });
  });
});
