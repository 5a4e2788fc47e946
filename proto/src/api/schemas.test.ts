import { describe, expect, test } from "vitest";
import { z } from "zod";
import * as proto from "../index.ts";

const schemas: [string, z.ZodType][] = Object.entries<unknown>(proto).flatMap(([name, value]) =>
  value instanceof z.ZodType ? [[name, value]] : [],
);

describe("every schema", () => {
  test.each(schemas)("%s can be written as JSON Schema for the API document", (name, schema) => {
    const io = name.endsWith("Reply") || name.endsWith("Schema") ? "output" : "input";
    const unrepresentable = name.toLowerCase().includes("manifest") ? "any" : "throw";
    expect(() => z.toJSONSchema(schema, { io, unrepresentable })).not.toThrow();
  });

  test.each(schemas.filter(([name]) => /(Input|Params|Query|Fields)$/.test(name)))(
    "%s refuses unknown keys",
    (_, schema) => {
      const issues = schema.safeParse({ surprise: 1 }).error?.issues ?? [];
      expect(issues.some((issue) => issue.code === "unrecognized_keys")).toBe(true);
    },
  );

  test.each(schemas.filter(([name]) => name.endsWith("Reply") && name !== "errorReply"))(
    "%s tolerates extra fields",
    (_, schema) => {
      const issues = schema.safeParse({ ok: true, surprise: 1 }).error?.issues ?? [];
      expect(issues.some((issue) => issue.code === "unrecognized_keys" || issue.path[0] === "ok")).toBe(false);
    },
  );
});

/** Where `value` does not fit `schema`. */
const wrong = (schema: z.ZodType, value: unknown): string[] =>
  (schema.safeParse(value).error?.issues ?? []).map((issue) => issue.path.join("."));

const uuid = (n: number): string => `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`;

const upper = "0000000A-0000-4000-8000-00000000000A";

test.each([
  { when: "full access", body: { name: "cli @ box" }, at: [] },
  {
    when: "scoped",
    body: { name: "ci", scopes: ["deploy", "logs:read"], projectIds: [uuid(1)], expiresIn: 86_400 },
    at: [],
  },
  { when: "ci:deploy of one project", body: { name: "ci", scopes: ["ci:deploy"], projectIds: [uuid(1)] }, at: [] },
  { when: "no name", body: {}, at: ["name"] },
  { when: "65 characters", body: { name: "x".repeat(65) }, at: ["name"] },
  { when: "NUL in the name", body: { name: "a\0" }, at: ["name"] },
  { when: "a blank name", body: { name: " \u00a0" }, at: ["name"] },
  {
    when: "a project twice, once in capitals",
    body: { name: "x", projectIds: [upper.toLowerCase(), upper] },
    at: ["projectIds"],
  },
  { when: "no scope listed", body: { name: "x", scopes: [] }, at: ["scopes"] },
  { when: "an unknown scope", body: { name: "x", scopes: ["*"] }, at: ["scopes.0"] },
  { when: "a scope twice", body: { name: "x", scopes: ["deploy", "deploy"] }, at: ["scopes"] },
  { when: "null scopes", body: { name: "x", scopes: null }, at: ["scopes"] },
  {
    when: "ci:deploy with another",
    body: { name: "x", scopes: ["ci:deploy", "deploy"], projectIds: [uuid(1)] },
    at: [""],
  },
  { when: "ci:deploy without project", body: { name: "x", scopes: ["ci:deploy"] }, at: [""] },
  { when: "ci:deploy of two", body: { name: "x", scopes: ["ci:deploy"], projectIds: [uuid(1), uuid(2)] }, at: [""] },
  {
    when: "26 projects",
    body: { name: "x", projectIds: Array.from({ length: 26 }, (_, n) => uuid(n)) },
    at: ["projectIds"],
  },
  { when: "no UUID", body: { name: "x", projectIds: ["p"] }, at: ["projectIds.0"] },
  { when: "a fraction of a second", body: { name: "x", expiresIn: 1.5 }, at: ["expiresIn"] },
  { when: "expiry as text", body: { name: "x", expiresIn: "60" }, at: ["expiresIn"] },
])("POST /tokens with $when", ({ body, at }) => {
  expect(wrong(proto.createTokenInput, body)).toEqual(at);
});

test("ids are as the database writes them, whatever the caller wrote", () => {
  const { projectIds } = proto.createTokenInput.parse({ name: "x", projectIds: [upper] });
  expect(projectIds).toEqual([upper.toLowerCase()]);
  expect(proto.idParams.parse({ id: upper })).toEqual({ id: upper.toLowerCase() });
});

test.each([
  { text: "7", days: 7 },
  { text: "007", days: 7 },
  ...["0x10", "1e1", " 7", "7 ", "+7", "-7", "7.0", "", "٧", ["7", "8"], "9".repeat(16)].map((text) => ({
    text,
    days: null,
  })),
])("a number in an address, $text, is $days", ({ text, days }) => {
  expect(proto.seriesQuery.safeParse({ days: text }).data ?? null).toEqual(days === null ? null : { days });
});

test("a number out of bounds says which bounds", () => {
  const { error } = proto.seriesQuery.safeParse({ days: "366" });
  expect(error?.issues[0]?.message).toContain("365");
  expect(proto.seriesQuery.safeParse({ days: "x" }).error?.issues[0]?.message).toBe("is not a whole number");
  expect(proto.seriesQuery.parse({})).toEqual({ days: 30 });
});

test("a moment lies within what the database knows", () => {
  const since = (text: string) => wrong(proto.auditQuery, { since: text, until: text });
  expect(since("0000-01-01T00:00:00Z")).toEqual(["since", "until"]);
  expect(["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"].map(since)).toEqual([[], []]);
});

test("a page of projects tells whose each is, and where the next page begins", () => {
  const missing = wrong(proto.adminProjectsReply, { ok: true, projects: [{}] });
  expect(missing).toEqual(expect.arrayContaining(["projects.0.ownerId", "nextCursor"]));
});

test("a blank reason of a ban is none", () => {
  expect(proto.banUserInput.parse({ reason: "", expiresInSeconds: 1 })).toEqual({ expiresInSeconds: 1 });
  expect(proto.banUserInput.parse({ reason: " " })).toEqual({});
  expect(proto.banUserInput.parse({ reason: "spam" })).toEqual({ reason: "spam" });
  expect(wrong(proto.banUserInput, { reason: "a\nb", expiresInSeconds: 0 })).toEqual(["reason", "expiresInSeconds"]);
});

test("a plan that is sent back as it was read changes what can be changed", () => {
  const read = { id: upper, databaseEnabled: "x", userCount: -1, createdAt: null, updatedAt: 7 };
  expect(proto.updatePlanInput.parse({ ...read, name: "Pro" })).toEqual({ name: "Pro" });
  expect(wrong(proto.updatePlanInput, read)).toEqual([""]);
  expect(wrong(proto.updatePlanInput, { ...read, name: "Pro", userCounts: 1 })).toEqual([""]);
  expect(wrong(proto.updatePlanInput, { name: " " })).toEqual(["name"]);
});

test("keys live for 1 to 365 days", () => {
  expect([0, 86_399, 86_400, 31_536_000, 31_536_001].map(proto.isTokenExpiry)).toEqual([
    false,
    false,
    true,
    true,
    false,
  ]);
});

test.each([
  { body: { name: "Shop", type: "ssr" }, at: [] },
  { body: { name: "Shop", type: "static", slug: "auto" }, at: [] },
  { body: { name: "Shop", type: "ssr", slug: "my-shop" }, at: [] },
  { body: { name: "Shop", type: "SSR" }, at: ["type"] },
  { body: { name: "Shop", type: null }, at: ["type"] },
  { body: { name: "", type: "ssr" }, at: ["name"] },
  { body: { name: "a\u001bb", type: "ssr" }, at: ["name"] },
  { body: { name: "Shop", type: "ssr", slug: "www" }, at: ["slug"] },
  { body: { name: "Shop", type: "ssr", slug: "" }, at: ["slug"] },
  { body: { name: "Shop", type: "ssr", slug: null }, at: ["slug"] },
])("POST /projects $body", ({ body, at }) => {
  expect(wrong(proto.createProjectInput, body)).toEqual(at);
});

test.each([
  { body: { password: "x".repeat(72) }, at: [] },
  { body: { password: null, repoUrl: null, repoId: null }, at: [] },
  { body: { repoUrl: "https://git.test/acme/shop", repoId: "42" }, at: [] },
  { body: { repoUrl: "git@git.test:acme/shop.git" }, at: [] },
  { body: { productionBranch: "release/1.0", deployMode: "preview" }, at: [] },
  { body: {}, at: [""] },
  { body: { password: "" }, at: ["password"] },
  { body: { password: "x".repeat(73) }, at: ["password"] },
  { body: { password: "ä".repeat(37) }, at: ["password"] },
  { body: { password: "a\0b" }, at: ["password"] },
  { body: { deployMode: "prod" }, at: ["deployMode"] },
  { body: { productionBranch: "-o" }, at: ["productionBranch"] },
  { body: { productionBranch: null }, at: ["productionBranch"] },
  { body: { repoUrl: "file:///etc" }, at: ["repoUrl"] },
  { body: { repoUrl: "ext::sh -c x" }, at: ["repoUrl"] },
  { body: { repoUrl: "https://user:secret@git.test/a" }, at: ["repoUrl"] },
  { body: { type: "ssr" }, at: ["", ""] },
])("PATCH /projects/:id $body", ({ body, at }) => {
  expect(wrong(proto.patchProjectInput, body)).toEqual(at);
});

describe("POST /projects/:id/deployments", () => {
  const manifest = JSON.stringify({ version: 2, app: { name: "Shop", type: "ssr" } });

  test("reads the parts of a multipart body", () => {
    const metadata = JSON.stringify({ trigger: "cli", gitSha: "0".repeat(40), gitPrNumber: null });
    expect(proto.sourceDeploymentFields.parse({ manifest, metadata })).toMatchObject({
      manifest: { app: { type: "ssr", port: 3000 } },
      metadata: { trigger: "cli", gitPrNumber: null },
    });
  });

  test.each([
    { when: "there is no manifest", fields: {}, at: ["manifest"] },
    { when: "the manifest is no JSON", fields: { manifest: "{" }, at: ["manifest"] },
    {
      when: "the manifest is an image's",
      fields: { manifest: '{"version":2,"type":"ociimage"}' },
      at: ["manifest.app", "manifest"],
    },
    { when: "the manifest is huge", fields: { manifest: `"${"x".repeat(65_536)}"` }, at: ["manifest"] },
    { when: "metadata has an unknown key", fields: { manifest, metadata: '{"user":"x"}' }, at: ["metadata"] },
    {
      when: "the number is negative",
      fields: { manifest, metadata: '{"gitPrNumber":-1}' },
      at: ["metadata.gitPrNumber"],
    },
    {
      when: "the number is 2^31",
      fields: { manifest, metadata: '{"gitPrNumber":2147483648}' },
      at: ["metadata.gitPrNumber"],
    },
    { when: "the hash is none", fields: { manifest, metadata: '{"gitSha":"main"}' }, at: ["metadata.gitSha"] },
    { when: "the ref has an escape", fields: { manifest, metadata: '{"gitRef":"a\\u001b"}' }, at: ["metadata.gitRef"] },
    { when: "metadata is null", fields: { manifest, metadata: "null" }, at: ["metadata"] },
    { when: "metadata is huge", fields: { manifest, metadata: `{"gitRef":"${"x".repeat(5000)}"}` }, at: ["metadata"] },
  ])("refuses parts when $when", ({ fields, at }) => {
    expect(wrong(proto.sourceDeploymentFields, fields)).toEqual(at);
  });

  test("names the code of a bad reference, and only then", () => {
    const body = {
      manifest: { version: 2, name: "Shop", type: "ociimage", port: 80, image: { reference: "acme/shop" } },
    };
    const bad = proto.ociDeploymentInput.safeParse(body).error?.issues ?? [];
    expect(proto.validationCode(bad)).toBe("OCI_REFERENCE_INVALID");
    expect(proto.validationMessage(bad)).toBe(
      "manifest.image.reference: Write the tag or the digest, for example acme/shop:1.0.",
    );
    const other = proto.ociDeploymentInput.safeParse({ manifest: { version: 2 }, more: 1 }).error?.issues ?? [];
    expect(proto.validationCode(other)).toBe("VALIDATION");
    expect(proto.validationMessage(other)).toContain("manifest.name: is missing");
    expect(proto.validationMessage(other)).toContain("unknown key more");
  });
});

describe("PUT /projects/:id/env", () => {
  test.each([
    { when: "empty", vars: {}, at: [] },
    { when: "ordinary", vars: { DATABASE_URL: "postgres://x.test", _a1: "two\nlines", EMPTY: "" }, at: [] },
    { when: "a key with =", vars: { "A=B": "1" }, at: ["vars.A=B"] },
    { when: "a digit first", vars: { "1A": "1" }, at: ["vars.1A"] },
    { when: "an empty key", vars: { "": "1" }, at: ["vars."] },
    { when: "a platform name", vars: { SVC_PROJECT: "1" }, at: ["vars.SVC_PROJECT"] },
    { when: "a NUL", vars: { A: "\0" }, at: ["vars.A"] },
    { when: "32 KiB and a byte", vars: { A: "x".repeat(32_769) }, at: ["vars.A"] },
    { when: "a number", vars: { A: 1 }, at: ["vars.A"] },
    { when: "null", vars: { A: null }, at: ["vars.A"] },
    { when: "no object", vars: [], at: ["vars"] },
    {
      when: "more keys than any plan allows, which is the plan's to say",
      vars: Object.fromEntries(Array.from({ length: 1001 }, (_, n) => [`K${n}`, ""])),
      at: [],
    },
    {
      when: "600 KiB",
      vars: Object.fromEntries(Array.from({ length: 20 }, (_, n) => [`K${n}`, "x".repeat(30_000)])),
      at: ["vars"],
    },
  ])("$when", ({ vars, at }) => {
    expect(wrong(proto.replaceEnvInput, { vars })).toEqual(at);
  });
});

test.each([
  { lines: undefined, is: 200 },
  { lines: "50", is: 50 },
  { lines: "0", is: 1 },
  { lines: "-5", is: 1 },
  { lines: "99999", is: 2000 },
  { lines: "9".repeat(400), is: 2000 },
  { lines: `-${"9".repeat(400)}`, is: 1 },
])("runtime-logs?lines=$lines reads $is lines", ({ lines, is }) => {
  const query = proto.runtimeLogsQuery.parse(lines === undefined ? {} : { lines });
  expect(query).toEqual({ lines: is, exited: false });
});

test.each(["1e3", "NaN", "", "0x10", " 7"])("runtime-logs?lines=%s is refused", (lines) => {
  expect(proto.runtimeLogsQuery.safeParse({ lines }).success).toBe(false);
});

test("a registry host is normalised, and a bad one has its own code", () => {
  const body = { host: "Registry.TEST:443", username: "u", secret: "s" };
  expect(proto.putRegistryCredentialInput.parse(body).host).toBe("registry.test");
  const bad = proto.putRegistryCredentialInput.safeParse({ ...body, host: "https://x" }).error?.issues ?? [];
  expect(proto.validationCode(bad)).toBe("OCI_REFERENCE_INVALID");
});

test("node actions take a reason of one line", () => {
  expect(wrong(proto.nodeActionInput, { reason: "disk swap", confirm: true })).toEqual([]);
  expect(wrong(proto.nodeActionInput, { reason: "a\nb" })).toEqual(["reason"]);
  expect(wrong(proto.nodeActionInput, { reason: "", confirm: "true" })).toEqual(["reason", "confirm"]);
  expect(wrong(proto.drainNodeInput, { reason: "disk swap", deadlineSeconds: 60 })).toEqual([]);
  for (const deadlineSeconds of [59, 86_401, 90.5, "90"])
    expect(wrong(proto.drainNodeInput, { deadlineSeconds })).toEqual(["deadlineSeconds"]);
  expect(proto.createBootstrapTokenInput.parse({})).toEqual({ role: "node", expiresIn: 900 });
});
