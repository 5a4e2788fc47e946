import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type Answer, type CallOptions, type TestApi, type TestUser, testApi } from "../../../http/testing.ts";
import type { Project } from "../../../stores/db/tables.ts";
import { codeOf, formOf, manifestOf } from "../testing/source.ts";

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
  api = await testApi({
    config: { registryAllow: ["private.example.test:5000"] },
    resolve: async (name) => {
      if (name === "unresolvable.example.test") throw new Error("SERVFAIL");
      return addresses.get(name) ?? [];
    },
  });
  user = await api.newUser();
});
afterAll(async () => {
  await api[Symbol.asyncDispose]();
});
afterEach(() => api.db.deleteFrom("deployment").execute());

const deploy = (
  project: Pick<Project, "id">,
  body: unknown,
  options: CallOptions = { session: user.session },
): Promise<Answer> => api.call("POST", `/projects/${project.id}/deployments`, { ...options, body });
const countRows = async () => (await api.db.selectFrom("deployment").select("id").execute()).length;

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

  test("while production is stopped says that it will serve again, and elsewhere has nothing to say", async () => {
    const project = await api.newProject(user, { type: "ociimage" });
    const { id } = await api.newDeployment(project, { status: "stopped" });
    await api.db
      .insertInto("channel_state")
      .values({ project_id: project.id, channel: "production", deployment_id: id, stopped: true })
      .execute();
    const warned = await deploy(project, { manifest: imageManifest() });
    expect([warned.status, warned.body.warnings]).toEqual([202, [expect.stringContaining("it serves again")]]);
    const preview = await deploy(project, { manifest: imageManifest({ channel: "preview" }) });
    expect([preview.status, preview.body.warnings]).toEqual([202, undefined]);
    await api.db.deleteFrom("channel_state").where("project_id", "=", project.id).execute();
  });

  test("while production is about to be stopped says so too, and not while it is about to be started", async () => {
    const project = await api.newProject(user, { type: "ociimage" });
    const { id } = await api.newDeployment(project, { status: "running" });
    await api.db
      .insertInto("channel_state")
      .values({ project_id: project.id, channel: "production", deployment_id: id })
      .execute();
    const warningsOf = async () => (await deploy(project, { manifest: imageManifest() })).body.warnings;
    expect(await warningsOf()).toBeUndefined();
    await api.call("POST", `/projects/${project.id}/stop`, { session: user.session });
    expect(await warningsOf()).toEqual([expect.stringContaining("it serves again")]);
    await api.db.updateTable("deployment").set({ status: "stopped" }).where("id", "=", id).execute();
    await api.call("POST", `/projects/${project.id}/start`, { session: user.session });
    expect(await warningsOf()).toBeUndefined();
    await api.db.deleteFrom("work_item").where("kind", "=", "lifecycle").execute();
    await api.db.deleteFrom("channel_state").where("project_id", "=", project.id).execute();
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
    "",
  ])("of %j is refused", async (reference) => {
    const project = await api.newProject(user, { type: "ociimage" });
    const answer = await deploy(project, { manifest: imageManifest({ image: { reference } }) });
    expect(codeOf(answer)).toEqual([422, "OCI_REFERENCE_INVALID"]);
    expect(await countRows()).toBe(0);
  });

  test("is told all its mistakes at once, with the ports that there are", async () => {
    const project = await api.newProject(user, { type: "ociimage" });
    const answer = await deploy(project, { manifest: imageManifest({ image: { reference: "nas.local:22/Shop" } }) });
    expect(codeOf(answer)).toEqual([422, "OCI_REFERENCE_INVALID"]);
    for (const told of [/lower-case/, /tag or the digest/, /443, 5000, 5050 and 8443/, /not a public host name/])
      expect(answer.body.error.message).toMatch(told);
  });

  test("is put off while no name can be looked up", async () => {
    const project = await api.newProject(user, { type: "ociimage" });
    const image = { reference: "unresolvable.example.test/x:1" };
    expect(codeOf(await deploy(project, { manifest: imageManifest({ image }) }))).toEqual([503, "UNAVAILABLE"]);
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
