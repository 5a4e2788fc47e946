import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { repositoryRoot } from "@svc/deploy/paths";
import { deploymentReply } from "@svc/proto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Cluster, startCluster } from "../cluster.ts";
import { type Deployed, deploy } from "../support/deploy.ts";
import { edgeFetch } from "../support/edge.ts";
import { waitFor } from "../support/wait-for.ts";
import { type Application, applications, type Page } from "./applications.ts";
import { type Measured, renderMeasured, writeMeasured } from "./report.ts";

/** A build has 15 minutes; everything around it is quick. */
const deployMs = 17 * 60_000;
const retiredMs = 60_000;

let cluster: Cluster;
let dir = "";
const measured: Measured[] = [];

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "svc-apps-"));
  cluster = await startCluster({ agents: 1 });
});
afterAll(async () => {
  await cluster?.[Symbol.asyncDispose]();
  await rm(dir, { recursive: true, force: true });
  if (measured.length === 0) return;
  console.error(`\n${renderMeasured(measured)}\n\nalso in ${await writeMeasured(measured)}`);
});

async function timedDeploy(cwd: string): Promise<{ site: Deployed; seconds: number }> {
  const from = performance.now();
  const site = await deploy(cluster, cwd);
  return { site, seconds: (performance.now() - from) / 1000 };
}

async function addressOf(url: string, { path, link }: Pick<Page, "path" | "link">): Promise<string> {
  if (link === undefined) return `${url}${path}`;
  const page = await (await edgeFetch(`${url}${path}`)).text();
  const [, found] = link.exec(page) ?? [];
  if (found === undefined) throw new Error(`${path} has nothing like ${link}`);
  return `${url}${found}`;
}

/** The text as a browser shows it: frameworks put comments between the parts that they fill in. */
const textOf = (body: string) => body.replaceAll(/<!--.*?-->/gs, "");

async function buildLog(deploymentId: string): Promise<string> {
  return String((await cluster.cli(["logs", deploymentId, "--json"])).json()["log"]);
}

async function artifactMb(deploymentId: string): Promise<number> {
  const { body } = await cluster.api("GET", `/deployments/${deploymentId}`);
  return (deploymentReply.parse(body).deployment.portableArtifact?.sizeBytes ?? Number.NaN) / 1024 ** 2;
}

/** The one running container of a project, once the one before it is gone. */
const containerOf = async (projectId: string) => {
  const { id } = await waitFor("one running container", retiredMs, async () => {
    const running = (await cluster.containers()).filter(
      ({ labels, state }) => labels["svc.project"] === projectId && state === "running",
    );
    return running.length === 1 ? running[0] : null;
  });
  return cluster.platform.docker.getContainer(id);
};

type Container = Awaited<ReturnType<typeof containerOf>>;

/** As the engine's own tools count it: without what the kernel can drop at once. */
async function memoryMb(container: Container): Promise<number> {
  const { memory_stats: memory } = await container.stats({ stream: false });
  const { stats } = memory as { stats: Record<string, number> };
  return (memory.usage - (stats["total_inactive_file"] ?? stats["inactive_file"] ?? 0)) / 1024 ** 2;
}

const isThere = (container: Container, path: string): Promise<boolean> =>
  container.infoArchive({ path }).then(
    () => true,
    () => false,
  );

const etagOf = async (address: string) => (await edgeFetch(address)).headers.get("etag");

describe.each(applications)("$name", (app: Application) => {
  const cwd = () => join(dir, app.name);
  let site: Deployed;
  let first: { log: string; seconds: number; etag: string | null };

  // Nodes have room for a few apps at a time.
  afterAll(async () => {
    if (app.type === "ssr" && site !== undefined) await cluster.cli(["stop", "--project", site.slug, "--json"]);
  });

  test("is served after its first deploy", { timeout: deployMs }, async () => {
    await cp(join(repositoryRoot, "test", "apps", app.name), cwd(), { recursive: true });
    const { seconds, ...deployed } = await timedDeploy(cwd());
    site = deployed.site;
    expect(site.deployment.status).toBe("running");
    const etag = app.unchanged === undefined ? null : await etagOf(`${site.url}${app.unchanged}`);
    first = { seconds, etag, log: await buildLog(site.deployment.id) };
    const reply = await edgeFetch(await addressOf(site.url, app.edition.page));
    expect(await reply.text()).toContain("first edition");
  });

  const titled = app.pages.map((page) => ({ ...page, title: `${page.path}${page.link ? ` and ${page.link}` : ""}` }));
  test.each(titled)("answers $title", async ({ status = 200, type, has = [], ...at }) => {
    // Some servers say to programs in JSON what they say to browsers in HTML.
    const reply = await edgeFetch(await addressOf(site.url, at), { headers: { accept: type } });
    const text = textOf(await reply.text());
    expect({ status: reply.status, type: reply.headers.get("content-type") }).toEqual({
      status,
      type: expect.stringContaining(type),
    });
    for (const part of has) expect(text).toContain(part.replaceAll("{url}", site.url));
  });

  test("is built again from what it installed the first time", { timeout: deployMs }, async () => {
    const file = join(cwd(), app.edition.file);
    await writeFile(file, (await readFile(file, "utf8")).replace("first edition", "second edition"));
    const { site: again, seconds } = await timedDeploy(cwd());
    const reply = await edgeFetch(await addressOf(site.url, app.edition.page));
    expect(await reply.text()).toContain("second edition");
    if (app.installs !== null) {
      const step = new RegExp(`^#(\\d+) RUN ${app.installs}$[\\s\\S]*?^#\\1 (cached|done)$`, "m");
      expect(step.exec(first.log)?.[2]).toBe("done");
      expect(step.exec(await buildLog(again.deployment.id))?.[2]).toBe("cached");
    }
    measured.push({
      app: app.name,
      firstSeconds: first.seconds,
      secondSeconds: seconds,
      artifactMb: await artifactMb(again.deployment.id),
      memoryMb: app.type === "static" ? null : await memoryMb(await containerOf(site.project.id)),
    });
  });

  if (app.type === "ssr")
    test("runs without rights, and without what only its build needs", async () => {
      const container = await containerOf(site.project.id);
      const { Config } = await container.inspect();
      expect(["", "0", "root"]).not.toContain(Config.User.split(":")[0]);
      for (const path of app.leftBehind ?? []) expect([path, await isThere(container, path)]).toEqual([path, false]);
    });

  if (app.name === "sveltekit")
    test("takes its own forms, and nobody else's", async () => {
      const rate = (origin: string) =>
        edgeFetch(`${site.url}/?/rate`, {
          method: "POST",
          headers: { origin, "content-type": "application/x-www-form-urlencoded" },
          body: "loaf=Spelt+tin&stars=4",
        });
      const own = await rate(site.url);
      expect(own.status).toBe(200);
      expect(await own.text()).toContain("Spelt tin gets 4 of 5");
      expect((await rate("http://elsewhere.test")).status).toBe(403);
    });

  const { unchanged } = app;
  if (unchanged !== undefined)
    test("is not sent again to who has it", async () => {
      const address = `${site.url}${unchanged}`;
      const etag = await etagOf(address);
      expect(etag).toMatch(/^(?:W\/)?"[^"]+"$/);
      expect(etag).toBe(first.etag);
      expect((await edgeFetch(address, { headers: { "if-none-match": etag ?? "" } })).status).toBe(304);
    });

  if (app.name === "vite-react")
    test("is sent packed to who can unpack it", async () => {
      const address = await addressOf(site.url, app.edition.page);
      for (const encoding of ["br", "gzip"]) {
        const { headers } = await edgeFetch(address, { headers: { "accept-encoding": encoding } });
        expect(headers.get("content-encoding")).toBe(encoding);
        expect(headers.get("vary")?.toLowerCase()).toContain("accept-encoding");
      }
    });
});
