import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type RegistryProcess, startDockerRegistry } from "../../registry/src/testing/docker-registry.ts";
import { type Cluster, startCluster } from "../cluster.ts";
import { getDeployment } from "../support/deploy.ts";
import { edgeFetch } from "../support/edge.ts";
import { waitFor } from "../support/wait-for.ts";

const deployMs = 120_000;
/** The one account of a registry that lets nobody else in. */
const account = { username: "puller", password: "correct horse" };
let registry: RegistryProcess;
let cluster: Cluster;
let host = "";
let project = { id: "", url: "" };

/** A server that answers every request with a status and a text. */
const answering = (status: number, text: string) => [
  "node",
  "-e",
  `require("node:http").createServer((_, reply) => { reply.statusCode = ${status}; reply.end("${text}"); }).listen(8080)`,
];

/** Builds an image on the platform's base image and pushes it to the private registry. */
async function push(name: string, lines: string[]): Promise<string> {
  const { docker, baseImage } = cluster.platform;
  const directory = await mkdtemp(join(tmpdir(), "svc-oci-image-"));
  try {
    await writeFile(join(directory, "Dockerfile"), [`FROM ${baseImage}`, ...lines].join("\n"));
    const build = await docker.buildImage({ context: directory, src: ["Dockerfile"] }, { t: `${host}/${name}` });
    await new Promise((resolve, reject) =>
      docker.modem.followProgress(build, (error: Error | null, done: unknown) =>
        error ? reject(error) : resolve(done),
      ),
    );
    const image = docker.getImage(`${host}/${name}`);
    const progress = await image.push({ authconfig: { ...account, serveraddress: host } });
    await new Promise((resolve, reject) =>
      docker.modem.followProgress(progress, (error: Error | null, done: unknown) =>
        error ? reject(error) : resolve(done),
      ),
    );
    const { RepoDigests = [] } = await image.inspect();
    return RepoDigests.find((each) => each.startsWith(host))?.split("@")[1] ?? "";
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** Deploys an image to production and returns how that ended. */
async function deploy(reference: string, health: object = {}) {
  const manifest = { version: 2, name: "Shop", type: "ociimage", port: 8080, image: { reference }, health };
  const { status, body } = await cluster.api("POST", `/projects/${project.id}/deployments`, { manifest });
  expect(status, JSON.stringify(body)).toBe(202);
  return waitFor("the end of the deployment", deployMs, async () => {
    const deployment = await getDeployment(cluster, String(body["deploymentId"]));
    return ["running", "failed"].includes(deployment.status) && deployment;
  });
}

const setCredential = (secret: string) =>
  cluster.api("PUT", `/projects/${project.id}/registry-credentials`, { host, username: account.username, secret });
const imagesOf = (name: string) => cluster.platform.docker.listImages({ filters: { reference: [name] } });
const page = async () => (await edgeFetch(project.url)).text();

beforeAll(async () => {
  registry = await startDockerRegistry(account);
  host = new URL(registry.url).host;
  cluster = await startCluster({ agents: 1, control: { SVC_REGISTRY_ALLOW: host } });
  const { body } = await cluster.api("POST", "/projects", { name: "Shop", type: "ociimage" });
  project = body["project"] as typeof project;
});
afterAll(async () => {
  await registry?.[Symbol.asyncDispose]();
  if (cluster === undefined) return;
  await cluster[Symbol.asyncDispose]();
  for (const { Id } of await imagesOf(`${host}/*`)) await cluster.platform.docker.getImage(Id).remove({ force: true });
});

test("a private image is served with the right credential only, as the project's own whatever it calls itself", async () => {
  const labels = ["svc.project", "svc.placement", "svc.node"].map((name) => `LABEL ${name}=somebody-else`);
  const digest = await push("shop:1", [...labels, `CMD ${JSON.stringify(answering(200, "one"))}`]);
  expect(await deploy(`${host}/shop:1`)).toMatchObject({ status: "failed", errorCode: "OCI_AUTH_FAILED" });
  expect((await setCredential("wrong")).body["rotated"]).toBe(false);
  expect(await deploy(`${host}/shop:1`)).toMatchObject({ status: "failed", errorCode: "OCI_AUTH_FAILED" });
  expect((await setCredential(account.password)).body["rotated"]).toBe(true);
  const running = await deploy(`${host}/shop:1`);
  expect(running).toMatchObject({ status: "running", artifact: { digest, os: "linux" } });
  expect(await page()).toBe("one");
  const [container] = await cluster.containers();
  expect(container?.labels["svc.project"]).toBe(project.id);
});

test("a container that is not healthy fails the deployment and leaves the site as it was", async () => {
  await push("sick:1", [`CMD ${JSON.stringify(answering(500, "sick"))}`]);
  const failed = await deploy(`${host}/sick:1`, { path: "/ready", timeoutSeconds: 3 });
  expect(failed).toMatchObject({ status: "failed", errorCode: "OCI_HEALTH_CHECK_FAILED" });
  expect(await page()).toBe("one");
});

test("an image without a command, or with one that is not there, is told so", async () => {
  await push("mute:1", ["ENTRYPOINT []", "CMD []"]);
  expect(await deploy(`${host}/mute:1`)).toMatchObject({ status: "failed", errorCode: "OCI_ENTRYPOINT_MISSING" });
  await push("lost:1", ['CMD ["/no/such/program"]']);
  expect(await deploy(`${host}/lost:1`)).toMatchObject({ status: "failed", errorCode: "OCI_DEPLOY_FAILED" });
  expect(await page()).toBe("one");
});

test("what runs stays what was deployed, though its tag moves and its registry goes", async () => {
  await push("shop:1", [`CMD ${JSON.stringify(answering(200, "two"))}`]);
  await registry[Symbol.asyncDispose]();
  const stopped = await cluster.api("POST", `/projects/${project.id}/stop`);
  expect(stopped.status).toBe(202);
  await waitFor("no container", 60_000, async () => (await cluster.containers()).length === 0);
  // Nor does the node need its copy.
  const copies = (await imagesOf(`*/svc/${project.id}/app`))
    .flatMap(({ RepoDigests }) => RepoDigests ?? [])
    .filter((name) => name.includes(project.id));
  expect(copies).not.toEqual([]);
  for (const name of copies) await cluster.platform.docker.getImage(name).remove();
  expect((await cluster.api("POST", `/projects/${project.id}/start`)).status).toBe(202);
  expect(await waitFor("the site", 60_000, async () => (await page()) === "one" && "one")).toBe("one");
});
