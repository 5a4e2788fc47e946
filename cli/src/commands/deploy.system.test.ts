import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { createGunzip } from "node:zlib";
import { extract } from "tar-stream";
import { describe, expect, test } from "vitest";
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
import { aDirectory, envelopeOf, svc } from "../testing/svc.ts";

const manifest = "version: 2\nslug: shop\napp: { name: Shop, type: static }\n";
const post = `POST /api/v1/projects/${projectId}/deployments`;
const poll = `GET /api/v1/deployments/${deploymentId}`;
const running = ok({ deployment: aDeployment() });
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
    expect(envelope).toMatchObject({ error: { code: "CLOUD_NOT_FOUND", hint: expect.stringContaining("state.json") } });
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

  test("a directory of a repository keeps its place in the archive", async () => {
    const { envelope, seen } = await deploy({
      files: { ".git/HEAD": "", "apps/web/svc.yml": manifest, "apps/web/a.js": "", "other/b.js": "" },
      cwd: "apps/web",
    });
    expect(envelope).toMatchObject({ ok: true });
    expect(await readUpload(seen)).toMatchObject({
      names: ["apps/web/a.js", "apps/web/svc.yml"],
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

  test("a service that restarts meanwhile is asked again", async () => {
    const { ended } = await deploy({
      answers: { [poll]: [inState("building"), refusal(503, "UNAVAILABLE"), running] },
    });
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
    await using directory = await aDirectory({ "svc.yml": manifest });
    const options = {
      cwd: directory.path,
      env: { SVC_TOKEN: "svc_key-secret", SVC_API_URL: api.url },
      onStderr: (text: string, kill: (signal: NodeJS.Signals) => void) => {
        if (text.includes("Building")) kill("SIGINT");
      },
    };
    const human = await svc(["deploy"], options);
    expect(human.status).toBe(130);
    expect(human.stderr).toContain(`svc logs ${deploymentId} --follow`);
    const json = await svc(["deploy", "--json"], options);
    expect(json.status).toBe(130);
    expect(envelopeOf(json)).toMatchObject({ ok: false, error: { hint: expect.stringContaining(deploymentId) } });
    const terminated = await svc(["deploy"], {
      ...options,
      onStderr: (text, kill) => text.includes("Building") && kill("SIGTERM"),
    });
    expect(terminated.status).toBe(143);
  });
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
    expect(await readFile(join(out.path, "summary"), "utf8")).toContain("| status | `running` |");
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
    project: null,
    paths: ["index.html", "sub/a.js", "svc.yml"],
    source: { files: 3 },
  });
  expect(seen.every(({ method }) => method === "GET")).toBe(true);
  expect(state).toBeNull();
});

test("nothing is left in the temporary directory", async () => {
  await using temporary = await aDirectory();
  await deploy({ env: { TMPDIR: temporary.path } });
  await deploy({ env: { TMPDIR: temporary.path }, answers: { [post]: refusal(422, "VALIDATION") } });
  expect(await readdir(temporary.path)).toEqual([]);
});
