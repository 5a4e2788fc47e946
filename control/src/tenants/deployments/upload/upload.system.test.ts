import { randomBytes } from "node:crypto";
import { limits } from "@svc/proto";
import fc from "fast-check";
import { sql } from "kysely";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type RegistryProcess, startDockerRegistry } from "../../../../../registry/src/testing/docker-registry.ts";
import { type Answer, type CallOptions, type TestApi, type TestUser, testApi } from "../../../http/testing.ts";
import type { Project } from "../../../stores/db/tables.ts";
import { aSource, aSourceOf, codeOf, formOf, manifestOf, raw, storedSources } from "../testing/source.ts";

const mebibyte = 1024 * 1024;
let registry: RegistryProcess;
let api: TestApi;
let user: TestUser;

beforeAll(async () => {
  registry = await startDockerRegistry();
  api = await testApi({ registryUrl: registry.url });
  user = await api.newUser();
});
afterAll(async () => {
  await api[Symbol.asyncDispose]();
  await registry[Symbol.asyncDispose]();
});
afterEach(() => api.db.deleteFrom("deployment").execute());

const deploy = (
  project: Pick<Project, "id">,
  body: unknown,
  options: CallOptions = { session: user.session },
): Promise<Answer> => api.call("POST", `/projects/${project.id}/deployments`, { ...options, body });
const deployRaw = (project: Pick<Project, "id">, parts: readonly Buffer[], type = raw.type) =>
  deploy(project, Buffer.concat(parts), { session: user.session, headers: { "content-type": type } });

/** Refused, and as if it had never come. */
async function expectNothing(project: Pick<Project, "id">): Promise<void> {
  const rows = await api.db.selectFrom("deployment").select("id").where("project_id", "=", project.id).execute();
  expect(rows).toEqual([]);
  expect(await storedSources(registry, project.id)).toEqual([]);
}

const good = raw.text("manifest", JSON.stringify(manifestOf("ssr")));
const source = () => raw.file("source", aSource());

describe("a body that is not what it should be", () => {
  test.each<{ what: string; parts: Buffer[]; type?: string; says: string }>([
    { what: "no parts", parts: [raw.end], says: "source is missing" },
    { what: "no boundary", parts: [], type: "multipart/form-data", says: "not valid multipart" },
    { what: "nothing at all", parts: [], says: "source is missing" },
    { what: "no manifest", parts: [source(), raw.end], says: "manifest is missing" },
    { what: "no source", parts: [good, raw.end], says: "source is missing" },
    { what: "a source that is text", parts: [good, raw.text("source", "x"), raw.end], says: "has to be a file" },
    {
      what: "a manifest that is there as a file and as text",
      parts: [raw.file("manifest", JSON.stringify(manifestOf("ssr"))), good, source(), raw.end],
      says: "manifest is there twice",
    },
    {
      what: "a manifest that is an endless file",
      parts: [raw.file("manifest", " ".repeat(200_000)), source(), raw.end],
      says: "manifest is too long",
    },
    {
      what: "a manifest that is a file of no JSON",
      parts: [raw.file("manifest", "x"), source(), raw.end],
      says: "JSON",
    },
    { what: "two manifests", parts: [good, good, source(), raw.end], says: "manifest is there twice" },
    {
      what: "a manifest behind each other part",
      parts: [good, source(), good, raw.end],
      says: "manifest is there twice",
    },
    { what: "two sources", parts: [good, source(), source(), raw.end], says: "source is there twice" },
    {
      what: "metadata twice",
      parts: [good, raw.text("metadata", "{}"), source(), raw.text("metadata", "{}"), raw.end],
      says: "metadata is there twice",
    },
    {
      what: "another part",
      parts: [good, raw.text("channel", "dev"), source(), raw.end],
      says: '"channel" is not expected',
    },
    { what: "another file", parts: [good, raw.file("extra", "x"), source(), raw.end], says: '"extra" is not expected' },
    { what: "a part named __proto__", parts: [raw.text("__proto__", "1"), good, source(), raw.end], says: "" },
    {
      what: "many parts",
      parts: [...Array.from({ length: 50 }, (_, at) => raw.text(`p${at}`, "1")), raw.end],
      says: "",
    },
    { what: "a cut source", parts: [good, source().subarray(0, -200)], says: "cut short" },
    { what: "no end", parts: [good, source()], says: "cut short" },
    { what: "a cut manifest", parts: [good.subarray(0, -20)], says: "" },
    {
      what: "a part whose name cannot be read",
      parts: [Buffer.from('--xyz\r\nContent-Disposition: form-data;!name="manifest"\r\n\r\nx\r\n'), source(), raw.end],
      says: "A part without a name",
    },
    {
      what: "a manifest that is no JSON",
      parts: [raw.text("manifest", "version: 2"), source(), raw.end],
      says: "not JSON",
    },
    {
      what: "an invalid manifest behind a good source",
      parts: [source(), raw.text("manifest", '{"version":1}'), raw.end],
      says: "manifest.version",
    },
    {
      what: "invalid metadata behind a good source",
      parts: [good, source(), raw.text("metadata", '{"gitSha":"no"}'), raw.end],
      says: "metadata.gitSha",
    },
  ])("with $what is refused and leaves nothing", async ({ parts, type, says }) => {
    const project = await api.newProject(user);
    const answer = await deployRaw(project, parts, type);
    expect(codeOf(answer)).toEqual([422, "VALIDATION"]);
    expect(answer.body.error.message).toContain(says);
    await expectNothing(project);
  });

  test("with manifest and metadata as files is as good as with both as text", async () => {
    const project = await api.newProject(user);
    const parts = [
      raw.file("manifest", JSON.stringify(manifestOf("ssr"))),
      raw.file("metadata", '{"trigger":"curl"}'),
      source(),
      raw.end,
    ];
    const answer = await deployRaw(project, parts);
    expect(answer.status).toBe(202);
    const { trigger } = await api.db
      .selectFrom("deployment")
      .select("trigger")
      .where("id", "=", answer.body.deploymentId)
      .executeTakeFirstOrThrow();
    expect(trigger).toBe("curl");
  });

  test("sent as JSON, or as something else, is refused", async () => {
    const project = await api.newProject(user);
    expect(codeOf(await deploy(project, { manifest: manifestOf("ssr") }))).toEqual([422, "VALIDATION"]);
    for (const type of ["text/plain", "application/octet-stream", "multipart/mixed; boundary=xyz"])
      expect(codeOf(await deployRaw(project, [good, source(), raw.end], type)), type).toEqual([422, "VALIDATION"]);
    await expectNothing(project);
  });

  test("damaged in whatever way: never our fault, and nothing is left of what is refused", async () => {
    const whole = Buffer.concat([
      good,
      raw.text("metadata", '{"trigger":"cli"}'),
      raw.file("source", aSource({ name: "a", content: "hello" }, { name: "b/c", content: "world" })),
      raw.end,
    ]);
    const at = fc.nat(whole.length - 1);
    const damage = fc.oneof(
      fc.record({ do: fc.constant("cut" as const), at }),
      fc.record({ do: fc.constant("repeat" as const), at, length: fc.integer({ min: 1, max: 400 }) }),
      fc.record({ do: fc.constant("leave out" as const), at, length: fc.integer({ min: 1, max: 400 }) }),
      fc.record({ do: fc.constant("flip" as const), at, mask: fc.integer({ min: 1, max: 255 }) }),
    );
    const damaged = fc.array(damage, { minLength: 1, maxLength: 3 }).map((steps) =>
      steps.reduce((body, step) => {
        if (step.do === "cut") return body.subarray(0, step.at);
        if (step.do === "repeat")
          return Buffer.concat([body.subarray(0, step.at + step.length), body.subarray(step.at)]);
        if (step.do === "leave out")
          return Buffer.concat([body.subarray(0, step.at), body.subarray(step.at + step.length)]);
        const copy = Buffer.from(body);
        if (step.at < copy.length) copy[step.at] = (copy[step.at] ?? 0) ^ step.mask;
        return copy;
      }, whole),
    );
    await fc.assert(
      fc.asyncProperty(damaged, async (body) => {
        // The plan allows so many deployments an hour, and some of the damage does no harm.
        await api.db.deleteFrom("accepted_deploy").execute();
        const project = await api.newProject(user);
        const answer = await deployRaw(project, [body]);
        expect([202, 422]).toContain(answer.status);
        if (answer.status !== 202) await expectNothing(project);
      }),
      { numRuns: 150 },
    );
  }, 120_000);
});

describe("a manifest", () => {
  test.each<{ what: string; manifest: object; says: string }>([
    { what: "version 1", manifest: { ...manifestOf("ssr"), version: 1 }, says: "manifest.version" },
    { what: 'version "2"', manifest: { ...manifestOf("ssr"), version: "2" }, says: "manifest.version" },
    { what: "an unknown channel", manifest: manifestOf("ssr", { channel: "prod" }), says: "manifest.channel" },
    {
      what: "port 0",
      manifest: { version: 2, app: { name: "Shop", type: "ssr", port: 0 } },
      says: "manifest.app.port",
    },
    {
      what: "a port that is text",
      manifest: { version: 2, app: { name: "Shop", type: "ssr", port: "80" } },
      says: "manifest.app.port",
    },
    {
      what: "a health path elsewhere",
      manifest: manifestOf("ssr", { health: { path: "//x" } }),
      says: "manifest.health.path",
    },
    {
      what: "a root above the archive",
      manifest: manifestOf("ssr", { source: { rootDirectory: "../x" } }),
      says: "manifest.source.rootDirectory",
    },
    {
      what: "a root that its own place forbids",
      manifest: manifestOf("ssr", { source: { manifestPath: "apps/web/svc.yml", rootDirectory: "apps/api" } }),
      says: "cannot choose another root directory",
    },
    { what: "a misspelled key", manifest: manifestOf("ssr", { helth: {} }), says: "did you mean health?" },
    {
      what: "a misspelled key further down",
      manifest: manifestOf("ssr", { jobs: [{ name: "n", schedul: "* * * * *", command: "x" }] }),
      says: "manifest.jobs.0.schedul is not a known key; did you mean schedule?",
    },
    {
      what: "a key that reaches the prototype",
      manifest: JSON.parse('{"version":2,"__proto__":{"x":1}}'),
      says: "__proto__",
    },
    { what: "another project type", manifest: manifestOf("static"), says: "of type static" },
    {
      what: "an image",
      manifest: { version: 2, name: "Shop", type: "ociimage", port: 80, image: { reference: "a.test/b:1" } },
      says: "manifest",
    },
  ])("with $what is refused before the archive is stored", async ({ manifest, says }) => {
    const project = await api.newProject(user);
    const answer = await deploy(project, formOf({ manifest }));
    expect(codeOf(answer)).toEqual([422, "VALIDATION"]);
    expect(answer.body.error.message).toContain(says);
    await expectNothing(project);
  });

  test("of a static site has neither jobs, nor a database, nor a dev channel", async () => {
    const project = await api.newProject(user, { type: "static" });
    for (const extra of [
      { jobs: [{ name: "nightly", schedule: "0 3 * * *", command: "node x" }] },
      { database: { enabled: true } },
      { channel: "dev" },
    ]) {
      const answer = await deploy(project, formOf({ manifest: manifestOf("static", extra) }));
      expect(codeOf(answer)).toEqual([422, "VALIDATION"]);
    }
  });

  test("is stored as the server writes it, with its place in the repository", async () => {
    const project = await api.newProject(user);
    const manifest = manifestOf("ssr", {
      slug: "auto",
      source: { manifestPath: "./apps//web/svc.yml" },
      env: {},
      jobs: [{ name: "n", schedule: "0 3 * * *", command: "x" }],
    });
    const { status, body } = await deploy(project, formOf({ manifest }));
    expect(status).toBe(202);
    const place = { rootDirectory: "apps/web", manifestPath: "apps/web/svc.yml", watchPaths: ["apps/web/**"] };
    expect(body.source).toEqual(place);
    const row = await api.db
      .selectFrom("deployment")
      .select(["manifest", "root_directory", "manifest_path", "watch_paths"])
      .where("id", "=", body.deploymentId)
      .executeTakeFirstOrThrow();
    expect(row).toMatchObject({
      root_directory: "apps/web",
      manifest_path: "apps/web/svc.yml",
      watch_paths: ["apps/web/**"],
    });
    expect(row.manifest).toEqual({
      version: 2,
      app: { name: "Shop", type: "ssr", port: 3000, replicas: 1, spa: false },
      source: place,
      build: {},
      start: {},
      health: { path: "/", timeoutSeconds: 60 },
      env: { files: [] },
      database: { enabled: false, engine: "postgres" },
      jobs: [
        {
          ...{ name: "n", schedule: "0 3 * * *", timezone: "UTC", command: "x" },
          ...{ timeoutSeconds: 900, retries: 0, overlap: "skip", enabled: true },
        },
      ],
      dev: {},
    });
    const detail = await api.call("GET", `/deployments/${body.deploymentId}`, { session: user.session });
    expect(detail.body.deployment.source).toEqual(place);
  });

  test("at the repository's root may choose a directory below", async () => {
    const project = await api.newProject(user);
    const manifest = manifestOf("ssr", { source: { rootDirectory: "apps/web/" } });
    const { body } = await deploy(project, formOf({ manifest }));
    expect(body.source).toEqual({
      rootDirectory: "apps/web",
      manifestPath: "svc.yml",
      watchPaths: ["apps/web/**", "svc.yml"],
    });
  });

  test("and metadata may have so many bytes, and not one more", async () => {
    const padded = (value: object, sizeBytes: number) => {
      const text = JSON.stringify(value);
      return text + " ".repeat(sizeBytes - text.length);
    };
    const send = async (manifestBytes: number, metadataBytes: number) => {
      const project = await api.newProject(user);
      const manifest = raw.text("manifest", padded(manifestOf("ssr"), manifestBytes));
      const metadata = raw.text("metadata", padded({ trigger: "cli" }, metadataBytes));
      const answer = await deployRaw(project, [manifest, metadata, source(), raw.end]);
      if (answer.status !== 202) await expectNothing(project);
      return codeOf(answer);
    };
    const { manifestBytesMax, metadataBytesMax } = limits;
    expect(await send(manifestBytesMax, metadataBytesMax)).toEqual([202, undefined]);
    expect(await send(manifestBytesMax + 1, 100)).toEqual([422, "VALIDATION"]);
    expect(await send(manifestBytesMax + 100, 100)).toEqual([422, "VALIDATION"]);
    expect(await send(1000, metadataBytesMax + 1)).toEqual([422, "VALIDATION"]);
  });
});

describe("metadata", () => {
  const text = (length: number) => "t".repeat(length);
  test.each<{ field: string; kept: unknown; refused: unknown[] }>([
    {
      field: "trigger",
      kept: text(limits.triggerLengthMax),
      refused: [text(limits.triggerLengthMax + 1), "", 1, "a\nb"],
    },
    { field: "gitSha", kept: "a".repeat(64), refused: ["a".repeat(65), "abcdef", "not-a-hash", ""] },
    {
      field: "gitRef",
      kept: text(limits.metadataTextLengthMax),
      refused: [text(limits.metadataTextLengthMax + 1), "", "a\u0000b"],
    },
    {
      field: "gitRepository",
      kept: text(limits.metadataTextLengthMax),
      refused: [text(limits.metadataTextLengthMax + 1), "", []],
    },
    { field: "gitPrNumber", kept: 2 ** 31 - 1, refused: [2 ** 31, 0, -1, 1.5, "7"] },
  ])("$field has its bounds", async ({ field, kept, refused }) => {
    const project = await api.newProject(user);
    const { status, body } = await deploy(project, formOf({ metadata: { [field]: kept } }));
    expect(status).toBe(202);
    const detail = await api.call("GET", `/deployments/${body.deploymentId}`, { session: user.session });
    expect(detail.body.deployment[field]).toBe(kept);
    const other = await api.newProject(user);
    for (const value of refused) {
      const answer = await deploy(other, formOf({ metadata: { [field]: value } }));
      expect(codeOf(answer), String(value)).toEqual([422, "VALIDATION"]);
      expect(answer.body.error.message).toContain(`metadata.${field}`);
    }
    await expectNothing(other);
  });

  test("has no other fields, and names the one that was meant", async () => {
    const project = await api.newProject(user);
    const answer = await deploy(project, formOf({ metadata: { gitSHA: "abcdef0" } }));
    expect(codeOf(answer)).toEqual([422, "VALIDATION"]);
    expect(answer.body.error.message).toContain("did you mean gitSha?");
  });
});

describe("the size", () => {
  const small = async () => {
    const owner = await api.newUser({ plan: { max_upload_mb: 1 } });
    return { owner, project: await api.newProject(owner) };
  };

  test("may be what the plan says, and not one byte more", async () => {
    const { owner, project } = await small();
    const send = (sizeBytes: number) =>
      deploy(project, formOf({ source: aSourceOf(sizeBytes) }), { session: owner.session });
    const over = await send(mebibyte + 1);
    expect(codeOf(over)).toEqual([413, "UPLOAD_TOO_LARGE"]);
    expect(over.body.error.message).toContain("1 MiB");
    await expectNothing(project);
    const { status, body } = await send(mebibyte);
    expect(status).toBe(202);
    const detail = await api.call("GET", `/deployments/${body.deploymentId}`, { session: owner.session });
    expect(detail.body.deployment.sourceSize).toBe(mebibyte);
  });

  test("is refused by what the request says of itself before anything is read", async () => {
    const { owner, project } = await small();
    const answer = await deploy(project, formOf({ source: aSourceOf(3 * mebibyte) }), { session: owner.session });
    expect(codeOf(answer)).toEqual([413, "UPLOAD_TOO_LARGE"]);
    expect(answer.headers.get("connection")).toBe("close");
    await expectNothing(project);
  });

  test("is never held whole", async () => {
    const project = await api.newProject(user);
    const body = aSourceOf(64 * mebibyte);
    const before = process.memoryUsage.rss();
    expect((await deploy(project, formOf({ source: body }))).status).toBe(202);
    expect(process.memoryUsage.rss() - before).toBeLessThan(300 * mebibyte);
  });
});

test("a page of another site cannot upload along with its visitor's cookie", async () => {
  const credentials = { email: `${randomBytes(6).toString("hex")}@svc.test`, password: "correct horse battery" };
  await api.request("POST", "/api/auth/sign-up/email", { body: { name: "Eve", ...credentials } });
  const signedIn = await api.request("POST", "/api/auth/sign-in/email", { body: credentials });
  const { id } = signedIn.body.user;
  await sql`update auth."user" set "emailVerified" = true where id = ${id}`.execute(api.db);
  const project = await api.newProject({ ...user, id });
  const cookie = signedIn.headers
    .getSetCookie()
    .map((each) => each.split(";", 1)[0])
    .join("; ");
  const upload = (headers: Record<string, string>) => deploy(project, formOf(), { cookie, headers });
  for (const headers of [{ origin: "https://evil.test" }, { "sec-fetch-site": "cross-site" }, {}])
    expect(codeOf(await upload(headers))).toEqual([403, "FORBIDDEN"]);
  await expectNothing(project);
  expect((await upload({ origin: api.url })).status).toBe(202);
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
