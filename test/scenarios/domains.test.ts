import { startDns, type TestDns } from "@svc/control/stores/dns/testing";
import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { type Cluster, startCluster } from "../cluster.ts";
import { type Deployed, deploy } from "../support/deploy.ts";
import { edgeFetch } from "../support/edge.ts";
import { waitFor } from "../support/wait-for.ts";

const waitMs = 60_000;
const domain = "shop.example";
const www = `www.${domain}`;
const edge = "192.0.2.1";

let dns: TestDns[];
let cluster: Cluster;
let cwd = "";
let site: Deployed;
beforeAll(async () => {
  dns = [await startDns(), await startDns("127.0.0.2")];
  const servers = dns.map(({ server }) => server).join(",");
  cluster = await startCluster({ agents: 1, control: { SVC_DNS_SERVERS: servers, SVC_EDGE_ADDRESSES: edge } });
  cwd = await cluster.exampleDir("static");
  site = await deploy(cluster, cwd);
});
afterAll(async () => {
  await cluster?.[Symbol.asyncDispose]();
  for (const each of dns ?? []) await each[Symbol.asyncDispose]();
});

const replyOf = z.looseObject({
  domain: z.looseObject({ records: z.looseObject({ txtName: z.string(), txtValue: z.string() }).optional() }),
});
const listOf = z.looseObject({
  domains: z.array(z.looseObject({ status: z.string(), dnsStatus: z.string(), routingTarget: z.string() })),
});

/** The command on the project, which has to succeed. */
async function svc(...args: string[]): Promise<Record<string, unknown>> {
  const ended = await cluster.cli(["domains", ...args, "--project", site.slug, "--json"], { cwd });
  expect([ended.exitCode, ended.stderr]).toEqual([0, ""]);
  return ended.json();
}
const list = async () => listOf.parse(await svc("ls")).domains;

/** As a visitor of a name would: over plain HTTP, at the edge's port. */
const visit = (host: string, path = "/") => edgeFetch(`http://${host}:${new URL(site.url).port}${path}`);
const serves = (host: string) => waitFor(`${host} to serve`, waitMs, async () => (await visit(host)).status === 200);
const isNobodys = (host: string) =>
  waitFor(`${host} to be nobody's`, waitMs, async () => (await visit(host)).status === 404);

test("a domain is added, proven, served with its www, led to the preview, disabled and removed", {
  timeout: 300_000,
}, async () => {
  const { domain: added } = replyOf.parse(await svc("add", domain));
  const { txtName = "", txtValue = "" } = added.records ?? {};
  for (const each of dns) each.set(domain, { A: [edge] });
  await svc("verify", domain);
  await waitFor("where it leads", waitMs, async () => (await list())[0]?.dnsStatus === "direct");
  // It leads here, and that is all that is known of it.
  expect((await list())[0]?.status).toBe("pending");
  expect((await visit(domain)).status).toBe(404);

  for (const each of dns) each.set(txtName, { TXT: [txtValue] });
  await svc("verify", domain);
  await serves(domain);
  expect(await list()).toMatchObject([{ status: "verified", dnsStatus: "direct", routingTarget: "production" }]);
  expect(await (await visit(domain)).text()).toBe(await (await edgeFetch(site.url)).text());

  const { port } = new URL(site.url);
  const redirect = await visit(www, "/a?b=c");
  expect([redirect.status, redirect.headers.get("location")]).toEqual([308, `http://${domain}:${port}/a?b=c`]);

  await svc("route", domain, "preview");
  await waitFor("production to be gone from it", waitMs, async () => (await visit(domain)).status !== 200);
  await cluster.api("PATCH", `/projects/${site.project.id}`, { deployMode: "preview" });
  const preview = await cluster.cli(["deploy", "--json"], { cwd });
  expect(preview.json()).toMatchObject({ ok: true, channel: "preview" });
  await serves(domain);

  await svc("route", domain, "disabled");
  for (const host of [domain, www]) await isNobodys(host);
  expect((await edgeFetch(site.url)).status).toBe(200);
  expect(await list()).toMatchObject([{ status: "verified", routingTarget: "disabled" }]);

  await svc("route", domain, "production");
  await serves(domain);
  await svc("redirect", domain, new URL(site.url).hostname);
  const moved = await waitFor("it to redirect", waitMs, async () => {
    const answer = await visit(www, "/a?b=c");
    return answer.headers.get("location")?.startsWith(new URL(site.url).origin) ? answer : null;
  });
  expect([moved.status, moved.headers.get("location")]).toEqual([308, `${new URL(site.url).origin}/a?b=c`]);
  await svc("redirect", domain, "off");
  await serves(domain);
  await svc("rm", domain, "--yes");
  for (const host of [domain, www]) await isNobodys(host);
  expect(await list()).toEqual([]);
});
