import { createRegistry, type Registry } from "@svc/registry";
import { systemClock } from "@svc/runtime/system";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type RegistryProcess, startDockerRegistry } from "../../../../../registry/src/testing/docker-registry.ts";
import { envAad } from "../../../fleet/tasks/environment.ts";
import { type Answer, type CallOptions, type TestApi, type TestUser, testApi } from "../../../http/testing.ts";
import { lockUser } from "../../../identity/accounts/store.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Project } from "../../../stores/db/tables.ts";
import { lockWaits } from "../../../stores/db/testing.ts";
import { until } from "../../../stores/etcd/testing.ts";
import { newBranch } from "../../databases/testing/branch.ts";
import { aSource, codeOf, formOf, manifestOf } from "../testing/source.ts";
import { checkDeployRate } from "./accept.ts";

let registryProcess: RegistryProcess;
let registry: Registry;
let api: TestApi;
let user: TestUser;
beforeAll(async () => {
  registryProcess = await startDockerRegistry();
  registry = createRegistry(systemClock, { url: registryProcess.url });
  api = await testApi({
    registryUrl: registryProcess.url,
    resolve: async () => ["93.184.215.14"],
  });
  user = await api.newUser();
});
afterAll(async () => {
  await api[Symbol.asyncDispose]();
  await registry.close();
  await registryProcess[Symbol.asyncDispose]();
});
afterEach(() => api.db.deleteFrom("deployment").execute());

const archive = aSource();

const deploy = (
  project: Pick<Project, "id">,
  body: unknown,
  options: CallOptions = { session: user.session },
): Promise<Answer> => api.call("POST", `/projects/${project.id}/deployments`, { ...options, body });
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
    const { status, body } = await deploy(project, formOf({ manifest, metadata, source: archive }));
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

  test("is built in any case when its sender says so, and says it in no other words", async () => {
    const project = await api.newProject(user, { type: "static" });
    const send = (forceBuild?: string) =>
      deploy(project, formOf({ manifest: manifestOf("static"), source: archive, ...(forceBuild && { forceBuild }) }));
    const rowOf = async (forceBuild?: string) =>
      await api.db
        .selectFrom("deployment")
        .select("force_build")
        .where("id", "=", (await send(forceBuild)).body.deploymentId)
        .executeTakeFirst();
    expect(await rowOf("true")).toEqual({ force_build: true });
    expect(await rowOf("false")).toEqual({ force_build: false });
    expect(await rowOf()).toEqual({ force_build: false });
    const refused = await send("yes");
    expect(codeOf(refused)).toEqual([422, "VALIDATION"]);
    expect(refused.body.error.message).toContain("forceBuild");
  });

  test("takes its parts in any order", async () => {
    const project = await api.newProject(user, { type: "static" });
    const upload = { manifest: manifestOf("static"), metadata: {}, source: archive };
    for (const order of [
      ["source", "metadata", "manifest"],
      ["manifest", "source", "metadata"],
    ] as const)
      expect((await deploy(project, formOf({ ...upload, order }))).status).toBe(202);
  });
});

const imageManifest = (extra: object = {}) => ({
  version: 2,
  name: "Shop",
  type: "ociimage",
  port: 8080,
  image: { reference: "registry.example.test/shop:1" },
  ...extra,
});

describe("where it goes", () => {
  const channelOf = async (project: Project, manifest: object, metadata?: object) => {
    const { body } = await deploy(project, formOf({ manifest, metadata, source: archive }));
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

  test("what the project and its plan say when it is accepted, not when its source began to come", async () => {
    const other = await api.newUser({ plan: {} });
    const project = await api.newProject(other);
    const during = async (manifest: object, change: (tx: Db) => Promise<unknown>) => {
      const { answer } = await api.db.transaction().execute(async (tx) => {
        await lockUser(tx, other.id);
        const answer = deploy(project, formOf({ manifest, source: archive }), { session: other.session });
        await until("the deployment to wait", async () => (await lockWaits(api.db)) > 0);
        await change(tx);
        return { answer };
      });
      return answer;
    };
    const toPreview = (tx: Db) =>
      tx.updateTable("project").set({ deploy_mode: "preview" }).where("id", "=", project.id).execute();
    expect((await during(manifestOf("ssr"), toPreview)).body).toMatchObject({ channel: "preview" });
    const noPreviews = (tx: Db) =>
      tx
        .updateTable("plan")
        .set({ previews_enabled: false })
        .where("id", "in", (of) => of.selectFrom("account").select("plan_id").where("user_id", "=", other.id))
        .execute();
    expect(codeOf(await during(manifestOf("ssr"), noPreviews))).toEqual([403, "PREVIEW_UNAVAILABLE"]);
  });

  test.each([
    {
      how: "a key that is revoked",
      present: async (of: TestUser) => ({ key: (await api.newKey(of)).key }),
      end: (tx: Db, { id }: TestUser) => tx.deleteFrom("api_token").where("user_id", "=", id).execute(),
    },
    {
      how: "a session that is ended",
      present: async ({ session }: TestUser) => ({ session }),
      end: (tx: Db, { id }: TestUser) => tx.deleteFrom("auth.session").where("userId", "=", id).execute(),
    },
  ])("$how while the source comes deploys nothing", async ({ present, end }) => {
    const other = await api.newUser();
    const project = await api.newProject(other);
    const credential = await present(other);
    const { answer } = await api.db.transaction().execute(async (tx) => {
      await lockUser(tx, other.id);
      const answer = deploy(project, formOf({ manifest: manifestOf("ssr"), source: archive }), credential);
      await until("the deployment to wait", async () => (await lockWaits(api.db)) > 0);
      await end(api.db, other);
      return { answer };
    });
    expect(codeOf(await answer)).toEqual([401, "UNAUTHORIZED"]);
    const made = api.db.selectFrom("deployment").select("id").where("project_id", "=", project.id);
    expect(await made.execute()).toEqual([]);
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
    const [first] = projects;
    await api.call("DELETE", `/projects/${first?.id}`, { session: owner.session });
    const again = () => deploy(projects[1] ?? { id: "" }, { manifest: imageManifest() }, { session: owner.session });
    // Neither the project's end nor the rows' gives anything back.
    await api.db
      .deleteFrom("project")
      .where("id", "=", first?.id ?? "")
      .execute();
    expect(codeOf(await again())).toEqual([429, "RATE_LIMITED"]);
    await api.db
      .updateTable("accepted_deploy")
      .set({ at: new Date(Date.now() - 3_601_000) })
      .where("user_id", "=", owner.id)
      .execute();
    expect((await again()).status).toBe(202);
  });

  test("an hour at the longest, also when what is in the way was accepted after the refused one had come", async () => {
    const owner = await api.newUser({ plan: { max_deploys_per_hour: 1 } });
    const project = await api.newProject(owner, { type: "ociimage" });
    await api.db.transaction().execute(async (earlier) => {
      expect((await deploy(project, { manifest: imageManifest() }, { session: owner.session })).status).toBe(202);
      await expect(checkDeployRate(earlier, owner.id, 1)).rejects.toMatchObject({ retryAfterSeconds: 3_600 });
    });
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
    const attempt = () => deploy(project, formOf({ source: archive }), options);
    const answers = await Promise.all([attempt(), attempt()]);
    const third = await attempt();
    expect([...answers, third].map(({ status, body }) => [status, body.error ?? null])).toEqual(
      Array(3).fill([202, null]),
    );
    expect(new Set([...answers, third].map(({ body }) => body.deploymentId)).size).toBe(1);
    expect(await countRows()).toBe(1);
    const other = await deploy(project, formOf({ source: aSource() }), options);
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

describe("a source deployment that asks for a database", () => {
  const manifest = manifestOf("ssr", { database: { enabled: true } });
  const deploymentsOf = ({ id }: Project) =>
    api.db.selectFrom("deployment").select("id").where("project_id", "=", id).execute();

  test.each(["a session", "a CI key"])(
    "with %s is refused until its channel's is ready, and makes none",
    async (who) => {
      const project = await api.newProject(user);
      const { key } = await api.newKey(user, { scopes: ["ci:deploy"], projectIds: [project.id] });
      const options = who === "a CI key" ? { key } : { session: user.session };
      const attempt = async () => codeOf(await deploy(project, formOf({ manifest }), options));
      expect(await attempt()).toEqual([409, "DATABASE_NOT_READY"]);
      expect(await api.db.selectFrom("database").select("id").where("project_id", "=", project.id).execute()).toEqual(
        [],
      );
      await newBranch(api, project, { channel: "preview" });
      const id = await newBranch(api, project, { status: "provisioning" });
      for (const [status, reason] of [
        ["provisioning", null],
        ["dropping", null],
        ["error", "its disk broke"],
      ] as const) {
        await api.db.updateTable("database").set({ status, reason }).where("id", "=", id).execute();
        expect(await attempt()).toEqual([409, "DATABASE_NOT_READY"]);
      }
      expect(await deploymentsOf(project)).toEqual([]);
      await api.db.updateTable("database").set({ status: "ready", reason: null }).where("id", "=", id).execute();
      expect((await deploy(project, formOf({ manifest }), options)).status).toBe(202);
    },
  );

  test("of another engine than the project's is refused", async () => {
    const project = await api.newProject(user);
    await newBranch(api, project, { engine: "mariadb" });
    expect(codeOf(await deploy(project, formOf({ manifest })))).toEqual([409, "DATABASE_ENGINE_CONFLICT"]);
    expect(await deploymentsOf(project)).toEqual([]);
  });

  test("is warned once that the project's own DATABASE_URL is not used, and only where that is so", async () => {
    const project = await api.newProject(user);
    const vars = { DATABASE_URL: "postgres://elsewhere.test/db" };
    await api.call("PUT", `/projects/${project.id}/env`, { session: user.session, body: { vars } });
    await newBranch(api, project);
    const warnings = async (upload: object) => {
      const { deploymentId } = (await deploy(project, formOf({ manifest: upload }))).body;
      const path = `/deployments/${deploymentId}/timeline`;
      const { body } = await api.call("GET", path, { session: user.session });
      return JSON.stringify(body).match(/DATABASE_URL of the project is not used/g)?.length ?? 0;
    };
    expect(await warnings(manifest)).toBe(1);
    // It is told of the database in any case.
    expect(await warnings(manifestOf("ssr"))).toBe(1);
    expect(await warnings(manifestOf("ssr", { channel: "preview" }))).toBe(0);
  });
});
