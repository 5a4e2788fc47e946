import { rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { expect, test } from "vitest";
import {
  aDeployment,
  anAccepted,
  aProject,
  deploymentId,
  ok,
  projectId,
  type Routes,
  refusal,
  type Seen,
  startApi,
} from "../testing/api.ts";
import { aPort, startSvc } from "../testing/running.ts";
import { aDirectory, envelopeOf, svc } from "../testing/svc.ts";

const upload = `POST /api/v1/projects/${projectId}/deployments`;
const poll = `GET /api/v1/deployments/${deploymentId}`;
const usage = "GET /api/v1/account/usage";
const url = "http://dev-shop.svc.localhost:8080";
const at = "2030-01-01T00:00:00.000Z";

const aPlan = (fields: object = {}) => ({
  ...{ slug: "standard", name: "Standard", isDefault: true, nodeSelector: {}, memoryMb: 512, cpuMillicores: 1000 },
  ...{ pidsLimit: 256, maxProjects: 10, maxDeploysPerHour: 60, maxUploadMb: 100, maxImageMb: 1024, maxEnvVars: 100 },
  ...{ rateLimitPerMinute: null, monthlyRequests: null, monthlyBandwidthMb: null, storageMb: 1024, dbSizeMb: 512 },
  ...{ dbConnectionLimit: 20, maxDatabases: 3, maxBackups: 5, maxSseConnections: 25, maxScheduledJobs: 5 },
  ...{ maxCustomDomains: 5, maxReplicas: 2, maxDrainSeconds: 60, devSyncEnabled: true, previewsEnabled: true },
  ...{ databaseEnabled: true, createdAt: at, updatedAt: at, ...fields },
});
const used = (deploysLastHour: number) => ({
  ...{ projects: 1, monthlyRequests: 0, monthlyBandwidthMb: 0, diskBytes: 0, deploysLastHour },
});

const routes: Routes = {
  [usage]: ok({ plan: aPlan(), usage: used(3) }),
  [`GET /api/v1/projects/${projectId}`]: ok({ project: aProject({ type: "ssr" }), deployments: [] }),
  "GET /api/v1/projects": ok({ projects: [aProject({ type: "ssr" })] }),
  [upload]: ok(anAccepted({ channel: "dev", url }), 202),
  [poll]: ok({ deployment: aDeployment({ channel: "dev", url }) }),
  [`GET /api/v1/deployments/${deploymentId}/logs`]: ok({ log: "", offset: 0 }),
};
const server = `require("node:http").createServer((_, r) => r.end()).listen(process.env.PORT, () => console.log("it listens"));`;
const files = {
  "svc.yml": "version: 2\nslug: shop\napp: { name: Shop, type: ssr }\n",
  "package.json": "{}",
  "index.js": server,
  ".gitignore": "*.log\nbuilt/\n",
};
const envOf = (api: { url: string }) => ({ SVC_TOKEN: "svc_key-secret", SVC_API_URL: api.url });
const uploadsOf = ({ seen }: { seen: Seen[] }) => seen.filter(({ method, path }) => `${method} ${path}` === upload);

/** The unpacked archive of an upload, as text in which names and contents stand. */
function archiveOf({ body }: Seen): string {
  const begin = body.indexOf(Buffer.from([0x1f, 0x8b, 0x08]));
  return gunzipSync(body.subarray(begin, body.lastIndexOf("\r\n--"))).toString("latin1");
}
const manifestOf = ({ body }: Seen) => /name="manifest"\r\n\r\n(\{.*\})\r\n/.exec(body.toString("latin1"))?.[1] ?? "";

test("--sync-only deploys once to the dev channel", async () => {
  await using api = await startApi(routes);
  await using directory = await aDirectory(files);
  const ended = await svc(["dev", "--sync-only", "--json"], { cwd: directory.path, env: envOf(api) });
  expect(envelopeOf(ended)).toMatchObject({
    ...{ ok: true, operation: "dev", channel: "dev", url, slug: "shop", project: { id: projectId } },
    ...{ deployment: { id: deploymentId, status: "running" }, source: { files: 4, bytes: expect.any(Number) } },
  });
  expect(ended.status).toBe(0);
  const [sent] = uploadsOf(api);
  expect(sent && JSON.parse(manifestOf(sent))).toMatchObject({ channel: "dev" });
});

test.each<[string, Record<string, string>, Routes, string, number]>([
  [
    "a plan without it",
    files,
    { [usage]: ok({ plan: aPlan({ devSyncEnabled: false }), usage: used(0) }) },
    "DEV_SYNC_UNAVAILABLE",
    1,
  ],
  [
    "a plan that has just lost it",
    files,
    { [upload]: refusal(403, "PLAN_FEATURE_UNAVAILABLE") },
    "DEV_SYNC_UNAVAILABLE",
    1,
  ],
  [
    "a static site",
    { "svc.yml": "version: 2\nslug: shop\napp: { name: Shop, type: static }\n" },
    {},
    "DEV_SYNC_UNAVAILABLE",
    1,
  ],
  [
    "an image",
    { "svc.yml": "version: 2\nname: Shop\ntype: ociimage\nport: 80\nimage: { reference: 'nginx:1' }\n" },
    {},
    "DEV_SYNC_UNAVAILABLE",
    1,
  ],
  ["no manifest", { "index.js": server }, {}, "MANIFEST_NOT_FOUND", 2],
  [
    "a build that fails",
    files,
    { [poll]: ok({ deployment: aDeployment({ status: "failed", error: "boom" }) }) },
    "DEPLOY_FAILED",
    4,
  ],
])("with %s --sync-only fails", async (_what, own, other, code, status) => {
  await using api = await startApi({ ...routes, ...other });
  await using directory = await aDirectory(own);
  const ended = await svc(["dev", "--sync-only", "--json"], { cwd: directory.path, env: envOf(api) });
  expect(envelopeOf(ended)).toMatchObject({
    ok: false,
    operation: "dev",
    error: { code, message: expect.any(String) },
  });
  expect(ended.status).toBe(status);
});

test("a key that may not see the plan is let through", async () => {
  await using api = await startApi({ ...routes, [usage]: refusal(403, "FORBIDDEN_SCOPE") });
  await using directory = await aDirectory(files);
  const ended = await svc(["dev", "--sync-only", "--json"], { cwd: directory.path, env: envOf(api) });
  expect(envelopeOf(ended)).toMatchObject({ ok: true, channel: "dev" });
});

test("the Dev branch is there before anything is uploaded", async () => {
  const branch = {
    ...{ channel: "dev", engine: null, enabled: false, status: null, sizeBytes: 0, sizeLimitMb: 512 },
    ...{ connectionLimit: 20, reason: null, readOnly: false, protection: null },
  };
  await using api = await startApi({
    ...routes,
    [`GET /api/v1/projects/${projectId}/database`]: ok(branch),
    [`POST /api/v1/projects/${projectId}/database`]: refusal(403, "QUOTA_EXCEEDED"),
  });
  await using directory = await aDirectory({
    ...files,
    "svc.yml": `${files["svc.yml"]}database: { enabled: true }\n`,
  });
  const ended = await svc(["dev", "--sync-only", "--json"], { cwd: directory.path, env: envOf(api) });
  expect(envelopeOf(ended)).toMatchObject({ error: { message: expect.stringContaining("QUOTA_EXCEEDED") } });
  expect(api.seen.some(({ path }) => path.includes("/database?channel=dev"))).toBe(true);
  expect(uploadsOf(api)).toEqual([]);
});

test("a project that is not there yet is made before its database is asked for", async () => {
  const project = ok({ project: aProject({ type: "ssr" }) }, 201);
  const branch = { channel: "dev", engine: "postgres", enabled: true, status: "ready", sizeBytes: 1, sizeLimitMb: 512 };
  const given = () => ok({ channel: "dev", engine: "postgres", databaseUrl: near(), expiresAt: null, note: "" });
  await using api = await startApi({
    ...{ ...routes, "GET /api/v1/projects": ok({ projects: [] }), "POST /api/v1/projects": project },
    [`GET /api/v1/projects/${projectId}/database`]: ok({
      ...{ ...branch, connectionLimit: 20, reason: null, readOnly: false, protection: null },
    }),
    [`POST /api/v1/projects/${projectId}/database/dev-credentials`]: given,
  });
  /** Somebody answers there, which is all that is asked of a database that is near. */
  const near = () => api.url.replace("http://", "postgres://u:p@");
  await using directory = await aDirectory({ ...files, "svc.yml": "version: 2\napp: { name: Shop, type: ssr }\n" });
  await using dev = startSvc(["dev", "--db", "--sync", "--json", "--port", String(await aPort())], {
    cwd: directory.path,
    env: envOf(api),
  });
  await dev.says("it listens");
  await dev.says("has what was saved");
  dev.kill("SIGINT");
  const ended = await dev.ended;
  expect(envelopeOf(ended)).toMatchObject({ ok: true, framework: "node" });
  expect(api.seen.filter(({ method, path }) => `${method} ${path}` === "POST /api/v1/projects")).toHaveLength(1);
});

test("saves are deployed together, what changes nothing is not, and what is ignored is not heard", async () => {
  await using api = await startApi(routes);
  await using directory = await aDirectory(files);
  const file = (name: string) => join(directory.path, name);
  await using dev = startSvc(["dev", "--sync", "--json", "--port", String(await aPort())], {
    cwd: directory.path,
    env: envOf(api),
  });
  await dev.says("it listens");
  await dev.says(/sync: .*dev-shop.* has what was saved/);
  expect(uploadsOf(api)).toHaveLength(1);
  const fromMs = performance.now();
  // As editors save: beside it, and then in its place.
  for (let each = 0; each < 500; each++) {
    await writeFile(file("page.js.swp"), `// ${each}`);
    await rename(file("page.js.swp"), file("page.js"));
    await writeFile(file("noise.log"), String(each));
  }
  await expect.poll(() => uploadsOf(api).map(archiveOf).at(-1)).toContain("// 499");
  // On a machine that is busy the saves themselves may come with pauses.
  expect(uploadsOf(api).length).toBeLessThanOrEqual(3 + Math.floor((performance.now() - fromMs) / 10_000));
  const before = uploadsOf(api).length;
  // The same bytes again, then others in a directory that was not there: only these are deployed.
  await writeFile(file("page.js"), "// 499");
  await svcTree(directory.path);
  await expect.poll(() => uploadsOf(api).map(archiveOf).at(-1)).toContain("deep down");
  expect(uploadsOf(api).length).toBeGreaterThan(before);
  const last = uploadsOf(api).at(-1);
  expect(last && archiveOf(last)).not.toContain("noise.log");
  dev.kill("SIGINT");
  expect(envelopeOf(await dev.ended)).toMatchObject({ ok: true, framework: "node" });
});

async function svcTree(directory: string): Promise<void> {
  const { mkdir } = await import("node:fs/promises");
  await mkdir(join(directory, "src/lib"), { recursive: true });
  await writeFile(join(directory, "src/lib/deep.js"), "// deep down");
}

test("unchanged bytes are not deployed", async () => {
  await using api = await startApi(routes);
  await using directory = await aDirectory(files);
  await using dev = startSvc(["dev", "--sync", "--json", "--verbose", "--port", String(await aPort())], {
    cwd: directory.path,
    env: envOf(api),
  });
  await dev.says(/has what was saved/);
  await writeFile(join(directory.path, "index.js"), server);
  await dev.says(/nothing has changed/);
  expect(uploadsOf(api)).toHaveLength(1);
});

test("a sync that fails leaves the server and the last deployment alone, and the next save is tried", async () => {
  const failed = aDeployment({ channel: "dev", url, status: "failed", error: "npm ci failed" });
  await using api = await startApi({
    ...routes,
    [poll]: [ok({ deployment: failed }), ok({ deployment: aDeployment({ channel: "dev", url }) })],
  });
  await using directory = await aDirectory(files);
  await using dev = startSvc(["dev", "--sync", "--json", "--port", String(await aPort())], {
    cwd: directory.path,
    env: envOf(api),
  });
  await dev.says(/sync: DEPLOY_FAILED: npm ci failed/);
  await writeFile(join(directory.path, "index.js"), `${server}\n`);
  await dev.says(/has what was saved/);
  expect(uploadsOf(api)).toHaveLength(2);
  dev.kill("SIGTERM");
  expect((await dev.ended).status).toBe(0);
});

test("too many deployments wait for as long as the platform says, and what is left is told", async () => {
  const busy = { ...refusal(429, "RATE_LIMITED", "60 deployments within an hour."), headers: { "retry-after": "1" } };
  await using api = await startApi({
    ...routes,
    [usage]: ok({ plan: aPlan(), usage: used(58) }),
    [upload]: [busy, ok(anAccepted({ channel: "dev", url }), 202)],
  });
  await using directory = await aDirectory(files);
  await using dev = startSvc(["dev", "--sync", "--json", "--port", String(await aPort())], {
    cwd: directory.path,
    env: envOf(api),
  });
  await dev.says(/60 deployments within an hour.*next one begins in 1/);
  await dev.says(/has what was saved/);
  await dev.says(/2 of 60 deployments are left/);
});

test("ended right after a sync, it does not say that this goes on", async () => {
  const plan = ok({ plan: aPlan(), usage: used(3) });
  // More than comes: whoever asked how many deployments are left waits for the rest.
  const endless = { ...plan, headers: { "content-length": "99999" } };
  await using api = await startApi({ ...routes, [usage]: [plan, endless] });
  await using directory = await aDirectory(files);
  await using dev = startSvc(["dev", "--sync", "--json", "--port", String(await aPort())], {
    cwd: directory.path,
    env: envOf(api),
  });
  await dev.says("it listens");
  await dev.says("has what was saved");
  await expect.poll(() => api.seen.filter(({ path }) => path === "/api/v1/account/usage")).toHaveLength(2);
  dev.kill("SIGINT");
  const { stderr, status } = await dev.ended;
  expect(stderr).not.toContain("goes on without you");
  expect(status).toBe(0);
});

test("killed in the middle of a sync, it syncs the next time", async () => {
  let kill = () => {};
  await using api = await startApi({
    ...routes,
    [upload]: () => {
      kill();
      return ok(anAccepted({ channel: "dev", url }), 202);
    },
  });
  await using directory = await aDirectory({ ...files, "index.js": "" });
  const options = { cwd: directory.path, env: envOf(api) };
  await using dev = startSvc(["dev", "--sync-only", "--json"], options);
  kill = () => dev.kill("SIGKILL");
  expect((await dev.ended).status).toBe(null);
  kill = () => {};
  expect(envelopeOf(await svc(["dev", "--sync-only", "--json"], options))).toMatchObject({ ok: true, channel: "dev" });
});
