import { createHash, X509Certificate } from "node:crypto";
import { appendFile } from "node:fs/promises";
import { request } from "node:https";
import { text } from "node:stream/consumers";
import { chromiumLaunch } from "@svc/runtime/testing/chromium";
import { chromium } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { type Cluster, startCluster } from "../cluster.ts";
import { type Deployed, deploy } from "../support/deploy.ts";
import { waitFor } from "../support/wait-for.ts";

const waitMs = 120_000;
const requestMs = 15_000;
const domain = "shop.example";
const www = `www.${domain}`;

let cluster: Cluster;
let cwd = "";
let site: Deployed;
/** What vouches for the sites' certificates; the CA has made it at its start. */
let authority = "";
beforeAll(async () => {
  cluster = await startCluster({ agents: 1, acme: true });
  cwd = await cluster.exampleDir("static");
  site = await deploy(cluster, cwd);
  const roots = `https://localhost:${cluster.platform.ports.acmeRoots}/roots/0`;
  authority = (await ask(roots, { isTrusted: false })).body;
});
afterAll(() => cluster?.[Symbol.asyncDispose]());

interface Answer {
  status: number;
  location: string | undefined;
  /** Strict-Transport-Security. */
  hsts: string | undefined;
  body: string;
  certificate: X509Certificate | undefined;
}

/** Asks this machine, whatever the host, and believes what the CA vouches for alone. Rejects when there is no TLS for the name. */
const ask = (url: string, { isTrusted = true } = {}): Promise<Answer> =>
  new Promise((resolve, reject) => {
    const { hostname, port, pathname, host } = new URL(url);
    const trust = isTrusted ? { ca: authority } : { rejectUnauthorized: false };
    const about = { host: "127.0.0.1", port, path: pathname, servername: hostname, headers: { host }, agent: false };
    const asked = request({ ...about, ...trust, timeout: requestMs }, async (answer) => {
      const { raw } =
        "getPeerCertificate" in answer.socket ? (answer.socket as never as Peer).getPeerCertificate() : {};
      const certificate = raw && new X509Certificate(raw);
      resolve({
        status: answer.statusCode ?? 0,
        location: answer.headers.location,
        hsts: answer.headers["strict-transport-security"],
        body: await text(answer),
        certificate,
      });
    });
    asked.on("timeout", () => asked.destroy(new Error("no answer in time")));
    asked.on("error", reject);
    asked.end();
  });
interface Peer {
  getPeerCertificate(): { raw?: Buffer };
}

const urlOf = (host: string, path = "/") => `https://${host}:${cluster.platform.ports.https}${path}`;
const isServed = (url: string) =>
  waitFor(`${url} to be served`, waitMs, async () => {
    const answer = await ask(url).catch(() => null);
    return answer?.status === 200 ? answer : null;
  });
/** How a handshake ends: without a certificate for the name, by an alert of the other side. */
const endOf = (url: string): Promise<string> =>
  ask(url).then(
    () => "answers",
    (error: Error) => error.message,
  );
const refusal = /ssl.*alert/i;
const isRefused = (host: string) =>
  waitFor(`TLS of ${host} to end`, waitMs, async () => refusal.test(await endOf(urlOf(host))));

const replyOf = z.looseObject({
  domain: z.looseObject({ records: z.looseObject({ txtName: z.string(), txtValue: z.string() }).optional() }),
});
const listOf = z.looseObject({
  domains: z.array(z.looseObject({ certificate: z.looseObject({ status: z.string() }) })),
});

/** The command on the project, which has to succeed. */
async function svc(...args: string[]): Promise<Record<string, unknown>> {
  const ended = await cluster.cli(["domains", ...args, "--project", site.slug, "--json"], { cwd });
  expect([ended.exitCode, ended.stderr]).toEqual([0, ""]);
  return ended.json();
}
const certificateOf = async () => listOf.parse(await svc("ls")).domains[0]?.certificate;

test("sites and a custom domain get certificates, are served by name, and a disabled domain ends TLS", {
  timeout: 600_000,
}, async () => {
  const content = await isServed(site.url);
  expect(content.certificate?.subjectAltName).toBe(`DNS:*.${cluster.platform.contentDomain}`);
  expect(await endOf(urlOf(domain))).toMatch(refusal);

  const { domain: added } = replyOf.parse(await svc("add", domain));
  expect(await certificateOf()).toMatchObject({ status: "none" });
  const { txtName, txtValue } = added.records ?? {};
  await appendFile(cluster.platform.dnsRecords ?? "", `${txtName} ${txtValue}\n`);
  await svc("verify", domain);
  const apex = await isServed(urlOf(domain));
  expect(apex.body).toBe(content.body);
  expect(apex.certificate?.subjectAltName).toBe(`DNS:${domain}`);
  expect(await certificateOf()).toMatchObject({ status: "issued", notAfter: expect.any(String), reason: null });
  const twin = await waitFor("the twin to redirect", waitMs, () => ask(urlOf(www, "/a")).catch(() => null));
  expect([twin.status, twin.location]).toEqual([308, urlOf(domain, "/a")]);
  expect(await endOf(urlOf("other.example"))).toMatch(refusal);
  await isShownByBrowser(apex);

  expect(apex.hsts).toBeUndefined();
  await svc("hsts", domain, "--days", "1");
  for (const host of [domain, www])
    await waitFor(`${host} to be for TLS alone`, waitMs, async () => (await ask(urlOf(host))).hsts === "max-age=86400");
  expect((await ask(site.url)).hsts).toBeUndefined();
  const home = new URL(site.url);
  await svc("redirect", domain, home.hostname);
  for (const host of [domain, www])
    await waitFor(
      `${host} to redirect`,
      waitMs,
      async () => (await ask(urlOf(host, "/a"))).location === new URL("/a", home).href,
    );

  await svc("route", domain, "disabled");
  for (const host of [domain, www]) await isRefused(host);
  expect((await ask(site.url)).status).toBe(200);
  expect(await certificateOf()).toMatchObject({ status: "none" });
});

/** A browser that believes these keys reaches the apex over its twin. */
async function isShownByBrowser({ certificate }: Answer): Promise<void> {
  const twin = (await ask(urlOf(www))).certificate;
  const keys = [certificate, twin].map((each) =>
    createHash("sha256")
      .update(each?.publicKey.export({ type: "spki", format: "der" }) ?? "")
      .digest("base64"),
  );
  const browser = await chromium.launch(
    chromiumLaunch("--host-resolver-rules=MAP * 127.0.0.1", `--ignore-certificate-errors-spki-list=${keys.join(",")}`),
  );
  try {
    const page = await browser.newPage();
    const response = await page.goto(urlOf(www));
    expect([response?.status(), page.url()]).toEqual([200, urlOf(domain)]);
    expect((await response?.securityDetails())?.protocol).toBe("TLS 1.3");
  } finally {
    await browser.close();
  }
}
