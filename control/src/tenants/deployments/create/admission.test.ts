import { ociManifestSchema, sourceManifestSchema } from "@svc/proto";
import { expect, test } from "vitest";
import { admit, type DatabaseFacts, type ProjectFacts, projectRefusal, readmit } from "./admission.ts";

const plan = {
  max_image_mb: 1000,
  max_databases: 1,
  max_scheduled_jobs: 1,
  max_replicas: 2,
  max_drain_seconds: 60,
  dev_sync_enabled: true,
  previews_enabled: true,
};
const project: ProjectFacts = { type: "ssr", deployMode: "auto", suspended: null };
const source = (extra: object = {}, type = "ssr") =>
  sourceManifestSchema.parse({ version: 2, app: { name: "Shop", type }, ...extra });
const image = (extra: object = {}) =>
  ociManifestSchema.parse({
    version: 2,
    name: "Shop",
    type: "ociimage",
    port: 80,
    image: { reference: "a.test/b:1" },
    ...extra,
  });
const replicated = (replicas: number) => source({ app: { name: "Shop", type: "ssr", replicas } });
const job = (name: string) => ({ name, schedule: "0 3 * * *", command: "node job.js" });

test.each([
  { when: "nothing stands against it", facts: {}, code: null },
  {
    when: "the project is suspended",
    facts: { project: { ...project, suspended: "admin" as const } },
    code: "SUSPENDED",
  },
  { when: "the address is not confirmed", facts: { deployer: { emailVerified: false } }, code: "EMAIL_NOT_VERIFIED" },
  {
    when: "both",
    facts: { project: { ...project, suspended: "admin" as const }, deployer: { emailVerified: false } },
    code: "SUSPENDED",
  },
  {
    when: "it is an image and the plan has none",
    facts: { project: { ...project, type: "ociimage" as const }, plan: { ...plan, max_image_mb: 0 } },
    code: "PLAN_FEATURE_UNAVAILABLE",
  },
  { when: "it is no image and the plan has none", facts: { plan: { ...plan, max_image_mb: 0 } }, code: null },
])("before the upload, when $when: $code", ({ facts, code }) => {
  const { project: of, deployer, plan: with_ } = { project, deployer: { emailVerified: true }, plan, ...facts };
  expect(projectRefusal(of, deployer, with_)?.code ?? null).toBe(code);
});

test.each([
  { reason: "admin" as const, says: "Ask the administrator" },
  { reason: "quota" as const, says: "comes back next month" },
])("a project suspended by $reason is told what ends it", ({ reason, says }) => {
  const refusal = projectRefusal({ ...project, suspended: reason }, { emailVerified: true }, plan);
  expect(refusal?.message).toContain(says);
});

const none: DatabaseFacts = { engine: null, ready: [] };
const ready: DatabaseFacts = { engine: "postgres", ready: ["production"] };

test.each([
  { when: "nothing is forced", manifest: source(), goes: { channel: "production", prNumber: null } },
  {
    when: "the project previews",
    manifest: source(),
    facts: { project: { ...project, deployMode: "preview" as const } },
    goes: { channel: "preview", prNumber: null },
  },
  {
    when: "production is forced on a project that previews",
    manifest: source({ channel: "production" }),
    facts: { project: { ...project, deployMode: "preview" as const } },
    goes: { channel: "production", prNumber: null },
  },
  { when: "dev is forced", manifest: source({ channel: "dev" }), goes: { channel: "dev", prNumber: null } },
  {
    when: "it comes from a pull request",
    manifest: source(),
    metadata: { gitPrNumber: 7 },
    goes: { channel: "production", prNumber: null },
  },
  {
    when: "a pull request is previewed",
    manifest: source({ channel: "preview" }),
    metadata: { gitPrNumber: 7 },
    goes: { channel: "preview", prNumber: 7 },
  },
  {
    when: "a pull request goes to dev",
    manifest: source({ channel: "dev" }),
    metadata: { gitPrNumber: 7 },
    goes: { channel: "dev", prNumber: null },
  },
  {
    when: "it is an image",
    manifest: image(),
    facts: { project: { ...project, type: "ociimage" as const } },
    goes: { channel: "production", prNumber: null },
  },
  {
    when: "it wants as long a drain as the plan allows",
    manifest: source({ drain: { seconds: 60 } }),
    goes: { channel: "production", prNumber: null },
  },
  {
    when: "it says nothing of a drain and the plan allows none",
    manifest: source(),
    facts: { plan: { ...plan, max_drain_seconds: 0 } },
    goes: { channel: "production", prNumber: null },
  },
  {
    when: "its database is ready",
    manifest: source({ database: { enabled: true } }),
    facts: { databases: ready },
    goes: { channel: "production", prNumber: null },
  },
])("it goes to $goes.channel when $when", ({ manifest, metadata = {}, facts = {}, goes }) => {
  expect(admit(manifest, metadata, { project, plan, databases: none, ...facts })).toEqual(goes);
});

test.each([
  { when: "the types differ", manifest: source({}, "static"), code: "VALIDATION" },
  { when: "the manifest is an image's", manifest: image(), code: "VALIDATION" },
  {
    when: "the plan has no previews",
    manifest: source({ channel: "preview" }),
    facts: { plan: { ...plan, previews_enabled: false } },
    code: "PREVIEW_UNAVAILABLE",
  },
  {
    when: "the plan has no dev channel",
    manifest: source({ channel: "dev" }),
    facts: { plan: { ...plan, dev_sync_enabled: false } },
    code: "PLAN_FEATURE_UNAVAILABLE",
  },
  { when: "its database is not ready", manifest: source({ database: { enabled: true } }), code: "DATABASE_NOT_READY" },
  {
    when: "the plan has no databases",
    manifest: source({ database: { enabled: true } }),
    facts: { plan: { ...plan, max_databases: 0 } },
    code: "PLAN_FEATURE_UNAVAILABLE",
  },
  {
    when: "another channel's database is ready",
    manifest: source({ channel: "preview", database: { enabled: true } }),
    facts: { databases: ready },
    code: "DATABASE_NOT_READY",
  },
  {
    when: "the project has another engine",
    manifest: source({ database: { enabled: true, engine: "mariadb" } }),
    facts: { databases: ready },
    code: "DATABASE_ENGINE_CONFLICT",
  },
  {
    when: "the project has another engine and no database",
    manifest: source({ database: { enabled: true } }),
    facts: { databases: { engine: "mariadb" as const, ready: [] } },
    code: "DATABASE_ENGINE_CONFLICT",
  },
  { when: "it has too many jobs", manifest: source({ jobs: [job("a"), job("b")] }), code: "QUOTA_EXCEEDED" },
  { when: "it has too many replicas", manifest: replicated(3), code: "QUOTA_EXCEEDED" },
  { when: "it wants a longer drain", manifest: source({ drain: { seconds: 61 } }), code: "QUOTA_EXCEEDED" },
  {
    when: "its image wants a longer drain",
    manifest: image({ drain: { seconds: 61 } }),
    facts: { project: { ...project, type: "ociimage" as const } },
    code: "QUOTA_EXCEEDED",
  },
])("refused when $when: $code", ({ manifest, facts = {}, code }) => {
  const admission = admit(manifest, {}, { project, plan, databases: none, ...facts });
  expect(admission).toMatchObject({ refusal: { code } });
});

const withDatabase = source({ database: { enabled: true } });
test.each([
  { when: "nothing is special", manifest: source(), code: null },
  { when: "it goes to dev and the plan has it", manifest: source(), channel: "dev", code: null },
  {
    when: "it goes to dev and the plan has lost it",
    manifest: source(),
    channel: "dev",
    with: { dev_sync_enabled: false },
    code: "PLAN_FEATURE_UNAVAILABLE",
  },
  { when: "production's database is ready", manifest: withDatabase, databases: ready, code: null },
  { when: "production has no database", manifest: withDatabase, code: "DATABASE_NOT_READY" },
  {
    when: "neither production nor the plan has a database",
    manifest: withDatabase,
    with: { max_databases: 0 },
    code: "DATABASE_NOT_READY",
  },
  { when: "the plan has as many jobs", manifest: source({ jobs: [job("a")] }), code: null },
  { when: "the plan has fewer jobs", manifest: source({ jobs: [job("a"), job("b")] }), code: "QUOTA_EXCEEDED" },
  { when: "the plan has as many replicas", manifest: replicated(2), code: null },
  { when: "the plan has fewer replicas", manifest: replicated(3), code: "QUOTA_EXCEEDED" },
  {
    when: "the plan has lost previews, which it comes from",
    manifest: source({ channel: "preview" }),
    with: { previews_enabled: false },
    code: null,
  },
  { when: "it is an image", manifest: image(), code: null },
] as const)("deployed once more, when $when: $code", ({ manifest, code, ...facts }) => {
  const {
    channel = "production",
    databases = none,
    with: change = {},
  } = facts as {
    channel?: "production" | "dev";
    databases?: DatabaseFacts;
    with?: Partial<typeof plan>;
  };
  expect(readmit(manifest, channel, { plan: { ...plan, ...change }, databases })?.code ?? null).toBe(code);
});

test("whoever asks for too many replicas is told both numbers", () => {
  expect(readmit(replicated(3), "production", { plan, databases: ready })?.message).toBe(
    "The manifest asks for 3 replicas and the plan allows 2. Lower app.replicas, or ask for a larger plan.",
  );
});
