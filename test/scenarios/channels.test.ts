import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { type Cluster, startCluster } from "../cluster.ts";
import { edgeFetch } from "../support/edge.ts";
import { type FoundDeployment, phasesOf, postSource, running } from "../support/source.ts";
import { waitFor } from "../support/wait-for.ts";

/** One project on all its channels at once: each answers by itself, and what moves between them moves without a build. */

let cluster: Cluster;
let projectId: string;
beforeAll(async () => {
  cluster = await startCluster({ control: { SVC_DRAIN_SECONDS: "0.25" } });
  const { body } = await cluster.api("POST", "/projects", { name: "Channels", type: "ssr" });
  projectId = z.looseObject({ id: z.string() }).parse(body["project"]).id;
});
afterAll(() => cluster?.[Symbol.asyncDispose]());

const server = `import { readFileSync } from "node:fs";
import { createServer } from "node:http";
const edition = readFileSync("/app/edition.txt", "utf8");
const { SVC_CHANNEL: channel, SVC_PUBLIC_URL: url, SVC_DEPLOYMENT_ID: deploymentId } = process.env;
createServer((_, reply) => {
  reply.setHeader("content-type", "application/json").end(JSON.stringify({ edition, channel, url, deploymentId }));
}).listen(Number(process.env.PORT));
process.on("SIGTERM", () => process.exit(0));
`;

const manifest = (channel: string | null) => ({
  version: 2,
  ...(channel !== null && { channel }),
  app: { name: "Channels", type: "ssr" },
  build: { dockerfile: "Dockerfile" },
  release: { command: "node -e \"console.log('released for', process.env.SVC_CHANNEL)\"" },
});

const created = z.looseObject({ deploymentId: z.string() });

/** Deploys an edition of the app and waits until it runs. `channel` null forces none. */
async function deploy(edition: string, channel: string | null, prNumber?: number): Promise<FoundDeployment> {
  const dockerfile = `FROM ${cluster.platform.baseImage}\nWORKDIR /app\nCOPY server.mjs edition.txt ./\nUSER 1000\nCMD ["node", "server.mjs"]\n`;
  const { id } = await postSource(cluster, {
    projectId,
    manifest: manifest(channel),
    files: { "edition.txt": edition, "server.mjs": server, Dockerfile: dockerfile },
    ...(prNumber !== undefined && { metadata: { gitPrNumber: prNumber } }),
  });
  return running(cluster, id);
}

/** The new deployment that an action made of one, once it runs. */
async function redeploy(id: string, action: "promote" | "rollback"): Promise<FoundDeployment> {
  const { status, body } = await cluster.api("POST", `/deployments/${id}/${action}`);
  expect(status).toBe(202);
  return running(cluster, created.parse(body).deploymentId);
}

const facts = z.object({ edition: z.string(), channel: z.string(), url: z.string(), deploymentId: z.string() });
const visit = async (url: string) => facts.parse(await (await edgeFetch(url)).json());
const editions = (sites: readonly FoundDeployment[]) =>
  Promise.all(sites.map(async ({ url }) => (await visit(url)).edition));
const phases = async (id: string) => (await phasesOf(cluster, id)).map(({ phase }) => phase);

const countContainers = async () =>
  (await cluster.containers()).filter(({ labels }) => labels["svc.project"] === projectId).length;

async function remove({ id, url }: FoundDeployment): Promise<void> {
  expect((await cluster.api("DELETE", `/deployments/${id}`)).status).toBe(202);
  await waitFor(
    "the deployment is not found",
    60_000,
    async () => (await cluster.api("GET", `/deployments/${id}`)).status === 404,
  );
  const reply = await edgeFetch(url);
  expect(reply.status).toBe(404);
  expect(reply.headers.get("content-type")).toContain("text/html");
}

test("every channel stands for itself, and artifacts move between them without a build", {
  timeout: 900_000,
}, async () => {
  const production = await deploy("production-1", "production");
  const preview = await deploy("preview-1", "preview");
  const pull = await deploy("pull-7", "preview", 7);
  const dev = await deploy("dev-1", "dev");
  const all = [production, preview, pull, dev];

  // Each on its own host, and each knows where it is.
  expect(new Set(all.map(({ url }) => url)).size).toBe(4);
  expect(new URL(preview.url).hostname).toMatch(/^preview-/);
  expect(new URL(pull.url).hostname).toMatch(/^preview-.*--7\./);
  expect(new URL(dev.url).hostname).toMatch(/^dev-/);
  expect(await Promise.all(all.map(({ url }) => visit(url)))).toEqual([
    { edition: "production-1", channel: "production", url: production.url, deploymentId: production.id },
    { edition: "preview-1", channel: "preview", url: preview.url, deploymentId: preview.id },
    { edition: "pull-7", channel: "preview", url: pull.url, deploymentId: pull.id },
    { edition: "dev-1", channel: "dev", url: dev.url, deploymentId: dev.id },
  ]);

  // A deploy that forces no channel goes where the project says, and changes nothing else.
  await cluster.api("PATCH", `/projects/${projectId}`, { deployMode: "preview" });
  const second = await deploy("preview-2", null);
  expect([second.channel, second.url]).toEqual(["preview", preview.url]);
  expect(await editions(all)).toEqual(["production-1", "preview-2", "pull-7", "dev-1"]);

  // Production gets exactly what the pull request runs, with its release command, and nobody builds.
  const promoted = await redeploy(pull.id, "promote");
  expect([promoted.channel, promoted.url, promoted.release.status]).toEqual([
    "production",
    production.url,
    "succeeded",
  ]);
  expect(promoted.portableArtifact.digest).toBe(pull.portableArtifact.digest);
  expect(await phases(promoted.id)).not.toContain("build-queued");
  expect(await phases(pull.id)).toContain("build-queued");
  // What a command writes comes by itself, perhaps after the news of its end.
  const said = await waitFor("the log of the release command", 30_000, async () => {
    const { body } = await cluster.api("GET", `/deployments/${promoted.id}/logs`);
    return String(body["log"]).trim() || null;
  });
  expect(said).toBe("released for production");
  expect(await visit(production.url)).toMatchObject({ edition: "pull-7", channel: "production", url: production.url });
  expect(await visit(pull.url)).toMatchObject({ edition: "pull-7", channel: "preview", deploymentId: pull.id });

  // And back, without the command.
  const back = await redeploy(production.id, "rollback");
  expect(back.release).toMatchObject({ status: "skipped", skippedReason: expect.any(String) });
  expect(back.portableArtifact.digest).toBe(production.portableArtifact.digest);
  expect(await phases(back.id)).not.toContain("build-queued");
  expect(await editions(all)).toEqual(["production-1", "preview-2", "pull-7", "dev-1"]);

  // What is removed is gone with its container, and no other channel answers in its place.
  await waitFor("one container per channel", 60_000, async () => (await countContainers()) === 4);
  await remove(pull);
  expect(await countContainers()).toBe(3);
  await remove(dev);
  expect(await countContainers()).toBe(2);
  expect(await editions([production, preview])).toEqual(["production-1", "preview-2"]);
  expect((await cluster.api("DELETE", `/deployments/${back.id}`)).body["error"]).toMatchObject({
    code: "DELETE_UNAVAILABLE",
  });
});
