import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { publishExampleImage } from "@svc/deploy/examples";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { type Cluster, startCluster } from "../cluster.ts";
import { type Deployed, deploy, getDeployment, parseFacts } from "../support/deploy.ts";
import { edgeFetch } from "../support/edge.ts";
import { waitFor } from "../support/wait-for.ts";

let cluster: Cluster;
beforeAll(async () => {
  cluster = await startCluster();
});
afterAll(() => cluster?.[Symbol.asyncDispose]());

/** The one running container of a project. */
async function containerOf(projectId: string) {
  const found = await waitFor("one running container", 30_000, async () => {
    const ours = (await cluster.containers()).filter(
      ({ labels, state }) => labels["svc.project"] === projectId && state === "running",
    );
    return ours.length === 1 ? ours[0] : null;
  });
  return cluster.platform.docker.getContainer(found.id).inspect();
}

const plan = z.looseObject({ memoryMb: z.number(), cpuMillicores: z.number(), pidsLimit: z.number() });

describe("a static site with a build step", () => {
  let site: Deployed;
  beforeAll(async () => {
    site = await deploy(cluster, await cluster.exampleDir("static"));
  });

  test("is running after `svc deploy`", () => {
    expect(site.deployment.status).toBe("running");
    expect(site.channel).toBe("production");
  });

  test.each(["/", "/about", "/sky"])("serves the page %s", async (path) => {
    const reply = await edgeFetch(`${site.url}${path}`);
    expect(reply.status).toBe(200);
    expect(reply.headers.get("content-type")).toContain("text/html");
    expect(await reply.text()).toContain("Northlight");
  });

  test("serves its assets, and answers 304 to who has them already", async () => {
    const page = await (await edgeFetch(site.url)).text();
    const [, asset = ""] = /<img[^>]+src="(\/assets\/[^"]+\.svg)"/.exec(page) ?? [];
    const reply = await edgeFetch(`${site.url}${asset}`);
    expect(reply.status).toBe(200);
    expect(reply.headers.get("content-type")).toContain("image/svg+xml");
    const again = await edgeFetch(`${site.url}${asset}`, {
      headers: { "if-none-match": reply.headers.get("etag") ?? "" },
    });
    expect(again.status).toBe(304);
  });

  test("shows its own page for what is not there", async () => {
    const reply = await edgeFetch(`${site.url}/no/such/page`);
    expect(reply.status).toBe(404);
    expect(await reply.text()).toContain("A dark patch of sky");
  });

  test("needs no container", async () => {
    expect((await cluster.containers()).filter(({ labels }) => labels["svc.project"] === site.project.id)).toEqual([]);
  });
});

describe("a server built from source", () => {
  let site: Deployed;
  beforeAll(async () => {
    site = await deploy(cluster, await cluster.exampleDir("ssr"));
  });

  test("renders its page and knows its deployment", async () => {
    const page = await edgeFetch(site.url);
    expect(page.status).toBe(200);
    expect(await page.text()).toContain("Departures");
    const { platform } = parseFacts(await (await edgeFetch(`${site.url}/api/facts`)).json());
    expect(Object.values(platform)).toContain(site.deployment.id);
  });

  test("runs under the plan's limits and without rights", async () => {
    const { body } = await cluster.api("GET", "/account/usage");
    const limits = plan.parse(body["plan"]);
    const { HostConfig, Config } = await containerOf(site.project.id);
    expect(HostConfig.Memory).toBe(limits.memoryMb * 1024 ** 2);
    expect(HostConfig.MemorySwap).toBe(limits.memoryMb * 1024 ** 2);
    expect(HostConfig.NanoCpus).toBe(limits.cpuMillicores * 1e6);
    expect(HostConfig.PidsLimit).toBe(limits.pidsLimit);
    expect(HostConfig.CapDrop).toContain("ALL");
    expect(HostConfig.SecurityOpt).toContainEqual(expect.stringContaining("no-new-privileges"));
    expect(HostConfig.Privileged).toBe(false);
    expect(HostConfig.Binds ?? []).toEqual([]);
    expect(["", "0", "root"]).not.toContain(Config.User);
  });

  test("is published on its node's private address only", async () => {
    const { NetworkSettings } = await containerOf(site.project.id);
    const addresses = Object.values(NetworkSettings.Ports).flatMap((bindings) =>
      (bindings ?? []).map(({ HostIp }) => HostIp),
    );
    expect(addresses).not.toEqual([]);
    for (const address of addresses) expect(address).toMatch(/^127\.0\.\d+\.\d$/);
  });

  test("runs an image that is named by its digest", async () => {
    const { Config, Image } = await containerOf(site.project.id);
    const { RepoDigests } = await cluster.platform.docker.getImage(Image).inspect();
    expect(Config.Image).toMatch(/@sha256:[0-9a-f]{64}$|^sha256:[0-9a-f]{64}$/);
    expect(RepoDigests?.some((name) => name.startsWith(cluster.platform.registry.host))).toBe(true);
  });

  test("shows the build and the release command in its log", async () => {
    // What a command writes comes by itself, perhaps after the news of its end.
    const log = await waitFor("what the release command writes", 30_000, async () => {
      const result = await cluster.cli(["logs", site.deployment.id, "--json"]);
      const text = String(result.json()["log"]);
      return text.includes("release: the timetable is sound") && text;
    });
    expect(log).toMatch(/npm (ci|install)/);
    expect(site.deployment.release?.status).toBe("succeeded");
  });

  test("passes on what the app prints", async () => {
    const lines = await waitFor("runtime log", 15_000, async () => {
      const result = await cluster.cli(["logs", "--runtime", "--json", "--project", site.slug]);
      const found = z.array(z.string()).parse(result.json()["lines"]);
      return found.length > 0 ? found : null;
    });
    expect(lines.join("\n")).toContain("Server listening");
  });

  test("answers `svc verify`, `svc status` and `svc projects list`", async () => {
    const verify = await cluster.cli(["verify", "--json", "--project", site.slug], {
      cwd: await cluster.exampleDir("ssr"),
    });
    expect(verify.exitCode).toBe(0);
    expect(verify.json()["health"]).toMatchObject({ status: 200 });
    const status = await cluster.cli(["status", "--json", "--project", site.slug]);
    expect(status.json()["deployments"]).toMatchObject([{ id: site.deployment.id, status: "running" }]);
    const list = await cluster.cli(["projects", "list", "--json"]);
    expect(list.json()["projects"]).toContainEqual(
      expect.objectContaining({ slug: site.slug, status: "running", url: site.url }),
    );
  });

  test("a failing release command fails the deploy and leaves the site as it was", async () => {
    const cwd = await cluster.exampleDir("ssr");
    await writeFile(join(cwd, "src", "release.js"), 'console.error("the schema is from tomorrow"); process.exit(7);\n');
    const result = await cluster.cli(["deploy", "--prod", "--json"], { cwd });
    expect(result.exitCode).toBe(4);
    expect(result.json()["error"]).toMatchObject({ code: "DEPLOY_FAILED" });
    const { platform } = parseFacts(await (await edgeFetch(`${site.url}/api/facts`)).json());
    expect(Object.values(platform)).toContain(site.deployment.id);
  });

  test("a build that fails says why, and leaves the site as it was", async () => {
    const cwd = await cluster.exampleDir("ssr");
    await writeFile(
      join(cwd, "package.json"),
      '{ "name": "departure-board", "dependencies": { "fastify": "0.0.0-none" } }\n',
    );
    const result = await cluster.cli(["deploy", "--prod", "--json"], { cwd });
    expect(result.exitCode).toBe(4);
    expect((await edgeFetch(site.url)).status).toBe(200);
  });
});

describe("a server with a database of its own", () => {
  let cwd: string;
  let site: Deployed;
  beforeAll(async () => {
    cwd = await cluster.exampleDir("database");
    site = await deploy(cluster, cwd);
  });

  const write = (fields: Record<string, string>) =>
    edgeFetch(`${site.url}/books`, {
      method: "POST",
      headers: { "content-type": "application/x-www-form-urlencoded" },
      body: new URLSearchParams(fields).toString(),
    });
  const shown = async () => (await edgeFetch(site.url)).text();

  test("shows an empty list once the release command has made its tables", async () => {
    const page = await edgeFetch(site.url);
    expect(page.status).toBe(200);
    expect(await page.text()).toContain("Nothing is on the list yet");
    expect(site.deployment.release?.status).toBe("succeeded");
    const { body } = await cluster.api("GET", `/projects/${site.project.id}/database/migrations`);
    expect(body).toMatchObject({ tableExists: true });
    expect(JSON.stringify(body)).toMatch(/0001-books\.sql.*0002-notes\.sql|0002-notes\.sql.*0001-books\.sql/);
  });

  test("refuses what does not fit, and keeps what was typed", async () => {
    const reply = await write({ title: " ", note: "A book without a name" });
    expect(reply.status).toBe(422);
    expect(await reply.text()).toMatch(/Title is missing.*A book without a name/s);
    expect((await write({ title: "x".repeat(121) })).status).toBe(422);
    expect((await write({ title: "x".repeat(20_000) })).status).toBe(413);
    expect(await shown()).toContain("Nothing is on the list yet");
  });

  test("an entry is there after a redeploy, as text", async () => {
    const reply = await write({ title: "Tides & <b>Currents</b>", note: "'); drop table book; --" });
    expect(reply.status).toBe(303);
    const entry = "Tides &amp; &lt;b&gt;Currents&lt;/b&gt;";
    expect(await shown()).toContain(entry);
    const again = await deploy(cluster, cwd);
    const page = await waitFor("the page of the new deployment", 60_000, async () => {
      const text = await shown();
      return text.includes(again.deployment.id) && text;
    });
    expect(page).toContain(entry);
    expect(page).toContain("&#39;); drop table book; --");
  });
});

describe("an image by reference", () => {
  let site: Deployed;
  let digest = "";
  beforeAll(async () => {
    const { docker, baseImage, registry } = cluster.platform;
    digest = await publishExampleImage({ docker, baseImage, registry });
    site = await deploy(cluster, await cluster.exampleDir("ociimage"));
  });

  test("is served", async () => {
    const reply = await edgeFetch(site.url);
    expect(reply.status).toBe(200);
    expect(await reply.text()).toContain("The tide is");
  });

  test("is pinned to the digest that its tag had", async () => {
    const { artifact } = await getDeployment(cluster, site.deployment.id);
    expect(artifact?.digest).toBe(digest);
    const { Image } = await containerOf(site.project.id);
    const { RepoDigests } = await cluster.platform.docker.getImage(Image).inspect();
    expect(RepoDigests?.some((name) => name.endsWith(`@${digest}`))).toBe(true);
  });

  test("that is not there fails with a reason, and leaves the site as it was", async () => {
    const cwd = await cluster.exampleDir("ociimage");
    const { host } = cluster.platform.registry;
    await writeFile(
      join(cwd, "svc.yml"),
      `version: 2\nname: Tide clock\ntype: ociimage\nport: 8080\nimage: { reference: "${host}/examples/tide-clock:9.9.9" }\n`,
    );
    const result = await cluster.cli(["deploy", "--prod", "--json", "--project", site.slug], { cwd });
    expect(result.exitCode).toBe(4);
    expect((await edgeFetch(site.url)).status).toBe(200);
  });
});

test("a host that nobody has gets the platform's own 404 page", async () => {
  const { ports, contentDomain } = cluster.platform;
  const reply = await edgeFetch(`http://nobody-here.${contentDomain}:${ports.http}/`);
  expect(reply.status).toBe(404);
  expect(reply.headers.get("content-type")).toContain("text/html");
});

test("sites answer over HTTPS too", async () => {
  const { ports, contentDomain } = cluster.platform;
  const reply = await edgeFetch(`https://example-static.${contentDomain}:${ports.https}/`);
  expect(reply.status).toBe(200);
});
