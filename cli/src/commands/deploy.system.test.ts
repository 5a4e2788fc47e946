import { randomBytes } from "node:crypto";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { createGunzip } from "node:zlib";
import { siteDoubts } from "@svc/proto";
import { extract } from "tar-stream";
import { describe, expect, test } from "vitest";
import {
  aDeployment,
  anAccepted,
  aProject,
  aRelease,
  deploymentId,
  hangUp,
  ok,
  projectId,
  type Routes,
  refusal,
  type Seen,
  startApi,
} from "../testing/api.ts";
import { aDirectory, envelopeOf, svc } from "../testing/svc.ts";

const manifest = "version: 2\nslug: shop\napp: { name: Shop, type: static }\n";
const post = `POST /api/v1/projects/${projectId}/deployments`;
const poll = `GET /api/v1/deployments/${deploymentId}`;
const running = ok({ deployment: aDeployment() });
const at = "2030-01-01T00:00:00.000Z";
/** Lets the program think that time goes so many times as fast; what it waits for stays as slow as it is. */
const hurried = (times: number) => ({
  NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(
    `const now=performance.now.bind(performance);performance.now=()=>now()*${times}`,
  )}`,
});
const inState = (status: string, fields: object = {}) => ok({ deployment: aDeployment({ status, ...fields }) });

/** A platform that has no project yet. */
const routes: Routes = {
  "GET /api/v1/projects": ok({ projects: [] }),
  "POST /api/v1/projects": ok({ project: aProject() }, 201),
  [`GET /api/v1/projects/${projectId}`]: ok({ project: aProject(), deployments: [] }),
  [post]: ok(anAccepted(), 202),
  [poll]: [inState("queued"), inState("building"), running],
  [`GET /api/v1/deployments/${deploymentId}/logs`]: ok({ log: "", offset: 0 }),
};

/** Deploys a directory with `files` to a platform with `answers`. */
async function deploy(options: {
  answers?: Routes;
  files?: Record<string, string>;
  args?: string[];
  env?: Record<string, string>;
  cwd?: string;
}) {
  await using api = await startApi({ ...routes, ...options.answers });
  await using directory = await aDirectory({ "svc.yml": manifest, "index.html": "<h1>", ...options.files });
  const env = { SVC_TOKEN: "svc_key-secret", SVC_API_URL: api.url, ...options.env };
  const cwd = join(directory.path, options.cwd ?? ".");
  const ended = await svc(["deploy", "--json", ...(options.args ?? [])], {
    cwd,
    env,
    home: join(directory.path, ".home"),
  });
  const state = await readFile(join(cwd, ".svc/state.json"), "utf8").catch(() => null);
  return { ended, envelope: envelopeOf(ended), seen: api.seen, state: state === null ? null : JSON.parse(state) };
}

/** The parts of an upload: its texts, and the names in its archive. */
async function readUpload(seen: readonly Seen[]) {
  const upload = seen.find(({ method, path }) => `${method} ${path}` === post);
  if (upload === undefined) throw new Error("nothing was uploaded");
  const form = await new Response(new Uint8Array(upload.body), {
    headers: { "content-type": upload.headers["content-type"] ?? "" },
  }).formData();
  const source = form.get("source");
  if (!(source instanceof File)) throw new Error("no source");
  const names: string[] = [];
  const tar = Readable.from([Buffer.from(await source.arrayBuffer())])
    .pipe(createGunzip())
    .pipe(extract());
  for await (const entry of tar) {
    names.push(entry.header.name);
    entry.resume();
  }
  return {
    fields: [...form.keys()],
    manifest: JSON.parse(String(form.get("manifest"))),
    metadata: JSON.parse(String(form.get("metadata"))),
    names,
    headers: upload.headers,
    sizeBytes: source.size,
  };
}

describe.concurrent("a site that cannot be right", () => {
  const unlikely = { "svc.yml": `${manifest}build: { output: out }\n`, "out/en/index.html": "", "out/id_rsa": "" };

  test.each(["--json", "--dry-run", "--no-wait"])("is not sent (%s)", async (flag) => {
    const { ended, envelope, seen, state } = await deploy({ files: unlikely, args: [flag] });
    expect(ended.status).toBe(4);
    expect(envelope).toMatchObject({
      ok: false,
      error: {
        code: "DEPLOY_TRIGGER_FAILED",
        message: expect.stringMatching(
          /^Visitors would get the files in out as they are:\n {2}There is no index\.html/,
        ),
        hint: expect.stringMatching(/^Change build\.output in line 4 of svc\.yml\. .*allowUnusual: true.*--yes/),
      },
    });
    expect(seen.filter(({ method }) => method === "POST")).toEqual([]);
    expect(state).toBeNull();
  });

  test.each([{ args: ["--yes"] }, { args: ["--yes", "--no-wait"] }])(
    "is sent with $args, and what the platform finds too is said once",
    async ({ args }) => {
      const known = siteDoubts(["en/index.html", "id_rsa"]);
      const warnings = ["Only the platform knows this.", ...known];
      const answers = {
        [post]: ok(anAccepted({ warnings }), 202),
        [poll]: ok({ deployment: aDeployment({ warnings }) }),
      };
      const { ended, envelope } = await deploy({ files: unlikely, args, answers });
      expect(ended.status).toBe(0);
      expect(envelope).toMatchObject({ warnings: [...known, "Only the platform knows this."] });
    },
  );

  test("is sent when the manifest says that it is meant", async () => {
    const files = { ...unlikely, "svc.yml": `${manifest}build: { output: out, allowUnusual: true }\n` };
    const { ended, envelope, seen } = await deploy({ files });
    expect(ended.status).toBe(0);
    expect(envelope).toMatchObject({ warnings: [] });
    expect((await readUpload(seen)).manifest.build).toEqual({ output: "out", allowUnusual: true });
  });
});

describe.concurrent("a first deploy", () => {
  test("makes the project, links the directory, uploads it, and waits until it runs", async () => {
    const { ended, envelope, seen, state } = await deploy({});
    expect(ended.status).toBe(0);
    const upload = await readUpload(seen);
    expect(envelope).toMatchObject({
      ok: true,
      operation: "deploy",
      url: "http://shop.svc.localhost:8080",
      channel: "production",
      slug: "shop",
      project: { id: projectId, slug: "shop" },
      deployment: { id: deploymentId, status: "running", release: { status: "not_configured" } },
      source: { bytes: upload.sizeBytes, files: 2 },
    });
    const created = seen.find(({ method, path }) => `${method} ${path}` === "POST /api/v1/projects");
    expect(JSON.parse(String(created?.body))).toEqual({ name: "Shop", type: "static", slug: "shop" });
    expect(state).toEqual({ project: { id: projectId, slug: "shop", name: "Shop", type: "static" } });
    expect(upload).toMatchObject({
      fields: ["manifest", "metadata", "source"],
      manifest: { version: 2, app: { name: "Shop", type: "static" }, source: { rootDirectory: "." } },
      metadata: { trigger: "cli" },
      names: ["index.html", "svc.yml"],
    });
    expect(upload.manifest).not.toHaveProperty("channel");
    expect(upload.headers["idempotency-key"]).toMatch(/^[0-9a-f-]{36}$/);
    expect(upload.headers["transfer-encoding"]).toBeUndefined();
  });

  test("takes the project of that slug when there is one", async () => {
    const { seen, state } = await deploy({ answers: { "GET /api/v1/projects": ok({ projects: [aProject()] }) } });
    expect(seen.map(({ method, path }) => `${method} ${path}`)).not.toContain("POST /api/v1/projects");
    expect(state).toMatchObject({ project: { id: projectId } });
  });

  test("takes the project of a slug that is reserved by now, and makes no new one of that name", async () => {
    const files = { "svc.yml": manifest.replace("slug: shop", "slug: login") };
    const projects = [aProject({ slug: "login" })];
    const kept = await deploy({ files, answers: { "GET /api/v1/projects": ok({ projects }) } });
    expect(kept.ended.status).toBe(0);
    const { ended, envelope, seen } = await deploy({ files });
    expect(ended.status).toBe(2);
    expect(envelope).toMatchObject({
      error: { code: "MANIFEST_INVALID", message: expect.stringContaining('The slug "login" is reserved.') },
    });
    expect(seen.map(({ method }) => method)).not.toContain("POST");
  });

  test("that is refused after the project was made makes no second one", async () => {
    const { envelope, state } = await deploy({ answers: { [post]: refusal(413, "UPLOAD_TOO_LARGE") } });
    expect(envelope).toMatchObject({ error: { code: "DEPLOY_TRIGGER_FAILED" } });
    expect(state).toMatchObject({ project: { id: projectId } });
  });
});

describe.concurrent("where it goes", () => {
  const linked = {
    ".svc/state.json": JSON.stringify({
      apiUrl: "https://evil.example.test",
      project: { id: projectId, slug: "shop" },
    }),
  };

  test("to the linked project, on the platform of the login and no other", async () => {
    const { ended, seen } = await deploy({ files: linked });
    expect(ended.status).toBe(0);
    expect(seen.map(({ method, path }) => `${method} ${path}`)).not.toContain("GET /api/v1/projects");
  });

  test("with a key that may do nothing but deploy", async () => {
    const { ended } = await deploy({
      files: linked,
      answers: { [`GET /api/v1/projects/${projectId}`]: refusal(403, "FORBIDDEN_SCOPE") },
    });
    expect(ended.status).toBe(0);
  });

  test("nowhere when the linked project is gone", async () => {
    const { envelope, seen } = await deploy({
      files: linked,
      answers: { [`GET /api/v1/projects/${projectId}`]: refusal(404, "NOT_FOUND") },
    });
    expect(envelope).toMatchObject({ error: { code: "CLOUD_NOT_FOUND", hint: expect.stringContaining("svc unlink") } });
    expect(seen.map(({ method, path }) => `${method} ${path}`)).not.toContain(post);
  });

  test("nowhere when the project is of another type", async () => {
    const other = ok({ project: aProject({ type: "ssr" }), deployments: [] });
    const { envelope, ended } = await deploy({
      files: linked,
      answers: { [`GET /api/v1/projects/${projectId}`]: other },
    });
    expect(envelope).toMatchObject({ error: { code: "MANIFEST_INVALID" } });
    expect(ended.status).toBe(2);
  });

  test("nowhere when --project names none of yours", async () => {
    const { envelope } = await deploy({ args: ["--project", "nope"] });
    expect(envelope).toMatchObject({ error: { code: "CLOUD_NOT_FOUND" } });
  });

  test.each([
    ["--prod", "production"],
    ["--preview", "preview"],
  ])("%s forces the channel over the manifest's", async (flag, channel) => {
    const { seen } = await deploy({
      args: [flag],
      files: { "svc.yml": `${manifest}channel: dev\n`.replace("static", "ssr") },
      answers: { "POST /api/v1/projects": ok({ project: aProject({ type: "ssr" }) }) },
    });
    expect((await readUpload(seen)).manifest.channel).toBe(channel);
  });

  test("an image is sent as JSON, with nothing uploaded", async () => {
    const image = "version: 2\nname: Shop\ntype: ociimage\nport: 80\nimage: { reference: nginx:stable }\n";
    const artifact = { kind: "oci", requestedReference: "r", digest: null, os: null, architecture: null };
    const { envelope, seen } = await deploy({
      files: { "svc.yml": image },
      answers: {
        "POST /api/v1/projects": ok({ project: aProject({ type: "ociimage" }) }),
        [post]: ok(
          anAccepted({ project: { id: projectId, slug: "shop", type: "ociimage" }, source: undefined, artifact }),
        ),
        [poll]: inState("running", { artifact: { ...artifact, digest: "sha256:1" } }),
      },
    });
    expect(envelope).toMatchObject({ ok: true, artifact: { kind: "oci", digest: "sha256:1" } });
    expect(envelope).not.toHaveProperty("source");
    const sent = seen.find(({ method, path }) => `${method} ${path}` === post);
    expect(sent?.headers["content-type"]).toBe("application/json");
    expect(JSON.parse(String(sent?.body))).toMatchObject({
      manifest: { type: "ociimage", image: { reference: expect.stringContaining("nginx:stable") } },
      metadata: { trigger: "cli" },
    });
  });

  test("--no-cache asks for a build in any case; nothing is built of an image", async () => {
    const { envelope, seen } = await deploy({ args: ["--no-cache"] });
    expect(envelope).toMatchObject({ ok: true });
    expect((await readUpload(seen)).fields).toEqual(["manifest", "metadata", "forceBuild", "source"]);
    expect((await readUpload((await deploy({})).seen)).fields).toEqual(["manifest", "metadata", "source"]);
    const image = "version: 2\nname: Shop\ntype: ociimage\nport: 80\nimage: { reference: nginx:stable }\n";
    const refused = await deploy({ args: ["--no-cache"], files: { "svc.yml": image } });
    expect(refused.envelope).toMatchObject({ ok: false, error: { code: "CLI_INVALID_USAGE" } });
    expect(refused.seen).toEqual([]);
  });

  test("a directory of a repository keeps its place in the archive", async () => {
    const { envelope, seen } = await deploy({
      files: { ".git/HEAD": "", "apps/web/svc.yml": manifest, "apps/web/index.html": "", "other/b.js": "" },
      cwd: "apps/web",
    });
    expect(envelope).toMatchObject({ ok: true });
    expect(await readUpload(seen)).toMatchObject({
      names: ["apps/web/index.html", "apps/web/svc.yml"],
      manifest: { source: { rootDirectory: "apps/web", manifestPath: "apps/web/svc.yml" } },
    });
  });

  test("env files that the manifest lists go along, and have to be there", async () => {
    const listing = `${manifest}env: { files: [.env.production] }\n`;
    const good = await deploy({ files: { "svc.yml": listing, ".env.production": "A=1", ".env": "B=2" } });
    expect((await readUpload(good.seen)).names).toEqual([".env.production", "index.html", "svc.yml"]);
    const bad = await deploy({ files: { "svc.yml": listing } });
    expect(bad.envelope).toMatchObject({ error: { code: "MANIFEST_INVALID" } });
  });
});

describe.concurrent("how it ends", () => {
  test.each([
    {
      status: "failed",
      fields: { error: "The build command failed" },
      code: "DEPLOY_FAILED",
      message: "The build command failed",
    },
    { status: "failed", fields: {}, code: "DEPLOY_FAILED", message: "The deployment failed" },
    { status: "canceled", fields: {}, code: "DEPLOY_FAILED", message: "The deployment was canceled" },
  ])("$status: exit 4", async ({ status, fields, code, message }) => {
    const { ended, envelope } = await deploy({ answers: { [poll]: [inState("building"), inState(status, fields)] } });
    expect(envelope).toMatchObject({
      ok: false,
      error: { code, message, hint: expect.stringContaining(`svc logs ${deploymentId}`) },
    });
    expect(ended.status).toBe(4);
  });

  test.each(["superseded", "stopped"])("%s: it had run, which is told", async (status) => {
    const { ended, envelope } = await deploy({ answers: { [poll]: inState(status) } });
    expect(envelope).toMatchObject({ ok: true, warnings: [expect.stringContaining(status)] });
    expect(ended.status).toBe(0);
  });

  test("production was stopped meanwhile: it is ready, and how it comes up is told", async () => {
    const { ended, envelope } = await deploy({ answers: { [poll]: inState("stopped", { held: true }) } });
    expect(envelope).toMatchObject({ ok: true, warnings: [expect.stringContaining("`svc start`")] });
    expect(ended.status).toBe(0);
  });

  test("what the platform has to say of an accepted one is passed on", async () => {
    const warning = "Production is stopped. Once this deployment is ready it serves again.";
    const { envelope } = await deploy({ answers: { [post]: ok({ ...anAccepted(), warnings: [warning] }, 202) } });
    expect(envelope).toMatchObject({ ok: true, warnings: [warning] });
  });

  test.each([
    [429, "RATE_LIMITED", "DEPLOY_TRIGGER_FAILED", 4],
    [422, "VALIDATION", "DEPLOY_TRIGGER_FAILED", 4],
    [403, "SUSPENDED", "CLOUD_REQUEST_FAILED", 1],
    [409, "DATABASE_NOT_READY", "DATABASE_NOT_READY", 1],
  ])("an upload that is answered %i %s", async (status, serverCode, code, exit) => {
    const { ended, envelope } = await deploy({ answers: { [post]: refusal(status, serverCode) } });
    expect(envelope).toMatchObject({ error: { code, message: expect.stringContaining(serverCode) } });
    expect(ended.status).toBe(exit);
  });

  test.each([
    ["meanwhile", [inState("building"), refusal(503, "UNAVAILABLE"), running]],
    ["just after it took the upload", [refusal(503, "UNAVAILABLE"), running]],
  ])("a service that restarts %s is asked again", async (_, answers) => {
    const { ended } = await deploy({ answers: { [poll]: answers } });
    expect(ended.status).toBe(0);
    expect(ended.stderr).toContain("asking again");
  });

  test("a key that may not read logs deploys all the same", async () => {
    const { ended, envelope } = await deploy({
      answers: { [`GET /api/v1/deployments/${deploymentId}/logs`]: refusal(403, "FORBIDDEN_SCOPE") },
    });
    expect(ended.status).toBe(0);
    expect(envelope["warnings"]).toHaveLength(1);
  });

  test("Ctrl-C leaves the deployment alone, says how to follow it, and exits 130", async () => {
    await using api = await startApi({ ...routes, [poll]: inState("building") });
    await using directory = await aDirectory({ "svc.yml": manifest, "index.html": "" });
    const options = {
      cwd: directory.path,
      env: { SVC_TOKEN: "svc_key-secret", SVC_API_URL: api.url },
      onStderr: (text: string, kill: (signal: NodeJS.Signals) => void) => {
        if (text.includes("Building")) kill("SIGINT");
      },
    };
    const human = await svc(["deploy"], options);
    expect(human.status).toBe(130);
    expect(human.stderr).toContain(`svc logs -f ${deploymentId}`);
    expect(human.stderr).toContain("svc status");
    const json = await svc(["deploy", "--json"], options);
    expect(json.status).toBe(130);
    expect(envelopeOf(json)).toMatchObject({ ok: false, error: { hint: expect.stringContaining(deploymentId) } });
    const terminated = await svc(["deploy"], {
      ...options,
      onStderr: (text, kill) => text.includes("Building") && kill("SIGTERM"),
    });
    expect(terminated.status).toBe(143);
    expect(api.seen.every(({ path }) => !path.includes("cancel"))).toBe(true);
  });

  test("a platform that is lost on the way leaves one who knows how to look again", async () => {
    const { envelope } = await deploy({
      answers: { [poll]: [inState("building"), { status: 500, body: {} }] },
      env: hurried(100),
    });
    expect(envelope).toMatchObject({
      error: { code: "CLOUD_UNAVAILABLE", hint: expect.stringContaining(`svc logs -f ${deploymentId}`) },
    });
  });

  test("a deployment that does not end in time is told as that", async () => {
    const { ended, envelope } = await deploy({ answers: { [poll]: inState("building") }, env: hurried(1000) });
    expect(envelope).toMatchObject({
      error: { code: "DEPLOY_TIMEOUT", hint: expect.stringContaining(`svc logs -f ${deploymentId}`) },
    });
    expect(ended.status).toBe(4);
  });
});

describe.concurrent("an answer that is lost", () => {
  const posts = (seen: readonly Seen[], route: string) =>
    seen.filter(({ method, path }) => `${method} ${path}` === route);

  test("makes the same upload once more, under the same key", async () => {
    const accepted = ok(anAccepted(), 202);
    const { ended, seen } = await deploy({
      answers: { [post]: [hangUp, refusal(503, "UNAVAILABLE"), accepted] },
    });
    expect(ended.status).toBe(0);
    expect(ended.stderr).toContain("sending it again");
    const sent = posts(seen, post);
    expect(sent).toHaveLength(3);
    expect(new Set(sent.map(({ headers }) => headers["idempotency-key"])).size).toBe(1);
    expect(sent.every(({ body }) => body.equals(sent[0]?.body ?? Buffer.alloc(0)))).toBe(true);
  });

  test("makes no second project either", async () => {
    const made = ok({ project: aProject() }, 201);
    const { ended, seen } = await deploy({ answers: { "POST /api/v1/projects": [hangUp, made] } });
    expect(ended.status).toBe(0);
    const keys = posts(seen, "POST /api/v1/projects").map(({ headers }) => headers["idempotency-key"]);
    expect(keys).toHaveLength(2);
    expect(keys[0]).toBe(keys[1]);
  });

  test("every time ends, and says that nobody knows", async () => {
    const { ended, envelope, seen } = await deploy({ answers: { [post]: hangUp } });
    expect(envelope).toMatchObject({
      error: { code: "CLOUD_UNAVAILABLE", hint: expect.stringContaining("svc status") },
    });
    expect(ended.status).toBe(1);
    expect(posts(seen, post)).toHaveLength(4);
  });

  test("is not asked for again when the platform has said no", async () => {
    const { seen } = await deploy({ answers: { [post]: refusal(429, "RATE_LIMITED") } });
    expect(posts(seen, post)).toHaveLength(1);
  });
});

describe.concurrent("too much", () => {
  const plan = {
    ...{ slug: "standard", name: "Standard", isDefault: true, memoryMb: 512, cpuMillicores: 500, pidsLimit: 100 },
    ...{ maxProjects: 5, maxDeploysPerHour: 60, maxUploadMb: 1, maxImageMb: 0, maxEnvVars: 10, storageMb: 100 },
    ...{ rateLimitPerMinute: null, monthlyRequests: null, monthlyBandwidthMb: null, dbSizeMb: 0, maxDatabases: 0 },
    ...{ dbConnectionLimit: 0, maxBackups: 0, maxSseConnections: 0, maxScheduledJobs: 0, maxCustomDomains: 0 },
    ...{ maxReplicas: 10, maxDrainSeconds: 300, nodeSelector: {} },
    ...{ devSyncEnabled: true, previewsEnabled: true, databaseEnabled: false, createdAt: at, updatedAt: at },
  };
  const usage = { projects: 1, monthlyRequests: 0, monthlyBandwidthMb: 0, diskBytes: 0, deploysLastHour: 0 };

  /** Deploys two megabytes that do not compress, and a little more. */
  async function deployLarge(answers: Routes) {
    await using api = await startApi({ ...routes, ...answers });
    await using directory = await aDirectory({ "svc.yml": manifest, "index.html": "<h1>" });
    await mkdir(join(directory.path, "public/video"), { recursive: true });
    await writeFile(join(directory.path, "public/video/a.mp4"), randomBytes(2 * 1024 * 1024));
    const env = { SVC_TOKEN: "svc_key-secret", SVC_API_URL: api.url };
    const ended = await svc(["deploy", "--json"], { cwd: directory.path, env });
    return { ended, envelope: envelopeOf(ended), sent: api.seen.filter(({ method }) => method === "POST") };
  }

  test("is said before anything is sent, with where it lies", async () => {
    const { ended, envelope, sent } = await deployLarge({ "GET /api/v1/account/usage": ok({ plan, usage }) });
    expect(envelope).toMatchObject({
      error: {
        code: "DEPLOY_TRIGGER_FAILED",
        message: expect.stringMatching(/UPLOAD_TOO_LARGE.* 1\.0 MiB(?:.|\n)* 2\.0 MiB {2}public\/video\/\n/),
        hint: expect.stringContaining(".svcignore"),
      },
    });
    expect(ended.status).toBe(4);
    expect(sent.map(({ path }) => path)).not.toContain(post.split(" ")[1]);
  });

  test("is left to the platform where the key may not know the plan", async () => {
    const { envelope } = await deployLarge({
      "GET /api/v1/account/usage": refusal(403, "FORBIDDEN_SCOPE"),
      [post]: refusal(413, "UPLOAD_TOO_LARGE", "Too large."),
    });
    expect(envelope).toMatchObject({
      error: {
        code: "DEPLOY_TRIGGER_FAILED",
        message: expect.stringMatching(/^UPLOAD_TOO_LARGE: Too large\..*\n.*public/),
      },
    });
  });
});

test("a person sees each phase with its time, and the build log in between", async () => {
  const release = { ...aRelease, configured: true };
  const deploying = (status: string, placement?: object) =>
    inState("deploying", { release: { ...release, status }, ...(placement && { placement }) });
  const placement = { state: "running", routeConverged: false, lastTransitionAt: null };
  await using api = await startApi({
    ...routes,
    [poll]: [
      inState("queued"),
      inState("building"),
      deploying("running"),
      deploying("succeeded"),
      deploying("succeeded", placement),
      inState("running", { release: { ...release, status: "succeeded" } }),
    ],
    [`GET /api/v1/deployments/${deploymentId}/logs`]: ({ path }) =>
      path.endsWith("after=0") ? ok({ log: "npm ci\n", offset: 7 }) : ok({ log: "", offset: 7 }),
  });
  await using directory = await aDirectory({ "svc.yml": manifest, "index.html": "" });
  const env = { SVC_TOKEN: "svc_key-secret", SVC_API_URL: api.url };
  const { stderr } = await svc(["deploy"], { cwd: directory.path, env });
  const spans = stderr.replaceAll(/\d+ m?s\b/g, "T").split("\n");
  expect(spans.slice(spans.indexOf("› Waiting for its turn"))).toEqual([
    "› Waiting for its turn",
    "› Building",
    "✓ Built in T",
    "› Running the release command",
    "✓ Ran the release command in T",
    "› Starting",
    "✓ Started in T",
    "› Switching traffic over",
    "✓ Switched traffic over in T",
    "",
  ]);
  expect(stderr).toContain("npm ci\n");
});

describe.concurrent("in a pipeline", () => {
  const env = (directory: string) => ({
    GITHUB_ACTIONS: "true",
    GITHUB_SHA: "0123456789abcdef0123456789abcdef01234567",
    GITHUB_REF: "refs/pull/7/merge",
    GITHUB_REPOSITORY: "ada/shop",
    GITHUB_OUTPUT: join(directory, "output"),
    GITHUB_STEP_SUMMARY: join(directory, "summary"),
  });

  test("the commit is recorded, and the step has its outputs", async () => {
    await using out = await aDirectory();
    const { envelope, seen } = await deploy({ env: env(out.path) });
    expect(envelope).toMatchObject({ ok: true });
    expect((await readUpload(seen)).metadata).toEqual({
      trigger: "github-actions",
      gitSha: "0123456789abcdef0123456789abcdef01234567",
      gitRef: "refs/pull/7/merge",
      gitRepository: "ada/shop",
      gitPrNumber: 7,
    });
    const output = await readFile(join(out.path, "output"), "utf8");
    for (const name of ["deployment_id", "channel", "status", "release_status", "dashboard_url", "url"])
      expect(output).toMatch(new RegExp(`^${name}<<svc_[0-9a-f-]{36}$`, "m"));
    expect(output).toMatch(/^dashboard_url<<.*\nhttp:\/\/127\.0\.0\.1:\d+\/\n/m);
    expect(await readFile(join(out.path, "summary"), "utf8")).toContain("| status | `running` |");
  });

  test.each([
    ["does not end", inState("building", { release: { ...aRelease, status: "pending" } }), "DEPLOY_TIMEOUT", 1000],
    // In less than all its time.
    ["is lost from sight", refusal(401, "UNAUTHORIZED"), "CLOUD_UNAUTHORIZED", 1],
  ])("a deploy that %s has the outputs that are known", async (_, then, code, times) => {
    await using out = await aDirectory();
    const building = inState("building", { release: { ...aRelease, status: "pending" } });
    const { envelope } = await deploy({
      env: { ...env(out.path), ...hurried(times) },
      answers: { [poll]: [building, then] },
    });
    expect(envelope).toMatchObject({ error: { code } });
    const output = await readFile(join(out.path, "output"), "utf8");
    for (const value of [deploymentId, "production", "building", "pending"]) expect(output).toContain(`\n${value}\n`);
    expect(output).not.toMatch(/^url<</m);
  });

  test("a failed deploy has outputs, but no url", async () => {
    await using out = await aDirectory();
    await deploy({ env: env(out.path), answers: { [poll]: inState("failed") } });
    const output = await readFile(join(out.path, "output"), "utf8");
    expect(output).toContain("failed");
    expect(output).not.toMatch(/^url<</m);
  });
});

test("a dry run changes nothing here or there", async () => {
  const files = { "sub/a.js": "", "node_modules/x.js": "" };
  const { envelope, seen, state } = await deploy({ args: ["--dry-run"], files });
  expect(envelope).toMatchObject({
    ok: true,
    dryRun: true,
    channel: "production",
    url: null,
    project: null,
    paths: ["index.html", "sub/a.js", "svc.yml"],
    source: { files: 3 },
    largest: [{ path: "svc.yml", bytes: manifest.length }, { path: "index.html" }, { path: "sub/a.js" }],
    ignored: [{ path: "node_modules/", why: expect.any(String) }],
  });
  expect(seen.every(({ method }) => method === "GET")).toBe(true);
  expect(state).toBeNull();
});

test("a dry run in a pull request's pipeline says where its preview would be", async () => {
  const { envelope } = await deploy({
    args: ["--dry-run", "--preview"],
    answers: { "GET /api/v1/projects": ok({ projects: [aProject()] }) },
    env: { SVC_PR_NUMBER: "7" },
  });
  expect(envelope).toMatchObject({ channel: "preview", url: "http://preview-shop--7.svc.localhost:8080" });
});

test("nothing is left in the temporary directory", async () => {
  await using temporary = await aDirectory();
  await deploy({ env: { TMPDIR: temporary.path } });
  await deploy({ env: { TMPDIR: temporary.path }, answers: { [post]: refusal(422, "VALIDATION") } });
  expect(await readdir(temporary.path)).toEqual([]);
});
