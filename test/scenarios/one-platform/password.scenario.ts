import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { RequestInit } from "undici";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Cluster, startCluster } from "../../cluster.ts";
import { type Deployed, deploy } from "../../support/deploy.ts";
import { edgeFetch } from "../../support/edge.ts";
import { waitFor } from "../../support/wait-for.ts";

let cluster: Cluster;
let app: Deployed;
let pages: Deployed;
let pagesDir = "";
/** Requests that were answered. */
let visits = 0;
beforeAll(async () => {
  cluster = await startCluster({ agents: 1 });
  app = await deploy(cluster, await cluster.exampleDir("ssr"));
  pagesDir = await cluster.exampleDir("static");
  pages = await deploy(cluster, pagesDir);
});
afterAll(() => cluster?.[Symbol.asyncDispose]());

const visit = async (url: string, init: RequestInit = {}) => {
  const reply = await edgeFetch(url, init);
  visits += 1;
  return reply;
};
const statuses = (cookie = "") =>
  Promise.all([app, pages].map(async ({ url }) => (await visit(url, { headers: { cookie } })).status));
const setPassword = async (password: string | null) => {
  const replies = await Promise.all(
    [app, pages].map(({ project }) => cluster.api("PATCH", `/projects/${project.id}`, { password })),
  );
  expect(replies.map(({ status }) => status)).toEqual([200, 200]);
};
const logIn = async ({ url }: Deployed, password: string) => {
  const reply = await visit(new URL("/_svc/password", url).href, {
    method: "POST",
    body: new URLSearchParams({ password, next: "/" }),
  });
  return reply.headers.getSetCookie()[0]?.split(";")[0] ?? "";
};
const cookies: string[] = [];

test("a password guards both kinds of site within moments, and lets in who knows it", async () => {
  expect(await statuses()).toEqual([200, 200]);
  await setPassword("open sesame");
  await waitFor("the password page on both sites", 5_000, async () => (await statuses()).join() === "401,401");
  // Those of the two sites may come one after the other.
  for (const site of [app, pages]) {
    await waitFor("its secret on the edge", 5_000, async () => (await logIn(site, "open sesame")) !== "");
  }
  expect(await logIn(pages, "wrong")).toBe("");
  cookies.push(await logIn(app, "open sesame"), await logIn(pages, "open sesame"));
  expect(await statuses(cookies[0])).toEqual([200, 401]);
  expect(await statuses(cookies[1])).toEqual([401, 200]);
});

test("neither the password nor its hash is in etcd, nor in what the edge's table says", async () => {
  const { layout } = cluster.platform;
  const files = await readdir(layout.etcd, { recursive: true, withFileTypes: true });
  const contents = await Promise.all(
    files.filter((file) => file.isFile()).map((file) => readFile(join(file.parentPath, file.name), "latin1")),
  );
  const table = await readFile(join(layout.router, "table", "table.jsonl"), "utf8");
  expect(contents.some((text) => text.includes(app.slug))).toBe(true);
  for (const text of [...contents, table]) {
    expect(text).not.toContain("$2b$");
    expect(text).not.toContain("open sesame");
  }
});

test("it survives everything that can be killed, and a redeploy", async () => {
  for (const name of ["control", "router", "caddy"]) await cluster.platform.program(name).stop("SIGKILL");
  await cluster.platform.program("caddy").start();
  await waitFor("Caddy without the others", 10_000, async () => (await statuses(cookies[0])).join() === "200,401");
  for (const name of ["router", "control"]) await cluster.platform.program(name).start();
  expect(await statuses(cookies[0])).toEqual([200, 401]);
  expect((await deploy(cluster, pagesDir)).url).toBe(pages.url);
  expect(await statuses(cookies[1])).toEqual([401, 200]);
  // At midnight in UTC it becomes another cookie, and the one of the day before is as good.
  expect(await statuses(await logIn(app, "open sesame"))).toEqual([200, 401]);
  expect(await statuses(cookies[0])).toEqual([200, 401]);
});

test("another password shuts out who knew the first, and none lets everybody in", async () => {
  await setPassword("close sesame");
  await waitFor("everybody to be out", 5_000, async () => (await statuses(cookies[0])).join() === "401,401");
  await setPassword(null);
  await waitFor("the sites to be open", 5_000, async () => (await statuses()).join() === "200,200");
});

test("what was asked for counts for the account, though everything was killed in between", async () => {
  await waitFor("the month's requests", 30_000, async () => {
    const { body } = await cluster.api("GET", "/account/usage");
    const usage = body["usage"] as { monthlyRequests: number; monthlyBandwidthMb: number };
    return usage.monthlyRequests >= visits && usage.monthlyBandwidthMb > 0;
  });
});
