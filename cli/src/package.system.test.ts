import { readdir, readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { aDeployment, anAccepted, aProject, aUser, deploymentId, ok, projectId, startApi } from "./testing/api.ts";
import { connectMcp } from "./testing/mcp.ts";
import { installPackage } from "./testing/package.ts";
import { aDirectory, envelopeOf, svc } from "./testing/svc.ts";

test("what npm packs is installed into an empty directory without a registry, and works", {
  timeout: 240_000,
}, async () => {
  await using place = await aDirectory();
  const { program, manifest } = await installPackage(join(place.path, "prefix"));

  expect(Object.keys(manifest).filter((key) => /dependencies|private|scripts/i.test(key))).toEqual([]);
  expect(manifest).toMatchObject({ name: "svc-cli", engines: { node: expect.stringContaining(">=22") } });
  const root = join(place.path, "prefix", "lib", "node_modules", "svc-cli");
  const licences = await readFile(join(root, "dist", "THIRD-PARTY-LICENCES.txt"), "utf8");
  expect(licences).toMatch(/---- commander \S+ \(MIT\) ----\n\n\(The MIT License\)/);
  for (const name of ["core", "server"])
    expect(licences).toMatch(new RegExp(`---- @modelcontextprotocol/${name} \\S+ \\(Apache-2.0\\) ----`));
  await expectNothingInlined(join(root, "dist"));

  await using api = await startApi({
    "GET /api/v1/me": ok({ user: aUser, scopes: null, projectIds: null }),
    "GET /api/v1/projects": ok({ projects: [aProject()] }),
    [`POST /api/v1/projects/${projectId}/deployments`]: ok(anAccepted(), 202),
    [`GET /api/v1/deployments/${deploymentId}`]: ok({ deployment: aDeployment() }),
    [`GET /api/v1/deployments/${deploymentId}/logs`]: ok({ log: "", offset: 0 }),
  });
  await using site = await aDirectory({
    "svc.yml": "version: 2\nslug: shop\napp: { name: Shop, type: static }\n",
    "index.html": "",
  });
  const options = { cwd: site.path, env: { SVC_TOKEN: "svc_key-secret", SVC_API_URL: api.url }, program };
  expect(envelopeOf(await svc(["whoami", "--json"], options))).toMatchObject({ ok: true, user: { id: aUser.id } });
  expect(envelopeOf(await svc(["deploy", "--json"], options))).toMatchObject({ ok: true, operation: "deploy" });
  await using client = await connectMcp({ cwd: site.path, env: options.env, program });
  expect((await client.listTools()).tools.map(({ name }) => name)).toContain("get_project");
  // Templates are in the bundle, and not as files beside it.
  await using empty = await aDirectory();
  const template = ["init", "--template", "realtime-todo", "--json"];
  expect(envelopeOf(await svc(template, { ...options, cwd: empty.path }))).toMatchObject({ ok: true, app: "Todos" });
  expect(await readFile(join(empty.path, "vendor", "svc-realtime", "client.js"), "utf8")).toContain("subscribe");
});

/** The SDK of the MCP server has packages in its files that its licence says nothing of: none of them may be in ours. */
async function expectNothingInlined(dist: string): Promise<void> {
  const files = await readdir(join(dist, "chunks"));
  const texts = await Promise.all(files.map((file) => readFile(join(dist, "chunks", file), "utf8")));
  // Words of ajv, of its formats, and of content-type.
  for (const word of ["ajv implementation error", "fullFormats", "invalid media type"])
    expect(texts.filter((text) => text.includes(word))).toEqual([]);
}

test("the launcher needs the Node that the package asks for", async () => {
  const cli = dirname(dirname(fileURLToPath(import.meta.url)));
  const { engines } = JSON.parse(await readFile(join(cli, "package.json"), "utf8"));
  const [, major, minor] = /^>=(\d+)\.(\d+)$/.exec(engines.node) ?? [];
  expect(await readFile(join(cli, "bin", "svc.mjs"), "utf8")).toContain(`[${major}, ${minor}]`);
});
