import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Cluster, startCluster } from "../../cluster.ts";
import { getDeployment } from "../../support/deploy.ts";
import { edgeFetch } from "../../support/edge.ts";
import { waitFor } from "../../support/wait-for.ts";

/** An image that somebody has on their machine, from there to their site by way of the platform's own registry. */

const deployMs = 120_000;
const server = `require("node:http").createServer((_, reply) => reply.end("of my own")).listen(8080)`;

let cluster: Cluster;
beforeAll(async () => {
  cluster = await startCluster({ agents: 1 });
});
afterAll(() => cluster?.[Symbol.asyncDispose]());

const followed = (stream: NodeJS.ReadableStream) =>
  new Promise<void>((resolve, reject) =>
    cluster.platform.docker.modem.followProgress(stream, (error: Error | null, said: { error?: string }[] | null) => {
      // What fails once the engine is at it is among what it says.
      const failed = said?.find((each) => each.error !== undefined)?.error;
      if (error !== null || failed !== undefined) reject(error ?? new Error(failed));
      else resolve();
    }),
  );

async function build(reference: string): Promise<void> {
  const { docker, baseImage } = cluster.platform;
  const directory = await mkdtemp(join(tmpdir(), "svc-own-image-"));
  try {
    const lines = [`FROM ${baseImage}`, `CMD ${JSON.stringify(["node", "-e", server])}`];
    await writeFile(join(directory, "Dockerfile"), lines.join("\n"));
    await followed(await docker.buildImage({ context: directory, src: ["Dockerfile"] }, { t: reference }));
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

test("an image is pushed with what the login says, and deployed by that name", { timeout: 300_000 }, async () => {
  const { docker, registry } = cluster.platform;
  const reply = await cluster.api("POST", "/registry/login");
  expect(reply.status).toBe(200);
  const { host, prefix, username, password } = reply.body["login"] as Record<string, string>;
  expect(host).toBe(registry.host);
  const name = `${host}/${prefix}tide/clock:1.0`;
  await build(name);
  const image = docker.getImage(name);
  try {
    const push = async (authconfig: { username: string; password: string }) =>
      followed(await image.push({ authconfig: { ...authconfig, serveraddress: `${host}` } }));
    await expect(push({ username: username ?? "", password: "svcr_wrong" })).rejects.toThrow();
    await push({ username: username ?? "", password: password ?? "" });
    const other = `${host}/svc/somebody/app`;
    await image.tag({ repo: other, tag: "1" });
    const foreign = docker.getImage(`${other}:1`);
    const authconfig = { username: username ?? "", password: password ?? "", serveraddress: `${host}` };
    await expect(foreign.push({ authconfig }).then(followed)).rejects.toThrow();
    await foreign.remove();
  } finally {
    await image.remove({ force: true });
  }

  const created = await cluster.api("POST", "/projects", { name: "Of my own", type: "ociimage" });
  const project = created.body["project"] as { id: string; url: string };
  const manifest = { version: 2, name: "Of my own", type: "ociimage", port: 8080, image: { reference: name } };
  const { status, body } = await cluster.api("POST", `/projects/${project.id}/deployments`, { manifest });
  expect(status, JSON.stringify(body)).toBe(202);
  const ended = await waitFor("the end of the deployment", deployMs, async () => {
    const deployment = await getDeployment(cluster, String(body["deploymentId"]));
    return ["running", "failed"].includes(deployment.status) && deployment;
  });
  expect(ended).toMatchObject({ status: "running" });
  expect(await (await edgeFetch(project.url)).text()).toBe("of my own");
});
