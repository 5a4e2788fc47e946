import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type RegistryProcess, startDockerRegistry } from "../../registry/src/testing/docker-registry.ts";
import { type Cluster, startCluster } from "../cluster.ts";
import { edgeFetch } from "../support/edge.ts";
import { postSource, settled } from "../support/source.ts";

let registry: RegistryProcess;
let cluster: Cluster;
let host = "";
beforeAll(async () => {
  registry = await startDockerRegistry();
  host = new URL(registry.url).host;
  cluster = await startCluster({ agents: 1, control: { SVC_REGISTRY_ALLOW: host } });
});
afterAll(async () => {
  await cluster?.[Symbol.asyncDispose]();
  await registry?.[Symbol.asyncDispose]();
});

const ended = (progress: NodeJS.ReadableStream) =>
  new Promise<void>((resolve, reject) =>
    cluster.platform.docker.modem.followProgress(progress, (error) => (error ? reject(error) : resolve())),
  );

/** Puts an image with one file into the registry, and leaves nothing of it on the engine. */
async function publish(name: string, text: string): Promise<void> {
  const { docker } = cluster.platform;
  const context = await mkdtemp(join(tmpdir(), "svc-base-image-"));
  try {
    await writeFile(join(context, "base.txt"), text);
    await writeFile(join(context, "Dockerfile"), "FROM scratch\nCOPY base.txt /\n");
    const src = ["Dockerfile", "base.txt"];
    await ended(await docker.buildImage({ context, src }, { t: `${host}/${name}` }));
    const image = docker.getImage(`${host}/${name}`);
    await ended(await image.push({ authconfig: { username: "", password: "", serveraddress: host } }));
    await image.remove({ force: true });
  } finally {
    await rm(context, { recursive: true, force: true });
  }
}

const server = `require("node:http").createServer((_, reply) => reply.end(require("node:fs").readFileSync("/base.txt"))).listen(3000)`;
const manifest = { version: 2, app: { name: "Bases", type: "ssr" }, build: { dockerfile: "Dockerfile" } };

/** Deploys an app that says what is in its base image. */
async function deployFrom(projectId: string, base: string) {
  const lines = [`FROM ${cluster.platform.baseImage}`, `COPY --from=${base} base.txt /`, `CMD ["node", "/server.js"]`];
  const files = { Dockerfile: `${lines.join("\n")}\nCOPY server.js /\n`, "server.js": server };
  const { id } = await postSource(cluster, { projectId, manifest, files });
  return settled(cluster, id);
}

test("a base image of another registry comes by way of the cluster's own, and stays when its registry goes", async () => {
  const { body } = await cluster.api("POST", "/projects", { name: "Bases", type: "ssr" });
  const project = body["project"] as { id: string; url: string };
  await publish("team/base:1", "from the base");
  const running = await deployFrom(project.id, `${host}/team/base:1`);
  expect(running, JSON.stringify(running)).toMatchObject({ status: "running" });
  expect(await (await edgeFetch(running.url)).text()).toBe("from the base");
  // The engine has it from the cluster's registry, by digest, and from nobody else.
  const images = await cluster.platform.docker.listImages({ all: true });
  const names = images.flatMap(({ RepoDigests, RepoTags }) => [...(RepoDigests ?? []), ...(RepoTags ?? [])]);
  expect(names.filter((name) => name.startsWith(`${host}/`))).toEqual([]);
  const copy = `${cluster.platform.registry.host}/bases/${host.replace(":", "_")}/team/base@`;
  expect(names.filter((name) => name.startsWith(copy))).toHaveLength(1);
  await registry[Symbol.asyncDispose]();
  expect(await deployFrom(project.id, `${host}/team/base:1`)).toMatchObject({ status: "running" });
});

test("one of a registry that nobody may reach fails the build with the reason", async () => {
  const { body } = await cluster.api("POST", "/projects", { name: "Inside", type: "ssr" });
  const failed = await deployFrom(
    (body["project"] as { id: string }).id,
    `localhost:${new URL(cluster.platform.apiUrl).port}/x`,
  );
  expect(failed).toMatchObject({ status: "failed", errorCode: "OCI_REGISTRY_BLOCKED" });
});
