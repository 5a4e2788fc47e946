import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { lookAtPng } from "@svc/agent/testing/png";
import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { type Cluster, startCluster } from "../cluster.ts";
import { type Deployed, deploy } from "../support/deploy.ts";
import { edgeFetch } from "../support/edge.ts";
import { waitFor } from "../support/wait-for.ts";

let cluster: Cluster;
let dir = "";
beforeAll(async () => {
  cluster = await startCluster({ agents: 1, screenshots: true });
  dir = await cluster.exampleDir("static");
});
afterAll(() => cluster?.[Symbol.asyncDispose]());

/** Deploys the example with this as its page. */
async function show(body: string): Promise<Deployed> {
  const page = await pageOf(dir);
  await writeFile(page, `<!doctype html><html><body style="margin: 0">${body}</body></html>`);
  return deploy(cluster, dir);
}
async function pageOf(directory: string): Promise<string> {
  for (const path of ["index.html", "public/index.html", "src/index.html"]) {
    const found = await readFile(join(directory, path)).catch(() => null);
    if (found !== null) return join(directory, path);
  }
  throw new Error("the example has no page");
}

const shape = z.looseObject({ screenshotCapturedAt: z.string().nullable() });
async function capturedAt(id: string): Promise<string | null> {
  const { body } = await cluster.api("GET", `/deployments/${id}`);
  return shape.parse(body["deployment"]).screenshotCapturedAt;
}
const ask = (method: string, id: string) =>
  fetch(`${cluster.platform.apiUrl}/api/v1/deployments/${id}/screenshot`, {
    method,
    headers: { "x-api-key": cluster.key },
  });
async function pictureOf(id: string) {
  const reply = await ask("GET", id);
  const body = Buffer.from(await reply.arrayBuffer());
  expect([reply.status, reply.headers.get("content-type")], body.toString("latin1", 0, 500)).toEqual([
    200,
    "image/png",
  ]);
  return lookAtPng(body);
}
const captured = (id: string, before: string | null = null) =>
  waitFor("a picture", 240_000, async () => {
    const at = await capturedAt(id);
    return at !== null && at !== before;
  });

test("a deployment has a picture soon after it serves, and a new one not at once", async () => {
  const { deployment } = await show('<div style="background: #12ab34; height: 100vh"></div>');
  await captured(deployment.id);
  expect(await pictureOf(deployment.id)).toEqual({ width: 1280, height: 800, corner: [0x12, 0xab, 0x34] });
  const again = await ask("POST", deployment.id);
  expect(again.status).toBe(429);
  expect(Number(again.headers.get("retry-after"))).toBeGreaterThan(0);
});

test("a gated site shows itself, and its page reaches nothing else", async () => {
  const other = await cluster.exampleDir("static");
  const manifest = join(other, "svc.yml");
  await writeFile(manifest, (await readFile(manifest, "utf8")).replace(/^slug: .*$/m, "slug: somebody-else"));
  const victim = await deploy(cluster, other);
  const tries = ["http://169.254.169.254/", "file:///etc/passwd", cluster.platform.apiUrl, victim.url];
  const script = `
    const reached = [];
    Promise.all(${JSON.stringify(tries)}.map((url) => fetch(url, { mode: "no-cors" }).then(() => reached.push(url), () => {})))
      .then(() => { document.body.style.background = reached.length === 0 ? "#0000ff" : "#ff0000"; });`;
  const first = await show("<p>open</p>");
  expect(victim.url).not.toBe(first.url);
  const patched = await cluster.api("PATCH", `/projects/${first.project.id}`, { password: "open sesame" });
  expect(patched.status).toBe(200);
  await waitFor("the gate", 60_000, async () => (await edgeFetch(first.url)).status === 401);
  const { deployment, url } = await show(`<script>${script}</script>`);
  expect((await edgeFetch(url)).status).toBe(401);
  await captured(deployment.id);
  expect((await pictureOf(deployment.id)).corner).toEqual([0, 0, 255]);
  const replaced = await ask("POST", first.deployment.id);
  expect([replaced.status, await replaced.json()]).toMatchObject([409, { error: { code: "SCREENSHOT_UNAVAILABLE" } }]);
});
