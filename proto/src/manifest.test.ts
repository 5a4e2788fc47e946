import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  isOciManifest,
  manifestName,
  manifestPort,
  manifestSchema,
  manifestSnapshot,
  manifestType,
  ociManifestSchema,
  releaseOf,
  sourceManifestSchema,
  sourceOf,
  storedManifestSchema,
} from "./manifest.ts";
import { autoSlug } from "./names.ts";
import { reservedSlugs } from "./reserved-slugs.ts";

const json = <T>(value: T): unknown => JSON.parse(JSON.stringify(value));
const anSsr = { version: 2, app: { name: "Shop", type: "ssr" } };
const aStatic = { version: 2, app: { name: "Shop", type: "static" } };
const anImage = { version: 2, name: "Shop", type: "ociimage", port: 8080, image: { reference: "acme/shop:1" } };

/** Dotted paths of what is wrong. */
function wrong(value: unknown): string[] {
  const result = manifestSchema.safeParse(value);
  return result.success ? [] : result.error.issues.map((issue) => issue.path.join("."));
}

describe("defaults", () => {
  test("of an app that says only what it is", () => {
    expect(manifestSchema.parse(anSsr)).toEqual({
      version: 2,
      app: { name: "Shop", type: "ssr", port: 3000, replicas: 1, spa: false },
      source: { rootDirectory: ".", manifestPath: "svc.yml", watchPaths: ["**"] },
      build: {},
      start: {},
      health: { path: "/", timeoutSeconds: 60 },
      env: { files: [] },
      database: { enabled: false, engine: "postgres" },
      jobs: [],
      dev: {},
    });
  });

  test("of an image, whose reference is written out", () => {
    expect(manifestSchema.parse(anImage)).toEqual({
      ...anImage,
      image: { reference: "docker.io/acme/shop:1" },
      health: { path: "/", timeoutSeconds: 60 },
    });
  });

  test("a static site without a command is its files; where a command leaves it is open until somebody says it", () => {
    expect(sourceManifestSchema.parse(aStatic).build).toEqual({ output: "." });
    const built = { ...aStatic, build: { command: "npm run build" } };
    expect(sourceManifestSchema.parse(built).build).toEqual({ command: "npm run build" });
    const said = { ...aStatic, build: { command: "npm run build", output: "dist" } };
    expect(sourceManifestSchema.parse(said).build).toEqual(said.build);
    const named = { ...aStatic, build: { command: "make", output: "./public/" } };
    expect(sourceManifestSchema.parse(named).build.output).toBe("public");
  });

  test("slug auto is no slug", () => {
    expect(sourceManifestSchema.parse({ ...anSsr, slug: "auto" })).not.toHaveProperty("slug");
    expect(sourceManifestSchema.parse({ ...anSsr, slug: "my-shop" }).slug).toBe("my-shop");
  });

  test("a manifest of before its slug was reserved is still one", () => {
    for (const slug of [...reservedSlugs].filter((name) => name !== autoSlug).concat("shop--7")) {
      const stored = json({ ...manifestSchema.parse(anSsr), slug });
      expect(manifestSchema.parse(stored)).toEqual(stored);
    }
  });
});

describe("a stored manifest", () => {
  const job = { name: "nightly", schedule: "0 3 * * *", command: "node job.js" };
  const later = { soon: { it: ["is"] } };
  test.each<{ of: string; before: object; with: object }>([
    { of: "an app", before: anSsr, with: { ...anSsr, ...later, build: later, health: { path: "/", ...later } } },
    { of: "an app's jobs", before: { ...anSsr, jobs: [job] }, with: { ...anSsr, jobs: [{ ...job, ...later }] } },
    { of: "a site", before: aStatic, with: { ...aStatic, ...later, app: { ...aStatic.app, ...later } } },
    { of: "an image", before: anImage, with: { ...anImage, ...later, image: { ...anImage.image, ...later } } },
  ])("loses what only a later version knows of $of, and is refused from users", ({ before, with: written }) => {
    expect(storedManifestSchema.parse(json(written))).toEqual(manifestSchema.parse(before));
    expect(manifestSchema.safeParse(json(written)).success).toBe(false);
  });

  test("is refused for whatever else is wrong with it", () => {
    const paths = ({ error }: { error?: { issues: { path: PropertyKey[] }[] } | undefined }) =>
      error?.issues.map(({ path }) => path.join("."));
    expect(paths(storedManifestSchema.safeParse({ ...anSsr, ...later, version: 3 }))).toEqual(["version"]);
    const twice = { ...anSsr, ...later, jobs: [job, job] };
    expect(paths(storedManifestSchema.safeParse(twice))).toEqual(["jobs.1.name"]);
    expect(paths(storedManifestSchema.safeParse(null))).toEqual([""]);
  });
});

describe("what is refused", () => {
  const job = { name: "nightly", schedule: "0 3 * * *", command: "node job.js" };
  test.each<{ when: string; value: unknown; at: string[] }>([
    { when: "it is no object", value: null, at: [""] },
    { when: "it is a list", value: [], at: [""] },
    { when: "the version is 1", value: { ...anSsr, version: 1 }, at: ["version"] },
    { when: "the version is a text", value: { ...anSsr, version: "2" }, at: ["version"] },
    { when: "the type is unknown", value: { ...anSsr, app: { name: "x", type: "SSR" } }, at: ["app.type"] },
    { when: "a key is unknown", value: { ...anSsr, scale: 3 }, at: [""] },
    { when: "a nested key is unknown", value: { ...anSsr, health: { route: "/" } }, at: ["health"] },
    { when: "port is 0", value: { ...anSsr, app: { ...anSsr.app, port: 0 } }, at: ["app.port"] },
    { when: "port is 65536", value: { ...anSsr, app: { ...anSsr.app, port: 65_536 } }, at: ["app.port"] },
    { when: "port is a text", value: { ...anSsr, app: { ...anSsr.app, port: "80" } }, at: ["app.port"] },
    { when: "the name is empty", value: { ...anSsr, app: { ...anSsr.app, name: "" } }, at: ["app.name"] },
    { when: "the slug is no name of a host", value: { ...anSsr, slug: "My Shop" }, at: ["slug"] },
    { when: "the channel is unknown", value: { ...anSsr, channel: "prod" }, at: ["channel"] },
    { when: "health leaves the site", value: { ...anSsr, health: { path: "//x" } }, at: ["health.path"] },
    {
      when: "health waits a day",
      value: { ...anSsr, health: { timeoutSeconds: 86_400 } },
      at: ["health.timeoutSeconds"],
    },
    { when: "the root climbs", value: { ...anSsr, source: { rootDirectory: "../x" } }, at: ["source.rootDirectory"] },
    {
      when: "a nested manifest points elsewhere",
      value: { ...anSsr, source: { rootDirectory: "api", manifestPath: "web/svc.yml" } },
      at: ["source.rootDirectory"],
    },
    { when: "a command is empty", value: { ...anSsr, start: { command: " " } }, at: ["start.command"] },
    { when: "a command is nothing", value: { ...anSsr, start: { command: "" } }, at: ["start.command"] },
    { when: "a command has a NUL", value: { ...anSsr, start: { command: "a\0" } }, at: ["start.command"] },
    { when: "a command is huge", value: { ...anSsr, start: { command: "x".repeat(4097) } }, at: ["start.command"] },
    { when: "a release has no command", value: { ...anSsr, release: { timeoutSeconds: 3 } }, at: ["release.command"] },
    { when: "an env file climbs", value: { ...anSsr, env: { files: ["../.env"] } }, at: ["env.files.0"] },
    { when: "the engine is unknown", value: { ...anSsr, database: { engine: "mysql" } }, at: ["database.engine"] },
    { when: "two jobs share a name", value: { ...anSsr, jobs: [job, job] }, at: ["jobs.1.name"] },
    {
      when: "a schedule is wrong",
      value: { ...anSsr, jobs: [{ ...job, schedule: "daily" }] },
      at: ["jobs.0.schedule"],
    },
    { when: "a zone is wrong", value: { ...anSsr, jobs: [{ ...job, timezone: "X/Y" }] }, at: ["jobs.0.timezone"] },
    { when: "there are too many jobs", value: { ...anSsr, jobs: Array(51).fill(job) }, at: ["jobs"] },
    { when: "ssr has an output", value: { ...anSsr, build: { output: "dist" } }, at: ["build.output"] },
    { when: "ssr has an unusual site", value: { ...anSsr, build: { allowUnusual: true } }, at: ["build.allowUnusual"] },
    { when: "ssr is a spa", value: { ...anSsr, app: { ...anSsr.app, spa: true } }, at: ["app.spa"] },
    {
      when: "both a Dockerfile and a command build",
      value: { ...anSsr, build: { dockerfile: "Dockerfile", command: "make" } },
      at: ["build.command"],
    },
    {
      when: "static has what needs a container",
      value: {
        ...aStatic,
        channel: "dev",
        database: { enabled: true },
        jobs: [job],
        release: { command: "x" },
        start: { command: "x" },
        build: { dockerfile: "Dockerfile" },
        app: { ...aStatic.app, replicas: 2 },
        drain: { seconds: 5 },
      },
      at: [
        "database.enabled",
        "jobs",
        "release",
        "start.command",
        "build.dockerfile",
        "drain",
        "app.replicas",
        "channel",
      ],
    },
    { when: "an image has no tag", value: { ...anImage, image: { reference: "acme/shop" } }, at: ["image.reference"] },
    { when: "an image selects dev", value: { ...anImage, channel: "dev" }, at: ["channel"] },
    { when: "an image has jobs", value: { ...anImage, jobs: [] }, at: [""] },
    { when: "an image has no port", value: { ...anImage, port: undefined }, at: ["port"] },
    { when: "an image is nested", value: { ...anSsr, app: { name: "x", type: "ociimage" } }, at: ["app.type"] },
  ])("when $when", ({ value, at }) => {
    expect(wrong(value)).toEqual(at);
  });

  test("a schedule that never fires is refused when somebody writes it, and not of what was accepted once", () => {
    const value = { ...anSsr, jobs: [job, { ...job, name: "never", schedule: "0 0 31 2 *" }] };
    const { error } = sourceManifestSchema.safeParse(value);
    expect(error?.issues).toMatchObject([
      { path: ["jobs", 1, "schedule"], message: expect.stringContaining("never fires") },
    ]);
    expect(storedManifestSchema.parse(value)).toMatchObject({ jobs: [{ name: "nightly" }, { name: "never" }] });
  });

  test("a bad reference is marked, so that the API can name it", () => {
    const result = ociManifestSchema.safeParse({ ...anImage, image: { reference: "x" } });
    expect(result.error?.issues).toMatchObject([{ params: { code: "OCI_REFERENCE_INVALID" } }]);
  });
});

// Every command carries the marker; nothing else does.
const secret = fc.stringMatching(/^[a-z ./-]{0,20}$/).map((text) => `CMD${text}`);
const file = fc.stringMatching(/^[a-z]{1,8}$/);
const jobs = fc.uniqueArray(
  fc.record({
    name: fc.stringMatching(/^[a-z]{1,10}$/),
    schedule: fc.constantFrom("* * * * *", "0 3 * * mon"),
    command: secret,
    retries: fc.integer({ min: 0, max: 10 }),
    enabled: fc.boolean(),
  }),
  { maxLength: 4, selector: (job) => job.name },
);
const ssrManifest = fc.record(
  {
    version: fc.constant(2),
    app: fc.record({
      name: fc.constantFrom("Shop", "Zürich 🚲"),
      type: fc.constant("ssr"),
      port: fc.integer({ min: 1, max: 65_535 }),
    }),
    slug: fc.constantFrom("auto", "my-shop"),
    channel: fc.constantFrom("production", "preview", "dev"),
    source: fc.record({ rootDirectory: fc.constantFrom(".", "./apps/web/", "a") }),
    build: fc.record({ command: secret }),
    start: fc.record({ command: secret }),
    release: fc.record({ command: secret }),
    env: fc.record({
      files: fc.array(
        file.map((name) => `CMD${name}`),
        { maxLength: 3 },
      ),
    }),
    database: fc.record({ enabled: fc.boolean(), engine: fc.constantFrom("postgres", "mariadb") }),
    jobs,
    dev: fc.record({ command: secret }),
  },
  { requiredKeys: ["version", "app"] },
);
const imageManifest = fc.record(
  {
    version: fc.constant(2),
    name: fc.constant("Shop"),
    type: fc.constant("ociimage"),
    port: fc.integer({ min: 1, max: 65_535 }),
    image: fc.record({ reference: fc.constantFrom("nginx:1", "registry.test:443/a/b:2") }),
    channel: fc.constantFrom("production", "preview"),
  },
  { requiredKeys: ["version", "name", "type", "port", "image"] },
);
const anyManifest = fc.oneof(ssrManifest, imageManifest);

describe("properties", () => {
  test("a normalised manifest survives JSON and is normal", () => {
    fc.assert(
      fc.property(anyManifest, (written) => {
        const manifest = manifestSchema.parse(written);
        expect(json(manifest)).toEqual(manifest);
        expect(manifestSchema.parse(json(manifest))).toEqual(manifest);
        expect(storedManifestSchema.parse(json(manifest))).toEqual(manifest);
      }),
    );
  });

  test("a snapshot shows no command and no env file, whatever the manifest", () => {
    fc.assert(
      fc.property(anyManifest, (written) => {
        const snapshot = JSON.stringify(manifestSnapshot(manifestSchema.parse(written)));
        expect(snapshot).not.toContain("CMD");
        expect(snapshot).not.toMatch(/"(command|build|start|dev|env)":/);
      }),
    );
  });
});

test("a snapshot keeps what people need to see", () => {
  const manifest = manifestSchema.parse({
    ...anSsr,
    release: { command: "migrate", timeoutSeconds: 90 },
    jobs: [{ name: "nightly", schedule: "0 3 * * *", timezone: "Europe/Berlin", command: "x" }],
  });
  expect(manifestSnapshot(manifest)).toMatchObject({
    release: { configured: true, timeoutSeconds: 90 },
    jobs: [{ name: "nightly", schedule: "0 3 * * *", timezone: "Europe/Berlin", retries: 0, overlap: "skip" }],
    source: { manifestPath: "svc.yml" },
  });
});

test("both forms answer the same questions", () => {
  const app = manifestSchema.parse({ ...anSsr, release: { command: "x" } });
  const image = manifestSchema.parse(anImage);
  expect([app, image].map(isOciManifest)).toEqual([false, true]);
  expect([app, image].map(manifestType)).toEqual(["ssr", "ociimage"]);
  expect([app, image].map(manifestName)).toEqual(["Shop", "Shop"]);
  expect([app, image].map(manifestPort)).toEqual([3000, 8080]);
  expect([app, image].map((each) => sourceOf(each)?.rootDirectory ?? null)).toEqual([".", null]);
  expect([app, image].map(releaseOf)).toEqual([
    { configured: true, timeoutSeconds: 300 },
    { configured: false, timeoutSeconds: null },
  ]);
});
