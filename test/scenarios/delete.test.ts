import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { type Cluster, startCluster } from "../cluster.ts";
import { edgeFetch } from "../support/edge.ts";
import { differences, type Remains, readRemains } from "../support/remains.ts";
import { findDeployment, postSource, settled } from "../support/source.ts";
import { waitFor } from "../support/wait-for.ts";

/** A deleted project leaves nothing anywhere, whatever was under way. */

const settleMs = 180_000;
const goneMs = 90_000;

let cluster: Cluster;
let before: Remains;
beforeAll(async () => {
  cluster = await startCluster({ agents: 2, control: { SVC_DRAIN_SECONDS: "0.25" } });
  before = await readRemains(cluster);
});
afterAll(() => cluster?.[Symbol.asyncDispose]());
afterEach(async () => {
  await waitFor("everything to be as before", goneMs, async () => {
    const left = differences(before, await readRemains(cluster));
    if (left.length > 0) throw new Error(left.join("; "));
    return true;
  });
});

const server = `require("node:http").createServer((_, reply) => reply.end("here")).listen(Number(process.env.PORT));`;
const dockerfile = (...lines: string[]) =>
  [`FROM ${cluster.platform.baseImage}`, "WORKDIR /app", "COPY . .", ...lines, 'CMD ["node", "server.js"]', ""].join(
    "\n",
  );

const manifestOf = { ssr: { build: { dockerfile: "Dockerfile" } }, static: { build: { output: "." } } } as const;
type SiteType = keyof typeof manifestOf;
async function newProject(type: SiteType): Promise<string> {
  const { body } = await cluster.api("POST", "/projects", { name: `Delete me ${type}`, type });
  return z.looseObject({ id: z.string() }).parse(body["project"]).id;
}

function submit(
  projectId: string,
  type: SiteType,
  files: Record<string, string>,
  { channel = "production", release }: { channel?: string; release?: string } = {},
): Promise<{ id: string; url: string }> {
  const app = { name: "Delete me", type };
  const manifest = { version: 2, channel, app, ...manifestOf[type], ...(release && { release: { command: release } }) };
  return postSource(cluster, { projectId, manifest, files });
}

const deployment = (id: string) => findDeployment(cluster, id);

async function ended(id: string, as: string): Promise<void> {
  expect((await settled(cluster, id)).status).toBe(as);
}

async function remove(projectId: string): Promise<void> {
  expect((await cluster.api("DELETE", `/projects/${projectId}`)).status).toBe(200);
  expect((await cluster.api("GET", `/projects/${projectId}`)).status).toBe(404);
}

const kept = async () =>
  Object.fromEntries(Object.entries(await readRemains(cluster)).map(([what, names]) => [what, names.length]));

test("projects with sites on two channels, a release command, a failed build and a history", {
  timeout: 600_000,
}, async () => {
  const [shop, docs] = [await newProject("ssr"), await newProject("static")];
  const app = (edition: number, ...lines: string[]) => ({
    ...{ "server.js": server, "edition.txt": String(edition), Dockerfile: dockerfile(...lines) },
  });
  const pages = (edition: number) => ({ "index.html": `<h1>${edition}</h1>` });
  const release = "echo released";
  const first = await submit(shop, "ssr", app(1), { release });
  const site = await submit(docs, "static", pages(1));
  await Promise.all([ended(first.id, "running"), ended(site.id, "running")]);
  const preview = await submit(shop, "ssr", app(2), { channel: "preview" });
  const sitePreview = await submit(docs, "static", pages(2), { channel: "preview" });
  await Promise.all([ended(preview.id, "running"), ended(sitePreview.id, "running")]);
  const [broken, second] = [
    await submit(docs, "static", { "readme.txt": "" }),
    await submit(shop, "ssr", app(3), { release }),
  ];
  await ended(second.id, "running");
  expect(["failed", "running"]).toContain((await settled(cluster, broken.id)).status);
  const failed = await submit(shop, "ssr", app(4, "RUN exit 1"));
  const again = await submit(docs, "static", pages(3));
  await Promise.all([ended(failed.id, "failed"), ended(again.id, "running")]);
  for (const { url } of [first, preview, site, sitePreview]) expect((await edgeFetch(url)).status).toBe(200);
  // There is something of everything, or nothing is proved by its absence.
  for (const [what, count] of Object.entries(await kept())) {
    expect(count, what).toBeGreaterThan(before[what as keyof Remains].length - (what === "rows" ? 1 : 0));
  }

  await Promise.all([remove(shop), remove(docs)]);
  await waitFor("the sites to be gone", goneMs, async () => (await edgeFetch(first.url)).status === 404);
});

test("one that is being built, and one whose release command runs", { timeout: 600_000 }, async () => {
  const [building, releasing] = [await newProject("ssr"), await newProject("ssr")];
  const files = { "server.js": server, Dockerfile: dockerfile() };
  const slow = await submit(building, "ssr", { ...files, Dockerfile: dockerfile("RUN sleep 400") });
  const long = await submit(releasing, "ssr", files, { release: "sleep 400" });
  await waitFor("the release command to run", settleMs, async () => {
    const [build, release] = await Promise.all([deployment(slow.id), deployment(long.id)]);
    if (build.status === "building" && release.release.status === "running") return true;
    throw new Error(`the build is ${build.status}, the other ${release.status}, its release ${release.release.status}`);
  });
  await Promise.all([remove(building), remove(releasing)]);
});

test("one whose node is away, while control is killed", { timeout: 600_000 }, async () => {
  const project = await newProject("ssr");
  const { id } = await submit(project, "ssr", { "server.js": server, Dockerfile: dockerfile() });
  await ended(id, "running");
  // A node that dies before it has cleared away the build would have that to answer for as well.
  await waitFor("nothing but the site to be placed", goneMs, async () => {
    const { etcd } = await readRemains(cluster);
    return etcd.filter((key) => key.startsWith("/svc/placements/")).length === 1;
  });
  const agents = [1, 2].map((number) => cluster.platform.program(`agent-${number}`));
  const control = cluster.platform.program("control");
  await Promise.all(agents.map((agent) => agent.stop("SIGKILL")));
  await remove(project);
  await control.stop("SIGKILL");
  await control.start();
  // Nobody can say what became of the container, so nothing that would be needed to find it is forgotten.
  await waitFor("control to be at it again", goneMs, async () => (await readRemains(cluster)).etcd.length === 2);
  expect(await kept()).toMatchObject({ containers: 1 });
  await Promise.all(agents.map((agent) => agent.start()));
});
