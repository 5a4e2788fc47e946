import { randomBytes, randomUUID } from "node:crypto";
import { createServer } from "node:net";
import { gzipSync } from "node:zlib";
import { createRegistry, type Registry } from "@svc/registry";
import { systemClock } from "@svc/runtime/system";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type RegistryProcess, startDockerRegistry } from "../../../../../registry/src/testing/docker-registry.ts";
import { envAad, fileEnvAad } from "../../../fleet/tasks/environment.ts";
import { findLastRun } from "../../../fleet/tasks/run-rows.ts";
import { type Answer, type CallOptions, type TestApi, type TestUser, testApi } from "../../../http/testing.ts";
import type { Deployment, Plan, Project, ProjectType } from "../../../stores/db/tables.ts";
import { lockWaits } from "../../../stores/db/testing.ts";
import { moveBranch } from "../../databases/store.ts";
import { newBranch } from "../../databases/testing/branch.ts";

let registryProcess: RegistryProcess;
let registry: Registry;
let api: TestApi;
let user: TestUser;
let project: Project;

beforeAll(async () => {
  registryProcess = await startDockerRegistry();
  registry = createRegistry(systemClock, { url: registryProcess.url });
  api = await testApi({ registryUrl: registryProcess.url });
});
afterAll(async () => {
  await api[Symbol.asyncDispose]();
  await registry.close();
  await registryProcess[Symbol.asyncDispose]();
});
beforeEach(async () => {
  user = await api.newUser();
  project = await api.newProject(user);
});

const codeOf = (answer: Answer) => [answer.status, answer.body.error?.code];
const rollback = (id: string, options: CallOptions = { session: user.session }) =>
  api.call("POST", `/deployments/${id}/rollback`, options);
const promote = (id: string, options: CallOptions = { session: user.session }) =>
  api.call("POST", `/deployments/${id}/promote`, options);
const rowOf = (id: string) =>
  api.db.selectFrom("deployment").selectAll().where("id", "=", id).executeTakeFirstOrThrow();
const rowsOf = (projectId: string) =>
  api.db.selectFrom("deployment").selectAll().where("project_id", "=", projectId).orderBy("number").execute();
const manifestOf = (type: ProjectType, extra: object = {}) =>
  type === "ociimage"
    ? { version: 2, name: "Shop", type, port: 8080, image: { reference: "registry.test/shop:1" }, ...extra }
    : { version: 2, app: { name: "Shop", type }, ...extra };

/** Something in the registry that a deployment may have run. */
async function pushed(of: Pick<Project, "id" | "type">) {
  const repository = `svc/${of.id}/${of.type === "static" ? "bundle" : "app"}`;
  const { digest } = await registry.pushArtifact(repository, {
    kind: "bundle",
    stream: Buffer.from(gzipSync(randomBytes(100))),
  });
  return {
    artifact_kind: of.type === "static" ? ("bundle" as const) : ("image" as const),
    artifact_repository: repository,
    artifact_digest: digest,
    artifact_size: 100,
    ...(of.type !== "static" && { artifact_os: "linux", artifact_architecture: "amd64" }),
  };
}

/** What ran on a channel once, its artifact included. */
const superseded = async (of: Project, values: Partial<Deployment> = {}) =>
  api.newDeployment(of, {
    status: "superseded",
    manifest: manifestOf(of.type),
    ...(await pushed(of)),
    source_size: 4321,
    ...values,
  });
const preview = (of: Project, values: Partial<Deployment> = {}) =>
  superseded(of, { channel: "preview", status: "running", ...values });

describe("a rollback", () => {
  test("makes a new deployment of the same channel from the artifact that is there, without a build", async () => {
    const manifest = manifestOf("ssr", { release: { command: "npm run migrate" }, channel: "production" });
    const source = await superseded(project, {
      manifest,
      release_status: "succeeded",
      trigger: "cli",
      git_sha: "0123abc",
      git_ref: "main",
      git_repository: "ada/shop",
      git_pr_number: 7,
      root_directory: "apps/web",
    });
    const answer = await rollback(source.id);
    expect(answer.status).toBe(202);
    expect(answer.body).toEqual({
      ok: true,
      deploymentId: expect.any(String),
      channel: "production",
      url: `http://${project.slug}.svc.localhost:8080`,
    });
    const { deploymentId } = answer.body;
    expect(deploymentId).not.toBe(source.id);
    expect(await rowOf(deploymentId)).toMatchObject({
      status: "queued",
      channel: "production",
      pr_number: null,
      origin: "rollback",
      origin_deployment_id: source.id,
      artifact_kind: "image",
      artifact_repository: source.artifact_repository,
      artifact_digest: source.artifact_digest,
      artifact_size: 100,
      artifact_os: "linux",
      artifact_architecture: "amd64",
      source_size: 4321,
      source_repository: null,
      source_digest: null,
      trigger: "rollback",
      git_sha: "0123abc",
      git_ref: "main",
      git_repository: "ada/shop",
      git_pr_number: 7,
      manifest: expect.objectContaining({ channel: "production" }),
    });
    const shown = await api.call("GET", `/deployments/${deploymentId}`, { session: user.session });
    expect(shown.body.deployment.release).toEqual({
      configured: true,
      status: "skipped",
      startedAt: null,
      finishedAt: null,
      exitCode: null,
      error: null,
      skippedReason: "a rollback does not run the release command",
    });
    expect(await rowOf(source.id)).toMatchObject({ status: "superseded" });
    const work = await api.db
      .selectFrom("work_item")
      .select(["kind", "payload"])
      .where("key", "=", project.id)
      .execute();
    expect(work).toEqual([{ kind: "deploy", payload: { deploymentId } }]);
    const events = await api.db
      .selectFrom("deployment_event")
      .select(["phase", "to_status", "detail"])
      .where("deployment_id", "=", deploymentId)
      .execute();
    expect(events).toEqual([{ phase: "queued", to_status: "queued", detail: `rollback of ${source.id}` }]);
    const audit = await api.db
      .selectFrom("audit")
      .select(["action", "user_id", "detail"])
      .where("target", "=", deploymentId)
      .execute();
    expect(audit).toEqual([
      {
        action: "deployment.rollback",
        user_id: user.id,
        detail: { projectId: project.id, channel: "production", from: source.id },
      },
    ]);
  });

  test("while production is stopped says that it will serve again", async () => {
    const source = await superseded(project);
    const { id } = await api.newDeployment(project, { status: "stopped" });
    await api.db
      .insertInto("channel_state")
      .values({ project_id: project.id, channel: "production", deployment_id: id, stopped: true })
      .execute();
    const { status, body } = await rollback(source.id);
    expect([status, body.warnings]).toEqual([202, [expect.stringContaining("it serves again")]]);
  });

  test("skips the release also where there is none", async () => {
    const { deploymentId } = (await rollback((await superseded(project)).id)).body;
    const shown = await api.call("GET", `/deployments/${deploymentId}`, { session: user.session });
    expect(shown.body.deployment.release).toMatchObject({ configured: false, status: "skipped" });
  });

  test("runs under the project's environment of today, over the files that were packed then", async () => {
    const source = await superseded(project);
    const { secrets } = api.context;
    const packed = { FROM_FILE: "packed", SHARED: "packed" };
    await api.db
      .updateTable("deployment")
      .set({
        env: secrets.seal(Buffer.from('{"SHARED":"old","GONE":"old"}'), envAad(source.id)),
        file_env: secrets.seal(Buffer.from(JSON.stringify(packed)), fileEnvAad(source.id)),
      })
      .where("id", "=", source.id)
      .execute();
    const body = { vars: { SHARED: "today" } };
    await api.call("PUT", `/projects/${project.id}/env`, { session: user.session, body });
    const row = await rowOf((await rollback(source.id)).body.deploymentId);
    const open = (sealed: Buffer | null, aad: string) =>
      JSON.parse(secrets.open(sealed ?? Buffer.alloc(0), aad).toString());
    expect(open(row.env, envAad(row.id))).toEqual({ FROM_FILE: "packed", SHARED: "today" });
    expect(open(row.file_env, fileEnvAad(row.id))).toEqual(packed);
  });

  test("of dev stays on dev", async () => {
    const source = await superseded(project, { channel: "dev", manifest: manifestOf("ssr", { channel: "dev" }) });
    const { status, body } = await rollback(source.id);
    expect([status, body.channel, body.url]).toEqual([202, "dev", `http://dev-${project.slug}.svc.localhost:8080`]);
  });

  test("of an image takes the digest that ran, whatever its tag says by now", async () => {
    const images = await api.newProject(user, { type: "ociimage" });
    const source = await superseded(images, { requested_reference: "registry.test/shop:1" });
    const { deploymentId } = (await rollback(source.id)).body;
    const shown = await api.call("GET", `/deployments/${deploymentId}`, { session: user.session });
    expect(shown.body.deployment.artifact).toEqual({
      kind: "oci",
      requestedReference: "registry.test/shop:1",
      digest: source.artifact_digest,
      os: "linux",
      architecture: "amd64",
    });
  });

  test("of an image in somebody else's registry does not depend on that registry", async () => {
    const images = await api.newProject(user, { type: "ociimage" });
    const source = await superseded(images, { image_registry: "registry.test", artifact_repository: "shop" });
    const { deploymentId } = (await rollback(source.id)).body;
    expect(await rowOf(deploymentId)).toMatchObject({ image_registry: "registry.test", artifact_repository: "shop" });
  });

  test("of a site takes its bundle", async () => {
    const site = await api.newProject(user, { type: "static" });
    const source = await superseded(site);
    const row = await rowOf((await rollback(source.id)).body.deploymentId);
    expect(row).toMatchObject({ artifact_kind: "bundle", artifact_digest: source.artifact_digest });
  });

  test.each([
    { when: "it runs", values: { status: "running" }, code: [409, "ROLLBACK_UNAVAILABLE"] },
    { when: "it failed", values: { status: "failed" }, code: [409, "ROLLBACK_UNAVAILABLE"] },
    { when: "it is queued", values: { status: "queued" }, code: [409, "ROLLBACK_UNAVAILABLE"] },
    { when: "it is a preview", values: { channel: "preview" }, code: [400, "ROLLBACK_UNAVAILABLE"] },
    {
      when: "it is a running preview",
      values: { channel: "preview", status: "running" },
      code: [400, "ROLLBACK_UNAVAILABLE"],
    },
    { when: "it is being removed", values: { removing_at: new Date() }, code: [409, "ROLLBACK_UNAVAILABLE"] },
    { when: "it never had an artifact", values: { artifact_digest: null }, code: [409, "ROLLBACK_UNAVAILABLE"] },
    {
      when: "its artifact was collected",
      values: { artifact_removed_at: new Date() },
      code: [409, "ROLLBACK_UNAVAILABLE"],
    },
    {
      when: "the registry does not have its artifact",
      values: { artifact_digest: `sha256:${"0".repeat(64)}` },
      code: [409, "ROLLBACK_UNAVAILABLE"],
    },
  ] as const)("is refused when $when", async ({ values, code }) => {
    const source = await superseded(project, values);
    const answer = await rollback(source.id);
    expect(codeOf(answer)).toEqual(code);
    expect(await rowsOf(project.id)).toHaveLength(1);
  });

  test("is refused for one that is not there, or not the caller's", async () => {
    const source = await superseded(await api.newProject(await api.newUser()));
    expect(codeOf(await rollback(source.id))).toEqual([404, "NOT_FOUND"]);
    expect(codeOf(await rollback("11111111-2222-4333-8444-555555555555"))).toEqual([404, "NOT_FOUND"]);
  });

  test("asks to try again when the registry does not answer, and in good time", async () => {
    // Accepts connections and says nothing.
    const silent = createServer(() => {});
    await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
    const address = silent.address();
    const port = typeof address === "object" ? address?.port : 0;
    for (const registryUrl of ["http://127.0.0.1:9", `http://127.0.0.1:${port}`]) {
      await using broken = await testApi({ registryUrl });
      const owner = await broken.newUser();
      const target = await broken.newDeployment(await broken.newProject(owner), {
        status: "superseded",
        artifact_kind: "image",
        artifact_repository: "svc/x/app",
        artifact_digest: `sha256:${"a".repeat(64)}`,
      });
      const startedAt = performance.now();
      const answer = await broken.call("POST", `/deployments/${target.id}/rollback`, { session: owner.session });
      expect(codeOf(answer)).toEqual([503, "UNAVAILABLE"]);
      expect(performance.now() - startedAt).toBeLessThan(12_000);
    }
    silent.close();
  });

  test("twice at once makes two deployments, of which the later one will run", async () => {
    const [older, newer] = [await superseded(project), await superseded(project)];
    const answers = await Promise.all([rollback(older.id), rollback(newer.id)]);
    expect(answers.map(({ status }) => status)).toEqual([202, 202]);
    const made = (await rowsOf(project.id)).filter(({ origin }) => origin !== null);
    expect(new Set(made.map(({ origin_deployment_id }) => origin_deployment_id))).toEqual(
      new Set([older.id, newer.id]),
    );
    const work = await api.db
      .selectFrom("work_item")
      .select("payload")
      .where("key", "=", project.id)
      .orderBy("id")
      .execute();
    expect(work.map(({ payload }) => payload)).toEqual(made.map(({ id }) => ({ deploymentId: id })));
  });
});

describe("a promotion", () => {
  test("deploys what a preview runs to production, runs the release command again, and leaves the preview alone", async () => {
    const source = await preview(project, {
      pr_number: 7,
      git_pr_number: 7,
      git_sha: "0123abc",
      manifest: manifestOf("ssr", { channel: "preview", release: { command: "npm run migrate", timeoutSeconds: 20 } }),
      release_status: "succeeded",
    });
    await api.newRun(source, { node_id: randomUUID(), exit_code: 0 });
    const answer = await promote(source.id);
    expect(answer.status).toBe(202);
    const { deploymentId } = answer.body;
    expect(answer.body).toEqual({
      ok: true,
      deploymentId,
      channel: "production",
      url: `http://${project.slug}.svc.localhost:8080`,
    });
    expect(await rowOf(deploymentId)).toMatchObject({
      status: "queued",
      channel: "production",
      pr_number: null,
      origin: "promote",
      origin_deployment_id: source.id,
      artifact_digest: source.artifact_digest,
      trigger: "promote",
      git_sha: "0123abc",
      git_pr_number: 7,
      release_status: "pending",
      manifest: expect.objectContaining({ channel: "production" }),
    });
    expect(await findLastRun(api.db, deploymentId, "release")).toBeNull();
    expect(await rowOf(source.id)).toEqual(source);
    const audit = await api.db.selectFrom("audit").select("action").where("target", "=", deploymentId).execute();
    expect(audit).toEqual([{ action: "deployment.promote" }]);
  });

  test("of the stable preview, without a release command", async () => {
    const source = await preview(project);
    const row = await rowOf((await promote(source.id)).body.deploymentId);
    expect(row).toMatchObject({ channel: "production", release_status: "not_configured" });
    expect(row.manifest).not.toHaveProperty("channel");
  });

  test("of an image, and of a site", async () => {
    for (const type of ["ociimage", "static"] as const) {
      const other = await api.newProject(user, { type });
      const source = await preview(other);
      const row = await rowOf((await promote(source.id)).body.deploymentId);
      expect(row).toMatchObject({ channel: "production", artifact_digest: source.artifact_digest });
    }
  });

  test("with a database needs production's own, and makes none", async () => {
    const manifest = manifestOf("ssr", { database: { enabled: true } });
    const source = await preview(project, { manifest });
    await newBranch(api, project, { channel: "preview" });
    expect(codeOf(await promote(source.id))).toEqual([409, "DATABASE_NOT_READY"]);
    const id = await newBranch(api, project, { status: "provisioning" });
    expect(codeOf(await promote(source.id))).toEqual([409, "DATABASE_NOT_READY"]);
    expect(await rowsOf(project.id)).toHaveLength(1);
    await moveBranch(api.db, id, { from: "provisioning", to: "ready" });
    expect((await promote(source.id)).status).toBe(202);
  });

  test.each([
    { what: "a dev deployment", values: { channel: "dev" }, code: [400, "ROLLBACK_UNAVAILABLE"] },
    { what: "a production deployment", values: { channel: "production" }, code: [400, "ROLLBACK_UNAVAILABLE"] },
    { what: "a superseded preview", values: { status: "superseded" }, code: [409, "PROMOTE_UNAVAILABLE"] },
    { what: "a failed preview", values: { status: "failed" }, code: [409, "PROMOTE_UNAVAILABLE"] },
    {
      what: "a preview whose artifact is gone",
      values: { artifact_digest: `sha256:${"0".repeat(64)}` },
      code: [409, "PROMOTE_UNAVAILABLE"],
    },
    {
      what: "a preview whose database production does not have",
      values: { manifest: manifestOf("ssr", { database: { enabled: true } }) },
      code: [409, "DATABASE_NOT_READY"],
    },
  ] as const)("of $what is refused", async ({ values, code }) => {
    const source = await preview(project, values);
    expect(codeOf(await promote(source.id))).toEqual(code);
    expect(await rowsOf(project.id)).toHaveLength(1);
  });
});

describe.each([
  { action: "rollback", call: rollback, source: superseded },
  { action: "promote", call: promote, source: preview },
])("to $action", ({ action, call, source }) => {
  test("needs a project that is not suspended and an address that is confirmed", async () => {
    const target = await source(project);
    await api.db
      .updateTable("project")
      .set({ suspended_at: new Date(), suspend_reason: "admin" })
      .where("id", "=", project.id)
      .execute();
    expect(codeOf(await call(target.id))).toEqual([403, "SUSPENDED"]);
    const unverified = await api.newUser({ verified: false });
    const theirs = await source(await api.newProject(unverified));
    expect(codeOf(await call(theirs.id, { session: unverified.session }))).toEqual([403, "EMAIL_NOT_VERIFIED"]);
  });

  test.each<{ what: string; plan: Partial<Plan>; type: ProjectType; extra?: object; code: unknown[] }>([
    { what: "images", plan: { max_image_mb: 0 }, type: "ociimage", code: [403, "PLAN_FEATURE_UNAVAILABLE"] },
    {
      what: "so many jobs",
      plan: { max_scheduled_jobs: 0 },
      type: "ssr",
      extra: { jobs: [{ name: "n", schedule: "0 3 * * *", command: "x" }] },
      code: [403, "QUOTA_EXCEEDED"],
    },
    {
      what: "databases any more",
      plan: { max_databases: 0 },
      type: "ssr",
      extra: { database: { enabled: true } },
      code: [409, "DATABASE_NOT_READY"],
    },
  ])("needs a plan that has $what", async ({ plan, type, extra, code }) => {
    const owner = await api.newUser({ plan });
    const target = await source(await api.newProject(owner, { type }), { manifest: manifestOf(type, extra) });
    expect(codeOf(await call(target.id, { session: owner.session }))).toEqual(code);
  });

  test("counts as a deployment of the hour, at the limit and over it; only going back is never refused", async () => {
    const owner = await api.newUser({ plan: { max_deploys_per_hour: 3 } });
    const target = await source(await api.newProject(owner));
    // The source itself was one of the three.
    const answers = await Promise.all(Array.from({ length: 5 }, () => call(target.id, { session: owner.session })));
    const refused = answers.filter(({ status }) => status !== 202);
    expect(refused.map(codeOf)).toEqual(action === "rollback" ? [] : Array(3).fill([429, "RATE_LIMITED"]));
    for (const { headers } of refused) expect(Number(headers.get("retry-after"))).toBeGreaterThan(3_500);
    const usage = await api.call("GET", "/account/usage", { session: owner.session });
    expect(usage.body.usage.deploysLastHour).toBe(action === "rollback" ? 6 : 3);
  });

  test("needs the scope deploy, which a CI key does not have", async () => {
    const target = await source(project);
    const { key } = await api.newKey(user, { scopes: ["deploy"] });
    expect((await call(target.id, { key })).status).toBe(202);
    const { key: writer } = await api.newKey(user, { scopes: ["projects:write", "lifecycle"] });
    expect(codeOf(await call(target.id, { key: writer }))).toEqual([403, "FORBIDDEN_SCOPE"]);
    const { key: ci } = await api.newKey(user, { scopes: ["ci:deploy"], projectIds: [project.id] });
    expect(codeOf(await call(target.id, { key: ci }))).toEqual([403, "FORBIDDEN_SCOPE"]);
    const { key: elsewhere } = await api.newKey(user, {
      scopes: ["deploy"],
      projectIds: [(await api.newProject(user)).id],
    });
    expect(codeOf(await call(target.id, { key: elsewhere }))).toEqual([404, "NOT_FOUND"]);
  });

  test("once per Idempotency-Key, also when the source has moved on", async () => {
    const target = await source(project);
    const options = { session: user.session, headers: { "idempotency-key": `${action}-1` } };
    const [first, second] = await Promise.all([call(target.id, options), call(target.id, options)]);
    expect(second?.body).toEqual(first?.body);
    await api.db.updateTable("deployment").set({ status: "failed" }).where("id", "=", target.id).execute();
    expect((await call(target.id, options)).body).toEqual(first?.body);
    expect((await rowsOf(project.id)).filter(({ origin }) => origin === action)).toHaveLength(1);
    const other = await source(project);
    expect(codeOf(await call(other.id, options))).toEqual([409, "IDEMPOTENCY_CONFLICT"]);
  });

  test("finds the artifact gone when it is collected at the same moment", async () => {
    const target = await source(project);
    const answer = await api.db.transaction().execute(async (tx) => {
      await tx.selectFrom("project").select("id").where("id", "=", project.id).forUpdate().execute();
      const answering = call(target.id);
      // It has looked into the registry by now, and waits for the project.
      await expect.poll(() => lockWaits(api.db)).toBe(1);
      await tx.updateTable("deployment").set({ artifact_removed_at: new Date() }).where("id", "=", target.id).execute();
      return { answering };
    });
    expect((await answer.answering).status).toBe(409);
    expect(await rowsOf(project.id)).toHaveLength(1);
  });
});
