import { randomBytes } from "node:crypto";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { connect } from "node:net";
import { gzipSync } from "node:zlib";
import { createRegistry, type Registry } from "@svc/registry";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type RegistryProcess, startDockerRegistry } from "../../../registry/src/testing/docker-registry.ts";
import type { Project } from "../db/tables.ts";
import { type Answer, type CallOptions, type TestApi, type TestUser, testApi } from "../http/testing.ts";
import { envAad } from "../tasks/assignment.ts";

let registryProcess: RegistryProcess;
let registry: Registry;
let api: TestApi;
let user: TestUser;
const addresses = new Map([
  ["registry.example.test", ["93.184.215.14", "2606:2800:21f:cb07::1"]],
  ["mixed.example.test", ["93.184.215.14", "10.0.0.1"]],
  ["mapped.example.test", ["::ffff:127.0.0.1"]],
  ["metadata.example.test", ["169.254.169.254"]],
  ["nowhere.example.test", []],
]);

beforeAll(async () => {
  registryProcess = await startDockerRegistry();
  registry = createRegistry({ url: registryProcess.url });
  api = await testApi({
    registryUrl: registryProcess.url,
    config: { registryAllow: ["private.example.test:5000"] },
    resolve: async (name) => {
      const found = addresses.get(name);
      if (found === undefined) throw new Error("SERVFAIL");
      return found;
    },
  });
  user = await api.newUser();
});
afterAll(async () => {
  await api[Symbol.asyncDispose]();
  await registry.close();
  await registryProcess[Symbol.asyncDispose]();
});
afterEach(() => api.db.deleteFrom("deployment").execute());

const manifestOf = (type: "ssr" | "static", extra: object = {}) => ({
  version: 2,
  app: { name: "Shop", type },
  ...extra,
});
const archive = gzipSync(randomBytes(5_000));

interface Upload {
  manifest?: unknown;
  metadata?: unknown;
  source?: Uint8Array<ArrayBuffer>;
}

function formOf({ manifest = manifestOf("ssr"), metadata, source = archive }: Upload = {}): FormData {
  const form = new FormData();
  form.set("manifest", JSON.stringify(manifest));
  if (metadata !== undefined) form.set("metadata", JSON.stringify(metadata));
  form.set("source", new Blob([source]), "source.tar.gz");
  return form;
}

const deploy = (
  project: Pick<Project, "id">,
  body: unknown,
  options: CallOptions = { session: user.session },
): Promise<Answer> => api.call("POST", `/projects/${project.id}/deployments`, { ...options, body });
const codeOf = (answer: Answer) => [answer.status, answer.body.error?.code];
const countRows = async () => (await api.db.selectFrom("deployment").select("id").execute()).length;

describe("a source deployment", () => {
  test("is accepted with everything that it needs to run by itself", async () => {
    const project = await api.newProject(user);
    await api.call("PUT", `/projects/${project.id}/env`, {
      session: user.session,
      body: { vars: { SECRET: "plain text" } },
    });
    const manifest = manifestOf("ssr", {
      source: { rootDirectory: "apps/web" },
      release: { command: "npm run migrate" },
    });
    const metadata = {
      trigger: "cli",
      gitSha: "0123456789abcdef",
      gitRef: "refs/heads/main",
      gitRepository: "ada/shop",
      gitPrNumber: 7,
    };
    const { status, body } = await deploy(project, formOf({ manifest, metadata }));
    expect(status).toBe(202);
    expect(body).toEqual({
      ok: true,
      deploymentId: expect.stringMatching(/^[0-9a-f-]{36}$/),
      channel: "production",
      url: `http://${project.slug}.svc.localhost:8080`,
      project: { id: project.id, slug: project.slug, type: "ssr" },
      source: { rootDirectory: "apps/web", manifestPath: expect.any(String), watchPaths: expect.any(Array) },
      release: {
        configured: true,
        status: "pending",
        startedAt: null,
        finishedAt: null,
        exitCode: null,
        error: null,
        skippedReason: null,
      },
    });

    const row = await api.db
      .selectFrom("deployment")
      .selectAll()
      .where("id", "=", body.deploymentId)
      .executeTakeFirstOrThrow();
    expect(row).toMatchObject({
      status: "queued",
      channel: "production",
      pr_number: null,
      trigger: "cli",
      git_sha: "0123456789abcdef",
      git_pr_number: 7,
      root_directory: "apps/web",
      source_size: archive.length,
      source_repository: `svc/${project.id}/source`,
      release_status: "pending",
      created_by_token: null,
    });
    expect(JSON.parse(api.context.secrets.open(row.env ?? Buffer.alloc(0), envAad(row.id)).toString())).toEqual({
      SECRET: "plain text",
    });
    const work = await api.db
      .selectFrom("work_item")
      .select(["kind", "key", "payload"])
      .where("key", "=", project.id)
      .execute();
    expect(work).toEqual([{ kind: "deploy", key: project.id, payload: { deploymentId: row.id } }]);
    const events = await api.db
      .selectFrom("deployment_event")
      .select(["phase", "to_status"])
      .where("deployment_id", "=", row.id)
      .execute();
    expect(events).toEqual([{ phase: "queued", to_status: "queued" }]);

    const parts = [];
    for await (const part of await registry.pullArtifact(row.source_repository ?? "", row.source_digest ?? "", {
      maxSizeBytes: 10_000,
    }))
      parts.push(part);
    expect(Buffer.concat(parts).equals(archive)).toBe(true);
  });

  test("takes its parts in any order", async () => {
    const project = await api.newProject(user, { type: "static" });
    const form = new FormData();
    form.set("source", new Blob([archive]), "source.tar.gz");
    form.set("metadata", "{}");
    form.set("manifest", JSON.stringify(manifestOf("static")));
    expect((await deploy(project, form)).status).toBe(202);
  });

  test("may be large, and is never held whole", async () => {
    const project = await api.newProject(user);
    const before = process.memoryUsage.rss();
    const big = Buffer.alloc(64 * 1024 * 1024, 7);
    archive.copy(big, 0, 0, 10);
    const answer = await deploy(project, formOf({ source: big }));
    expect(answer.status).toBe(202);
    expect(process.memoryUsage.rss() - before).toBeLessThan(300 * 1024 * 1024);
  });

  const multipart = (parts: string, { type = "multipart/form-data; boundary=xyz" } = {}) => ({
    body: parts.replaceAll("\n", "\r\n"),
    headers: { "content-type": type },
  });
  const textPart = (name: string, text: string) => `--xyz\nContent-Disposition: form-data; name="${name}"\n\n${text}\n`;
  const filePart = (name: string, text: string) =>
    `--xyz\nContent-Disposition: form-data; name="${name}"; filename="f"\nContent-Type: application/gzip\n\n${text}\n`;
  const good = JSON.stringify(manifestOf("ssr"));
  const gzip = "\u001f\u008bdata";

  test.each([
    { what: "no parts", ...multipart("--xyz--\n") },
    { what: "no boundary", ...multipart("", { type: "multipart/form-data" }) },
    { what: "nothing at all", ...multipart("") },
    { what: "no manifest", ...multipart(`${filePart("source", gzip)}--xyz--\n`) },
    { what: "no source", ...multipart(`${textPart("manifest", good)}--xyz--\n`) },
    {
      what: "a source that is a text",
      ...multipart(`${textPart("manifest", good)}${textPart("source", gzip)}--xyz--\n`),
    },
    {
      what: "a manifest that is a file",
      ...multipart(`${filePart("manifest", good)}${filePart("source", gzip)}--xyz--\n`),
    },
    {
      what: "two manifests",
      ...multipart(`${textPart("manifest", good)}${textPart("manifest", good)}${filePart("source", gzip)}--xyz--\n`),
    },
    {
      what: "two manifests around the source",
      ...multipart(`${textPart("manifest", good)}${filePart("source", gzip)}${textPart("manifest", good)}--xyz--\n`),
    },
    {
      what: "two sources",
      ...multipart(`${textPart("manifest", good)}${filePart("source", gzip)}${filePart("source", gzip)}--xyz--\n`),
    },
    {
      what: "another part",
      ...multipart(`${textPart("manifest", good)}${textPart("channel", "dev")}${filePart("source", gzip)}--xyz--\n`),
    },
    {
      what: "a part named __proto__",
      ...multipart(`${textPart("__proto__", "1")}${textPart("manifest", good)}${filePart("source", gzip)}--xyz--\n`),
    },
    {
      what: "many parts",
      ...multipart(`${Array.from({ length: 50 }, (_, at) => textPart(`p${at}`, "1")).join("")}--xyz--\n`),
    },
    { what: "a cut source", ...multipart(`${textPart("manifest", good)}${filePart("source", gzip)}`) },
    { what: "a cut manifest", ...multipart(`--xyz\nContent-Disposition: form-data; name="manifest"\n\n{"ver`) },
    {
      what: "a source that is no gzip",
      ...multipart(`${textPart("manifest", good)}${filePart("source", "PK zip")}--xyz--\n`),
    },
    { what: "an empty source", ...multipart(`${textPart("manifest", good)}${filePart("source", "")}--xyz--\n`) },
    {
      what: "a manifest that is too long",
      ...multipart(`${textPart("manifest", `{"x":"${"a".repeat(70_000)}"}`)}${filePart("source", gzip)}--xyz--\n`),
    },
    {
      what: "a manifest that is no JSON",
      ...multipart(`${textPart("manifest", "version: 2")}${filePart("source", gzip)}--xyz--\n`),
    },
    {
      what: "metadata with an unknown key",
      ...multipart(
        `${textPart("metadata", '{"user":"root"}')}${textPart("manifest", good)}${filePart("source", gzip)}--xyz--\n`,
      ),
    },
    {
      what: "a pull request number below one",
      ...multipart(
        `${textPart("metadata", '{"gitPrNumber":-1}')}${textPart("manifest", good)}${filePart("source", gzip)}--xyz--\n`,
      ),
    },
  ])("with $what is refused", async ({ body, headers }) => {
    const project = await api.newProject(user);
    const answer = await deploy(project, Buffer.from(body, "latin1"), { session: user.session, headers });
    expect(codeOf(answer)).toEqual([422, "VALIDATION"]);
    expect(await countRows()).toBe(0);
  });

  test.each([
    { what: "version 1", manifest: { ...manifestOf("ssr"), version: 1 } },
    { what: 'version "2"', manifest: { ...manifestOf("ssr"), version: "2" } },
    { what: "an unknown channel", manifest: manifestOf("ssr", { channel: "prod" }) },
    { what: "port 0", manifest: { version: 2, app: { name: "Shop", type: "ssr", port: 0 } } },
    { what: "a port that is a text", manifest: { version: 2, app: { name: "Shop", type: "ssr", port: "80" } } },
    { what: "a health path elsewhere", manifest: manifestOf("ssr", { health: { path: "//x" } }) },
    { what: "a root above the archive", manifest: manifestOf("ssr", { source: { rootDirectory: "../x" } }) },
    { what: "another project type", manifest: manifestOf("static") },
    {
      what: "an image",
      manifest: { version: 2, name: "Shop", type: "ociimage", port: 80, image: { reference: "a.test/b:1" } },
    },
  ])("with $what in its manifest is refused before the archive is stored", async ({ manifest }) => {
    const project = await api.newProject(user);
    expect(codeOf(await deploy(project, formOf({ manifest })))).toEqual([422, "VALIDATION"]);
    await expect(registry.getManifest(`svc/${project.id}/source`, "latest")).rejects.toThrow();
    expect(await registry.hasBlob(`svc/${project.id}/source`, `sha256:${"0".repeat(64)}`)).toBe(false);
  });

  test("static sites have neither jobs, nor a database, nor a dev channel", async () => {
    const project = await api.newProject(user, { type: "static" });
    for (const extra of [
      { jobs: [{ name: "nightly", schedule: "0 3 * * *", command: "node x" }] },
      { database: { enabled: true } },
      { channel: "dev" },
    ]) {
      expect(codeOf(await deploy(project, formOf({ manifest: manifestOf("static", extra) })))).toEqual([
        422,
        "VALIDATION",
      ]);
    }
  });

  test("sent as JSON is refused", async () => {
    const project = await api.newProject(user);
    expect(codeOf(await deploy(project, { manifest: manifestOf("ssr") }))).toEqual([422, "VALIDATION"]);
    expect(
      codeOf(await deploy(project, "{}", { session: user.session, headers: { "content-type": "text/plain" } })),
    ).toEqual([415, "UNSUPPORTED_MEDIA_TYPE"]);
  });

  test("says so when the archive cannot be stored", async () => {
    await using broken = await testApi({ registryUrl: "http://127.0.0.1:9" });
    const owner = await broken.newUser();
    const project = await broken.newProject(owner);
    const answer = await broken.call("POST", `/projects/${project.id}/deployments`, {
      session: owner.session,
      body: formOf(),
    });
    expect(codeOf(answer)).toEqual([503, "UNAVAILABLE"]);
  });
});

describe("an upload that is too large", () => {
  const tooLarge = async () => {
    const owner = await api.newUser({ plan: { max_upload_mb: 1 } });
    return { owner, project: await api.newProject(owner) };
  };

  test("is refused by its length before anything is read", async () => {
    const { owner, project } = await tooLarge();
    const answer = await deploy(project, formOf({ source: gzipSync(randomBytes(3_000_000)) }), {
      session: owner.session,
    });
    expect(codeOf(answer)).toEqual([413, "UPLOAD_TOO_LARGE"]);
    expect(answer.headers.get("connection")).toBe("close");
  });

  test("and does not say its length is cut off on the way, and the connection ends", async () => {
    const { owner, project } = await tooLarge();
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      const sending = httpRequest(
        `${api.url}/api/v1/projects/${project.id}/deployments`,
        {
          method: "POST",
          headers: {
            authorization: `Bearer ${owner.session}`,
            "content-type": "multipart/form-data; boundary=xyz",
            "transfer-encoding": "chunked",
          },
        },
        resolve,
      );
      sending.on("error", reject);
      sending.write(`--xyz\r\nContent-Disposition: form-data; name="source"; filename="f"\r\n\r\n`);
      sending.write(archive);
      // Never ends by itself.
      const timer = setInterval(() => sending.write(Buffer.alloc(65_536)), 5);
      sending.on("close", () => clearInterval(timer));
    });
    expect(answer.statusCode).toBe(413);
    expect(answer.headers.connection).toBe("close");
    const closed = new Promise<void>((resolve) => answer.socket.once("close", () => resolve()));
    answer.resume();
    await closed;
    expect(await countRows()).toBe(0);
  }, 20_000);
});

test("three uploads of a user may be under way, and clients that go away in the middle leave nothing", async () => {
  const owner = await api.newUser();
  const project = await api.newProject(owner);
  const { hostname, port } = new URL(api.url);
  const head = [
    `POST /api/v1/projects/${project.id}/deployments HTTP/1.1`,
    "Host: x",
    `Authorization: Bearer ${owner.session}`,
    "Content-Type: multipart/form-data; boundary=xyz",
    "Content-Length: 100000",
    "",
    "--xyz",
    'Content-Disposition: form-data; name="source"; filename="f"',
    "",
    "",
  ].join("\r\n");
  const answers: string[] = [];
  const sockets = Array.from({ length: 4 }, () => {
    const socket = connect(Number(port), hostname, () => socket.write(Buffer.concat([Buffer.from(head), archive])));
    socket.on("data", (chunk) => answers.push(String(chunk)));
    socket.on("error", () => {});
    return socket;
  });
  await expect
    .poll(() => answers, { timeout: 5_000 })
    .toEqual([expect.stringMatching(/^HTTP\/1.1 429 [\s\S]*RATE_LIMITED/)]);
  for (const socket of sockets) socket.destroy();
  const attempt = () => deploy(project, formOf(), { session: owner.session });
  await expect.poll(async () => (await attempt()).status, { timeout: 10_000 }).toBe(202);
  expect(await countRows()).toBe(1);
});

const imageManifest = (extra: object = {}) => ({
  version: 2,
  name: "Shop",
  type: "ociimage",
  port: 8080,
  image: { reference: "registry.example.test/shop:1" },
  ...extra,
});

describe("an image deployment", () => {
  test("is accepted with its reference written out", async () => {
    const project = await api.newProject(user, { type: "ociimage" });
    const answer = await deploy(project, { manifest: imageManifest(), metadata: { trigger: "api" } });
    expect(answer.status).toBe(202);
    expect(answer.body).toEqual({
      ok: true,
      deploymentId: expect.any(String),
      channel: "production",
      url: `http://${project.slug}.svc.localhost:8080`,
      project: { id: project.id, slug: project.slug, type: "ociimage" },
      artifact: {
        kind: "oci",
        requestedReference: "registry.example.test/shop:1",
        digest: null,
        os: null,
        architecture: null,
      },
      release: expect.objectContaining({ configured: false, status: "not_configured" }),
    });
  });

  test("may come from a registry that the operator allows", async () => {
    const project = await api.newProject(user, { type: "ociimage" });
    const manifest = imageManifest({ image: { reference: "private.example.test:5000/shop:1" } });
    expect((await deploy(project, { manifest })).status).toBe(202);
  });

  test.each([
    "registry.example.test/shop",
    "registry.example.test/shop:",
    "registry.example.test/shop@sha256:xyz",
    `registry.example.test/shop:1@sha256:${"a".repeat(64)}`,
    "registry.example.test/Shop:1",
    "http://registry.example.test/shop:1",
    "registry.example.test/shop :1",
    `registry.example.test/${"a".repeat(300)}:1`,
    "127.0.0.1/x:1",
    "127.0.0.1:5000/x:1",
    "[::1]:5000/x:1",
    "0x7f.1/x:1",
    "2130706433/x:1",
    "localhost/x:1",
    "localhost:5000/x:1",
    "localhost./x:1",
    "registry.local/x:1",
    "metadata.internal/x:1",
    "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/x:1",
    "user@registry.example.test/x:1",
    "registry.example.test:22/x:1",
    "private.example.test/x:1",
    "mixed.example.test/x:1",
    "mapped.example.test/x:1",
    "metadata.example.test/x:1",
    "nowhere.example.test/x:1",
    "unresolvable.example.test/x:1",
    "",
  ])("of %j is refused", async (reference) => {
    const project = await api.newProject(user, { type: "ociimage" });
    const answer = await deploy(project, { manifest: imageManifest({ image: { reference } }) });
    expect(codeOf(answer)).toEqual([422, "OCI_REFERENCE_INVALID"]);
    expect(await countRows()).toBe(0);
  });

  test.each([
    { what: "no body", body: undefined },
    { what: "no manifest", body: {} },
    { what: "an unknown key", body: { manifest: imageManifest(), source: "x" } },
    { what: "the dev channel", body: { manifest: imageManifest({ channel: "dev" }) } },
    { what: "a source manifest", body: { manifest: manifestOf("ssr") } },
    {
      what: "a deployment to preserve that is not there",
      body: { manifest: imageManifest(), preserveManifestFromDeploymentId: "11111111-2222-4333-8444-555555555555" },
    },
  ])("with $what is refused", async ({ body }) => {
    const project = await api.newProject(user, { type: "ociimage" });
    expect(codeOf(await deploy(project, body))).toEqual([422, "VALIDATION"]);
  });

  test("preserves only from the same project", async () => {
    const project = await api.newProject(user, { type: "ociimage" });
    const other = await api.newProject(user, { type: "ociimage" });
    const mine = await api.newDeployment(project);
    const foreign = await api.newDeployment(other);
    const preserve = (id: string) =>
      deploy(project, { manifest: imageManifest(), preserveManifestFromDeploymentId: id });
    expect((await preserve(mine.id)).status).toBe(202);
    expect(codeOf(await preserve(foreign.id))).toEqual([422, "VALIDATION"]);
  });

  test("sent as multipart is refused", async () => {
    const project = await api.newProject(user, { type: "ociimage" });
    expect(codeOf(await deploy(project, formOf()))).toEqual([422, "VALIDATION"]);
  });
});

describe("where it goes", () => {
  const channelOf = async (project: Project, manifest: object, metadata?: object) => {
    const { body } = await deploy(project, formOf({ manifest, metadata }));
    return [body.channel, body.url?.replace("http://", "").replace(".svc.localhost:8080", "")];
  };

  test("what the manifest forces, else what the project's mode says", async () => {
    const project = await api.newProject(user);
    const { slug } = project;
    expect(await channelOf(project, manifestOf("ssr"))).toEqual(["production", slug]);
    expect(await channelOf(project, manifestOf("ssr", { channel: "preview" }))).toEqual(["preview", `preview-${slug}`]);
    expect(await channelOf(project, manifestOf("ssr", { channel: "dev" }))).toEqual(["dev", `dev-${slug}`]);
    await api.db.updateTable("project").set({ deploy_mode: "preview" }).where("id", "=", project.id).execute();
    expect(await channelOf(project, manifestOf("ssr"))).toEqual(["preview", `preview-${slug}`]);
    expect(await channelOf(project, manifestOf("ssr", { channel: "production" }))).toEqual(["production", slug]);
  });

  test("pull requests have previews of their own, and choose nothing else", async () => {
    const project = await api.newProject(user);
    const { slug } = project;
    expect(await channelOf(project, manifestOf("ssr"), { gitPrNumber: 7 })).toEqual(["production", slug]);
    const preview = manifestOf("ssr", { channel: "preview" });
    expect(await channelOf(project, preview, { gitPrNumber: 7 })).toEqual(["preview", `preview-${slug}--7`]);
    expect(await channelOf(project, preview, { gitPrNumber: 8 })).toEqual(["preview", `preview-${slug}--8`]);
    expect(await channelOf(project, preview, { gitPrNumber: 7 })).toEqual(["preview", `preview-${slug}--7`]);
    const hosts = await api.db.selectFrom("site_host").select("host").where("project_id", "=", project.id).execute();
    expect(hosts).toHaveLength(3);
  });

  test("two projects never answer to one name", async () => {
    const first = await api.newProject(user, { slug: "meet" });
    const second = await api.newProject(user, { slug: "meet--7" });
    const preview = manifestOf("ssr", { channel: "preview" });
    expect(await channelOf(first, preview, { gitPrNumber: 7 })).toEqual(["preview", "preview-meet--7"]);
    const [, host] = await channelOf(second, preview);
    expect(host).toMatch(/^preview-meet--7-[0-9a-f]{6}$/);
    expect(await channelOf(second, preview)).toEqual(["preview", host]);
  });
});

describe("refused by what the account or project may do", () => {
  test.each([
    {
      what: "a suspended project",
      project: { suspended_at: new Date(), suspend_reason: "admin" as const },
      facts: {},
      code: [403, "SUSPENDED"],
    },
    {
      what: "an address that is not confirmed",
      project: {},
      facts: { verified: false },
      code: [403, "EMAIL_NOT_VERIFIED"],
    },
  ])("$what", async ({ project: change, facts, code }) => {
    const owner = await api.newUser(facts);
    for (const type of ["ssr", "ociimage"] as const) {
      const project = await api.newProject(owner, { type });
      await api.db
        .updateTable("project")
        .set({ name: project.name, ...change })
        .where("id", "=", project.id)
        .execute();
      const body = type === "ssr" ? formOf() : { manifest: imageManifest() };
      expect(codeOf(await deploy(project, body, { session: owner.session }))).toEqual(code);
    }
  });

  test.each([
    {
      what: "previews",
      plan: { previews_enabled: false },
      manifest: manifestOf("ssr", { channel: "preview" }),
      code: [403, "PREVIEW_UNAVAILABLE"],
    },
    {
      what: "the dev channel",
      plan: { dev_sync_enabled: false },
      manifest: manifestOf("ssr", { channel: "dev" }),
      code: [403, "PLAN_FEATURE_UNAVAILABLE"],
    },
    {
      what: "databases",
      plan: { max_databases: 0 },
      manifest: manifestOf("ssr", { database: { enabled: true } }),
      code: [403, "PLAN_FEATURE_UNAVAILABLE"],
    },
    {
      what: "a database that is ready",
      plan: {},
      manifest: manifestOf("ssr", { database: { enabled: true } }),
      code: [409, "DATABASE_NOT_READY"],
    },
    {
      what: "so many jobs",
      plan: { max_scheduled_jobs: 0 },
      manifest: manifestOf("ssr", { jobs: [{ name: "n", schedule: "0 3 * * *", command: "x" }] }),
      code: [403, "QUOTA_EXCEEDED"],
    },
  ])("a plan without $what", async ({ plan, manifest, code }) => {
    const owner = await api.newUser({ plan });
    const project = await api.newProject(owner);
    expect(codeOf(await deploy(project, formOf({ manifest }), { session: owner.session }))).toEqual(code);
  });

  test("a plan without images, or without previews for one", async () => {
    const without = await api.newUser({ plan: { max_image_mb: 0 } });
    const body = { manifest: imageManifest() };
    const blocked = await api.newProject(without, { type: "ociimage" });
    expect(codeOf(await deploy(blocked, body, { session: without.session }))).toEqual([
      403,
      "PLAN_FEATURE_UNAVAILABLE",
    ]);
    const noPreview = await api.newUser({ plan: { previews_enabled: false } });
    const project = await api.newProject(noPreview, { type: "ociimage" });
    const preview = { manifest: imageManifest({ channel: "preview" }) };
    expect(codeOf(await deploy(project, preview, { session: noPreview.session }))).toEqual([
      403,
      "PREVIEW_UNAVAILABLE",
    ]);
  });

  test("deployments per hour, over all projects, however many come at once", async () => {
    const owner = await api.newUser({ plan: { max_deploys_per_hour: 3 } });
    const projects = [
      await api.newProject(owner, { type: "ociimage" }),
      await api.newProject(owner, { type: "ociimage" }),
    ];
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, at) =>
        deploy(projects[at % 2] ?? { id: "" }, { manifest: imageManifest() }, { session: owner.session }),
      ),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([202, 202, 202, 429, 429, 429, 429, 429]);
    const refused = answers.find(({ status }) => status === 429);
    expect(refused?.body.error.code).toBe("RATE_LIMITED");
    const wait = Number(refused?.headers.get("retry-after"));
    expect(wait).toBeGreaterThan(3_500);
    expect(wait).toBeLessThanOrEqual(3_600);
    await api.db
      .updateTable("deployment")
      .set({ created_at: new Date(Date.now() - 3_601_000) })
      .where("project_id", "=", projects[0]?.id ?? "")
      .execute();
    expect(
      (await deploy(projects[1] ?? { id: "" }, { manifest: imageManifest() }, { session: owner.session })).status,
    ).toBe(202);
  });
});

describe("a CI key", () => {
  const ciKey = async () => {
    const project = await api.newProject(user, { type: "ociimage" });
    const { id, key } = await api.newKey(user, { scopes: ["ci:deploy"], projectIds: [project.id] });
    return { project, id, key };
  };

  test("deploys its project, and follows what it created", async () => {
    const { project, id, key } = await ciKey();
    const created = await deploy(project, { manifest: imageManifest() }, { key });
    expect(created.status).toBe(202);
    const { deploymentId } = created.body;
    const row = await api.db
      .selectFrom("deployment")
      .select("created_by_token")
      .where("id", "=", deploymentId)
      .executeTakeFirstOrThrow();
    expect(row.created_by_token).toBe(id);
    expect((await api.call("GET", `/deployments/${deploymentId}`, { key })).body.deployment.id).toBe(deploymentId);
    expect((await api.call("GET", `/deployments/${deploymentId}/logs`, { key })).body).toEqual({
      ok: true,
      log: "",
      offset: 0,
    });
  });

  test("sees no deployment of anybody else, not even of its own project", async () => {
    const { project, key } = await ciKey();
    const { key: sibling } = await api.newKey(user, { scopes: ["ci:deploy"], projectIds: [project.id] });
    const theirs = (await deploy(project, { manifest: imageManifest() }, { key: sibling })).body.deploymentId;
    const people = (await deploy(project, { manifest: imageManifest() })).body.deploymentId;
    for (const id of [theirs, people]) {
      expect(codeOf(await api.call("GET", `/deployments/${id}`, { key }))).toEqual([404, "NOT_FOUND"]);
      expect(codeOf(await api.call("GET", `/deployments/${id}/logs`, { key }))).toEqual([404, "NOT_FOUND"]);
    }
  });

  test("reaches nothing else", async () => {
    const { project, key } = await ciKey();
    const other = await api.newProject(user, { type: "ociimage" });
    expect(codeOf(await deploy(other, { manifest: imageManifest() }, { key }))).toEqual([404, "NOT_FOUND"]);
    for (const path of [
      "/me",
      "/account",
      "/projects",
      `/projects/${project.id}`,
      `/projects/${project.id}/env`,
      `/projects/${project.id}/deployments`,
      `/projects/${project.id}/runtime-logs`,
    ]) {
      expect(codeOf(await api.call("GET", path, { key })), path).toEqual([403, "FORBIDDEN_SCOPE"]);
    }
  });
});

describe("repeated with one Idempotency-Key", () => {
  test("it is accepted once, also when both come at once", async () => {
    const project = await api.newProject(user);
    const options = { session: user.session, headers: { "idempotency-key": "deploy-1" } };
    const answers = await Promise.all([deploy(project, formOf(), options), deploy(project, formOf(), options)]);
    const third = await deploy(project, formOf(), options);
    expect([...answers, third].map(({ status, body }) => [status, body.error ?? null])).toEqual(
      Array(3).fill([202, null]),
    );
    expect(new Set([...answers, third].map(({ body }) => body.deploymentId)).size).toBe(1);
    expect(await countRows()).toBe(1);
    const other = await deploy(project, formOf({ source: gzipSync("other") }), options);
    expect(codeOf(other)).toEqual([409, "IDEMPOTENCY_CONFLICT"]);
  });

  test("the answer comes again although the hour is used up", async () => {
    const owner = await api.newUser({ plan: { max_deploys_per_hour: 1 } });
    const project = await api.newProject(owner, { type: "ociimage" });
    const options = { session: owner.session, headers: { "idempotency-key": "deploy-2" } };
    const first = await deploy(project, { manifest: imageManifest() }, options);
    const second = await deploy(project, { manifest: imageManifest() }, options);
    expect(second.body).toEqual(first.body);
  });
});
