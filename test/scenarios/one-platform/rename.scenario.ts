import { appendFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { type Cluster, startCluster } from "../../cluster.ts";
import { type Deployed, deploy, parseFacts } from "../../support/deploy.ts";
import { edgeFetch } from "../../support/edge.ts";
import { openLoopLoad } from "../../support/load.ts";
import { waitFor } from "../../support/wait-for.ts";

const ratePerSecond = 100;
const renameMs = 60_000;
/** There and back again, so that the load meets every moment of a rename. */
const roundTrips = 8;

let cluster: Cluster;
let cwd = "";
let site: Deployed;
beforeAll(async () => {
  cluster = await startCluster({ agents: 1 });
  cwd = await cluster.exampleDir("ssr");
  site = await deploy(cluster, cwd);
});
afterAll(() => cluster?.[Symbol.asyncDispose]());

const detail = z.looseObject({
  project: z.looseObject({ slug: z.string(), url: z.string() }),
  deployments: z.array(z.looseObject({ id: z.string(), url: z.string() })),
});
const look = async () => detail.parse((await cluster.api("GET", `/projects/${site.project.id}`)).body);

/** Asks for the rename and waits until the project has the new slug. */
async function rename(slug: string) {
  const asked = await cluster.api("PUT", `/projects/${site.project.id}`, { slug });
  expect(asked).toEqual({ status: 202, body: { ok: true, queued: true, newSlug: slug } });
  return waitFor(`the slug ${slug}`, renameMs, async () => {
    const found = await look();
    return found.project.slug === slug ? found : null;
  });
}

const path = "/api/facts?from=a%2Fb&to=";

/** Waits until a host sends its visitors, whatever they ask for, to the same place on another one. */
async function redirects(from: string, to: string): Promise<void> {
  await waitFor(`${from} to redirect`, 30_000, async () => (await edgeFetch(from)).status === 308);
  for (const method of ["GET", "POST"]) {
    const reply = await edgeFetch(`${from}${path}`, { method });
    expect([reply.status, reply.headers.get("location")]).toEqual([308, `${to}${path}`]);
  }
}

test(`renames there and back under ${ratePerSecond} requests per second on both hosts lose no request`, {
  timeout: 180_000,
}, async () => {
  const newSlug = `renamed-${site.slug.slice(0, 20)}`.replace(/-$/, "");
  const newUrl = site.url.replace(site.slug, newSlug);
  const end = new AbortController();
  const load = (url: string) => openLoopLoad({ url: `${url}${path}`, ratePerSecond, until: end.signal });
  const loads = [load(site.url)];
  const answers = waitFor("the new host to answer", renameMs, async () => (await edgeFetch(newUrl)).status === 200);
  void answers.then(() => loads.push(load(newUrl))).catch(() => {});
  try {
    const renamed = await rename(newSlug);
    expect(renamed.project.url).toBe(newUrl);
    expect(renamed.deployments).toEqual([expect.objectContaining({ id: site.deployment.id, url: newUrl })]);
    await answers;
    const { platform } = parseFacts(await (await edgeFetch(`${newUrl}${path}`)).json());
    expect(Object.values(platform)).toContain(site.deployment.id);
    await redirects(site.url, newUrl);

    // A redirecting host is as good over HTTPS.
    const { port } = new URL(cluster.platform.edgeHttps);
    const secure = (url: string) => `https://${new URL(url).hostname}:${port}`;
    const reply = await edgeFetch(`${secure(site.url)}${path}`);
    expect([reply.status, reply.headers.get("location")]).toEqual([308, `${secure(newUrl)}${path}`]);

    // Nobody else gets the old name meanwhile, and its owner gets it back at once.
    const taken = await cluster.api("POST", "/projects", { name: "Other", type: "static", slug: site.slug });
    expect(taken.body["error"]).toMatchObject({ code: "SLUG_CONFLICT" });
    const back = await rename(site.slug);
    expect(back.project.url).toBe(site.url);
    await redirects(newUrl, site.url);
    expect((await edgeFetch(site.url)).status).toBe(200);

    for (let count = 1; count < roundTrips; count += 1) {
      await rename(newSlug);
      await rename(site.slug);
    }
    await redirects(newUrl, site.url);

    // A deployment that was accepted for the old name arrives at the new one.
    await appendFile(join(cwd, "src", "departures.js"), "// Another edition.\n");
    const deploying = deploy(cluster, cwd);
    await waitFor("the deploy to be under way", renameMs, async () => (await look()).deployments.length === 2);
    await rename(newSlug);
    const { deployment } = await deploying;
    expect((await look()).deployments[0]).toMatchObject({ id: deployment.id, status: "running", url: newUrl });
    const served = parseFacts(await (await edgeFetch(`${newUrl}${path}`)).json());
    expect(Object.values(served.platform)).toContain(deployment.id);
    await redirects(site.url, newUrl);
  } finally {
    end.abort();
  }
  const reports = await Promise.all(loads);
  for (const { sent, failed, latencyMs } of reports)
    console.error(`  ${sent} requests, ${failed} failed, latency ${JSON.stringify(latencyMs)} ms`);
  expect(reports).toHaveLength(2);
  for (const report of reports) {
    expect(report.failures).toEqual([]);
    expect(report.failed).toBe(0);
    expect(report.ok).toBe(report.sent);
    expect(report.sent).toBeGreaterThan(ratePerSecond);
  }
});
