import { randomUUID } from "node:crypto";
import type { CreatePlanInput, ProjectType } from "@svc/proto";
import { manifestSchema } from "@svc/proto";
import { createRegistry, type Registry } from "@svc/registry";
import { systemClock } from "@svc/runtime/system";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type RegistryProcess, startDockerRegistry } from "../../../../registry/src/testing/docker-registry.ts";
import { createReferencePolicy, referenceRules } from "../../fleet/images/reference.ts";
import { loadRun } from "../../fleet/tasks/assignment.ts";
import { buildTask } from "../../fleet/tasks/kinds/build.ts";
import { serveTask } from "../../fleet/tasks/kinds/serve.ts";
import { insertTask } from "../../fleet/tasks/store.ts";
import { type TestApi, type TestUser, testApi } from "../../http/testing.ts";
import { buildServer } from "../../server.ts";
import { createDb, type Db } from "../../stores/db/pool.ts";
import type { Plan, Project } from "../../stores/db/tables.ts";
import { aSource, aSourceOf, formOf, manifestOf } from "../../tenants/deployments/testing/source.ts";
import { createUploads } from "../../tenants/deployments/upload/slots.ts";
import { planOfUser } from "./of-user.ts";

// Every limit of a plan at its edge, also from two control servers at once.

/** What is enforced elsewhere, and tested there; null: nothing of it can be used yet. */
const elsewhere = {
  slug: "plans.system.test.ts",
  name: "plans.system.test.ts",
  isDefault: "plans.system.test.ts",
  rateLimitPerMinute: "http",
  monthlyRequests: "projects/suspension",
  monthlyBandwidthMb: "projects/suspension",
  dbSizeMb: null,
  dbConnectionLimit: null,
  maxBackups: null,
  maxSseConnections: null,
  maxCustomDomains: null,
} as const satisfies Partial<Record<keyof CreatePlanInput, string | null>>;
type Here = Exclude<keyof CreatePlanInput, keyof typeof elsewhere>;
const tested = new Set<Here>();

let registryProcess: RegistryProcess;
let registry: Registry;
let api: TestApi;
let secondDb: Db;
let second: ReturnType<typeof buildServer>;
let urls: string[] = [];
const resolve = async () => ["93.184.215.14"];
const uploads = { perUserMax: 20 };
beforeAll(async () => {
  registryProcess = await startDockerRegistry();
  registry = createRegistry(systemClock, { url: registryProcess.url });
  api = await testApi({ registryUrl: registryProcess.url, resolve, uploads });
  // The same stores under another control server, with a pool of its own.
  secondDb = createDb({ url: api.context.config.databaseUrl });
  const references = createReferencePolicy(systemClock, referenceRules(api.context.config), resolve);
  second = buildServer({ ...api.context, db: secondDb }, { references, uploads: createUploads(systemClock, uploads) });
  urls = [api.url, await second.listen({ host: "127.0.0.1", port: 0 })];
});
afterAll(async () => {
  await second?.close();
  await secondDb?.destroy();
  await api?.[Symbol.asyncDispose]();
  await registry?.close();
  await registryProcess?.[Symbol.asyncDispose]();
});

/** Status and code, as [403, "QUOTA_EXCEEDED"] or [201]. */
type Outcome = [number, string?];

/** A call to one of the two control servers. */
async function send(at: number, method: string, path: string, user: TestUser, body: unknown): Promise<Outcome> {
  const response = await fetch(`${urls[at % urls.length]}/api/v1${path}`, {
    method,
    headers: {
      authorization: `Bearer ${user.session}`,
      ...(!(body instanceof FormData) && { "content-type": "application/json" }),
    },
    body: body instanceof FormData ? body : JSON.stringify(body),
  });
  const { error } = (await response.json()) as { error?: { code: string } };
  return error === undefined ? [response.status] : [response.status, error.code];
}

const imageManifest = {
  version: 2,
  name: "Shop",
  type: "ociimage",
  port: 80,
  image: { reference: "a.example.test/b:1" },
};
const bodyFor = (type: ProjectType, manifest: object = {}, source = aSource()) =>
  type === "ociimage"
    ? { manifest: { ...imageManifest, ...manifest } }
    : formOf({ manifest: manifestOf(type, manifest), source });
const deploy = (user: TestUser, project: Pick<Project, "id" | "type">, body = bodyFor(project.type), at = 0) =>
  send(at, "POST", `/projects/${project.id}/deployments`, user, body);
const setPlan = async (user: TestUser, change: Partial<Plan>) => {
  const { id } = await planOfUser(api.db, user.id);
  await api.db.updateTable("plan").set(change).where("id", "=", id).execute();
};
const count = async (table: "project" | "deployment" | "env_var" | "artifact", user: TestUser) => {
  const own = api.db.selectFrom("project").select("id").where("owner_id", "=", user.id);
  const query =
    table === "project"
      ? api.db.selectFrom(table).select("id").where("id", "in", own)
      : api.db.selectFrom(table).select("project_id").where("project_id", "in", own);
  return (await query.execute()).length;
};

const kibibyte = 1024;
/** Of the 1 MiB that the plan for storage allows. */
const storedUnit = 256 * kibibyte;

/**
 * Limits that count what there is. `use` takes one unit of it, and `allowed` units fit; `kept` is what must still be
 * there, all of it, when the plan is lowered.
 */
interface Counted {
  field: Here;
  allowed: number;
  plan: Partial<Plan>;
  lowered: Partial<Plan>;
  /** What every use works on. */
  prepare?: (user: TestUser) => Promise<Project[]>;
  use: (user: TestUser, projects: readonly Project[], at: number) => Promise<Outcome>;
  success: number;
  refusal: Outcome;
  kept: "project" | "deployment" | "artifact";
}

const images = (user: TestUser) =>
  Promise.all(Array.from({ length: 3 }, () => api.newProject(user, { type: "ociimage" })));
const projectAt = (projects: readonly Project[], at: number): Project => {
  const project = projects[at % projects.length];
  if (project === undefined) throw new Error("there is no project");
  return project;
};

const counted: Counted[] = [
  {
    field: "maxProjects",
    allowed: 3,
    plan: { max_projects: 3 },
    lowered: { max_projects: 1 },
    use: (user, _, at) => send(at, "POST", "/projects", user, { name: `Shop ${randomUUID()}`, type: "ssr" }),
    success: 201,
    refusal: [403, "QUOTA_EXCEEDED"],
    kept: "project",
  },
  {
    field: "maxDeploysPerHour",
    allowed: 4,
    plan: { max_deploys_per_hour: 4 },
    lowered: { max_deploys_per_hour: 2 },
    prepare: images,
    use: (user, projects, at) => deploy(user, projectAt(projects, at), bodyFor("ociimage"), at),
    success: 202,
    refusal: [429, "RATE_LIMITED"],
    kept: "deployment",
  },
  {
    field: "storageMb",
    allowed: 4,
    plan: { storage_mb: 1 },
    lowered: { storage_mb: 0 },
    prepare: async (user) => [await api.newProject(user)],
    use: (user, projects, at) => deploy(user, projectAt(projects, at), bodyFor("ssr", {}, aSourceOf(storedUnit)), at),
    success: 202,
    refusal: [403, "QUOTA_EXCEEDED"],
    kept: "deployment",
  },
];

describe.each(counted)("$field", ({ field, allowed, plan, lowered, prepare, use, success, refusal, kept }) => {
  const begin = async () => {
    const user = await api.newUser({ plan });
    return { user, projects: (await prepare?.(user)) ?? [] };
  };
  tested.add(field);

  test("up to the limit, and not beyond it", async () => {
    const { user, projects } = await begin();
    for (let at = 0; at < allowed; at += 1) expect(await use(user, projects, at)).toEqual([success]);
    expect(await use(user, projects, 0)).toEqual(refusal);
    expect(await use(user, projects, 1)).toEqual(refusal);
  });

  test("one below it, ten requests at once to two servers: one of them gets it", async () => {
    const { user, projects } = await begin();
    for (let at = 0; at < allowed - 1; at += 1) expect(await use(user, projects, at)).toEqual([success]);
    const before = await count(kept, user);
    const outcomes = await Promise.all(Array.from({ length: 10 }, (_, at) => use(user, projects, at)));
    expect(outcomes.filter(([status]) => status === success)).toHaveLength(1);
    expect(outcomes.filter(([status]) => status !== success)).toEqual(Array(9).fill(refusal));
    expect(await count(kept, user)).toBe(before + 1);
  });

  test("of one user says nothing about another's", async () => {
    const [mine, theirs] = [await begin(), await begin()];
    for (let at = 0; at < allowed; at += 1) await use(mine.user, mine.projects, at);
    expect(await use(theirs.user, theirs.projects, 0)).toEqual([success]);
  });

  test("lowered below what there is: nothing goes, and nothing new comes until the plan is raised", async () => {
    const { user, projects } = await begin();
    for (let at = 0; at < allowed; at += 1) await use(user, projects, at);
    const before = await count(kept, user);
    await setPlan(user, lowered);
    expect(await use(user, projects, 0)).toEqual(refusal);
    expect(await count(kept, user)).toBe(before);
    await setPlan(user, { max_projects: 100, max_deploys_per_hour: 100, storage_mb: 100 });
    expect(await use(user, projects, 0)).toEqual([success]);
  });
});

/** Limits that one request keeps or does not: just below, at, and above. */
interface Single {
  field: Here;
  what: string;
  plan: Partial<Plan>;
  type?: ProjectType;
  /** The request, once there is a project. */
  ask: (user: TestUser, project: Project, at: number) => Promise<Outcome>;
  is: Outcome;
}

const jobs = (n: number) => ({
  jobs: Array.from({ length: n }, (_, i) => ({ name: `job-${i}`, schedule: "0 3 * * *", command: "node job.js" })),
});
const vars = (n: number) => ({ vars: Object.fromEntries(Array.from({ length: n }, (_, i) => [`KEY_${i}`, "x"])) });
const putEnv = (n: number) => (user: TestUser, project: Project, at: number) =>
  send(at, "PUT", `/projects/${project.id}/env`, user, vars(n));
const deployed =
  (type: ProjectType, manifest: object = {}) =>
  (user: TestUser, project: Project, at: number) =>
    deploy(user, project, bodyFor(type, manifest), at);
const uploaded = (bytes: number) => (user: TestUser, project: Project, at: number) =>
  deploy(user, project, bodyFor("ssr", {}, aSourceOf(bytes)), at);
const newImageProject = (user: TestUser, _: Project, at: number) =>
  send(at, "POST", "/projects", user, { name: "Shop", type: "ociimage" });

const tooLarge: Outcome = [413, "UPLOAD_TOO_LARGE"];
const noFeature: Outcome = [403, "PLAN_FEATURE_UNAVAILABLE"];
const mebibyte = 1024 * kibibyte;
const single: Single[] = [
  { field: "maxUploadMb", what: "1 byte less", plan: { max_upload_mb: 1 }, ask: uploaded(mebibyte - 1), is: [202] },
  { field: "maxUploadMb", what: "as much", plan: { max_upload_mb: 1 }, ask: uploaded(mebibyte), is: [202] },
  { field: "maxUploadMb", what: "1 byte more", plan: { max_upload_mb: 1 }, ask: uploaded(mebibyte + 1), is: tooLarge },
  { field: "maxImageMb", what: "a project with any", plan: { max_image_mb: 1 }, ask: newImageProject, is: [201] },
  { field: "maxImageMb", what: "a project with none", plan: { max_image_mb: 0 }, ask: newImageProject, is: noFeature },
  ...([1, 0] as const).map((mb) => ({
    field: "maxImageMb" as const,
    what: `a deployment with ${mb}`,
    plan: { max_image_mb: mb },
    type: "ociimage" as const,
    ask: deployed("ociimage"),
    is: mb === 1 ? ([202] satisfies Outcome) : noFeature,
  })),
  { field: "maxEnvVars", what: "one less", plan: { max_env_vars: 3 }, ask: putEnv(2), is: [200] },
  { field: "maxEnvVars", what: "as many", plan: { max_env_vars: 3 }, ask: putEnv(3), is: [200] },
  { field: "maxEnvVars", what: "one more", plan: { max_env_vars: 3 }, ask: putEnv(4), is: [422, "QUOTA_EXCEEDED"] },
  { field: "maxEnvVars", what: "none, of none", plan: { max_env_vars: 0 }, ask: putEnv(0), is: [200] },
  ...([1, 2, 3, 4] as const).map((n) => ({
    field: "maxScheduledJobs" as const,
    what: `${n} of 3`,
    plan: { max_scheduled_jobs: 3 },
    ask: deployed("ssr", jobs(n)),
    is: n <= 3 ? ([202] satisfies Outcome) : ([403, "QUOTA_EXCEEDED"] satisfies Outcome),
  })),
  ...([1, 3, 4] as const).map((replicas) => ({
    field: "maxReplicas" as const,
    what: `${replicas} of 3`,
    plan: { max_replicas: 3 },
    ask: deployed("ssr", { app: { name: "Shop", type: "ssr", replicas } }),
    is: replicas <= 3 ? ([202] satisfies Outcome) : ([403, "QUOTA_EXCEEDED"] satisfies Outcome),
  })),
  ...([0, 60, 61] as const).map((seconds) => ({
    field: "maxDrainSeconds" as const,
    what: `${seconds} of 60`,
    plan: { max_drain_seconds: 60 },
    ask: deployed("ssr", { drain: { seconds } }),
    is: seconds <= 60 ? ([202] satisfies Outcome) : ([403, "QUOTA_EXCEEDED"] satisfies Outcome),
  })),
  ...([true, false] as const).flatMap((enabled) => [
    {
      field: "devSyncEnabled" as const,
      what: `${enabled}`,
      plan: { dev_sync_enabled: enabled },
      ask: deployed("ssr", { channel: "dev" }),
      is: enabled ? ([202] satisfies Outcome) : noFeature,
    },
    ...(["ssr", "static", "ociimage"] as const).map((type) => ({
      field: "previewsEnabled" as const,
      what: `${enabled}, ${type}`,
      plan: { previews_enabled: enabled },
      type,
      ask: deployed(type, { channel: "preview" }),
      is: enabled ? ([202] satisfies Outcome) : ([403, "PREVIEW_UNAVAILABLE"] satisfies Outcome),
    })),
  ]),
  ...([1, 0] as const).map((n) => ({
    field: "maxDatabases" as const,
    what: `${n}`,
    plan: { max_databases: n },
    ask: deployed("ssr", { database: { enabled: true } }),
    is: n === 1 ? ([409, "DATABASE_NOT_READY"] satisfies Outcome) : noFeature,
  })),
];

describe.each(single)("$field, $what", ({ field, plan, type = "ssr", ask, is }) => {
  tested.add(field);
  test(`is answered with ${is.join(" ")}, ten times at once, too`, async () => {
    const user = await api.newUser({ plan: { max_projects: 100, storage_mb: 100, ...plan } });
    const project = await api.newProject(user, { type });
    expect(await ask(user, project, 0)).toEqual(is);
    const outcomes = await Promise.all(Array.from({ length: 10 }, (_, at) => ask(user, project, at + 1)));
    expect(outcomes).toEqual(Array(10).fill(is));
  });
});

describe("a plan that is lowered", () => {
  test("leaves variables as they are, and takes no larger set any more", async () => {
    const user = await api.newUser({ plan: { max_env_vars: 5 } });
    const project = await api.newProject(user);
    expect(await putEnv(5)(user, project, 0)).toEqual([200]);
    await setPlan(user, { max_env_vars: 2 });
    expect(await putEnv(5)(user, project, 0)).toEqual([422, "QUOTA_EXCEEDED"]);
    expect(await count("env_var", user)).toBe(5);
    expect(await putEnv(2)(user, project, 0)).toEqual([200]);
  });

  test("leaves image projects and what they run, and deploys none of them again", async () => {
    const user = await api.newUser();
    const project = await api.newProject(user, { type: "ociimage" });
    expect(await deploy(user, project)).toEqual([202]);
    await setPlan(user, { max_image_mb: 0 });
    expect(await deploy(user, project)).toEqual(noFeature);
    expect([await count("project", user), await count("deployment", user)]).toEqual([1, 1]);
  });

  test("lets a project that keeps more than it may go back to what it keeps", async () => {
    const user = await api.newUser({ plan: { storage_mb: 1 } });
    const project = await api.newProject(user);
    const repository = `svc/${project.id}/app`;
    const { digest } = await registry.pushArtifact(repository, { kind: "bundle", stream: Buffer.from(aSource()) });
    const artifact = { artifact_kind: "image", artifact_repository: repository, artifact_digest: digest } as const;
    const earlier = await api.newDeployment(project, { status: "superseded", ...artifact });
    await api.db
      .insertInto("artifact")
      .values({
        ...{ id: randomUUID(), project_id: project.id, repository, kind: "image", digest },
        ...{ size_bytes: 2 * mebibyte, ended_at: new Date() },
      })
      .execute();
    expect(await deploy(user, project)).toEqual([403, "QUOTA_EXCEEDED"]);
    expect(await send(0, "POST", `/deployments/${earlier.id}/rollback`, user, undefined)).toEqual([202]);
  });

  test("what nobody can go back to, and only waits to be collected, takes no room", async () => {
    const user = await api.newUser({ plan: { storage_mb: 1 } });
    const project = await api.newProject(user);
    const [repository, digest] = [`svc/${project.id}/source`, `sha256:${"a".repeat(64)}`];
    await api.newDeployment(project, { status: "failed", source_repository: repository, source_digest: digest });
    await api.db
      .insertInto("artifact")
      .values({
        ...{ id: randomUUID(), project_id: project.id, repository, kind: "source", digest },
        ...{ size_bytes: 5 * mebibyte, ended_at: new Date() },
      })
      .execute();
    expect(await deploy(user, project)).toEqual([202]);
  });
});

const ofContainers = ["memoryMb", "cpuMillicores", "pidsLimit", "reservedMemoryMb", "reservedCpuMillicores"] as const;
for (const field of [...ofContainers, "nodeSelector"] as const) tested.add(field);
test("containers and release commands get what the plan gives, and builds what builds get", async () => {
  const room = { memory_mb: 333, cpu_millicores: 777, pids_limit: 55, reserved_memory_mb: 44 };
  const limits = {
    ...{ memoryMb: 333, cpuMillicores: 777, pidsLimit: 55 },
    ...{ reservedMemoryMb: 44, reservedCpuMillicores: 20 },
  };
  const nodeSelector = { disk: "fast" };
  const user = await api.newUser({ plan: { ...room, node_selector: nodeSelector } });
  const project = await api.newProject(user);
  const manifest = manifestSchema.parse(
    manifestOf("ssr", { start: { command: "node x.js" }, release: { command: "node migrate.js" } }),
  );
  const deployment = await api.newDeployment(project, {
    ...{ manifest, status: "deploying", release_status: "pending" },
    ...{ source_repository: "svc/x/source", source_digest: `sha256:${"b".repeat(64)}` },
    ...{ artifact_kind: "image", artifact_repository: "svc/x/app", artifact_digest: `sha256:${"a".repeat(64)}` },
  });
  const plan = await planOfUser(api.db, user.id);
  expect(serveTask(deployment, plan, manifest, null)).toMatchObject({ ...limits, nodeSelector });
  expect(buildTask(deployment, project, plan, manifest)).toMatchObject({ nodeSelector });
  await insertTask(api.db, deployment, serveTask(deployment, plan, manifest, null), { replica: 0 });
  await api.db.updateTable("plan").set({ node_selector: {} }).where("id", "=", plan.id).execute();
  const task = api.db.selectFrom("task").select("node_selector").where("owner_id", "=", deployment.id);
  // Those that are there stay where they are.
  expect(await task.executeTakeFirst()).toEqual({ node_selector: nodeSelector });
  expect(buildTask(deployment, project, plan, manifest)).not.toMatchObject(limits);
  const deps = {
    db: api.db,
    secrets: api.context.secrets,
    registryHost: "r.test",
    baseImage: "node",
    builderImage: "node",
    buildCaBundle: "",
    gatePass: () => "",
  };
  const run = await api.newRun(deployment, { node_id: randomUUID() });
  expect((await loadRun(deps, run.id))?.resources).toMatchObject(limits);
  for (const stray of [randomUUID(), `${run.id}.1`, "no id"]) expect(await loadRun(deps, stray)).toBeNull();
});

test("every field of a plan is in one of the tables here", async () => {
  const { body } = await api.call("GET", "/account/usage", { session: (await api.newUser()).session });
  const { databaseEnabled: _, createdAt: __, updatedAt: ___, ...fields } = body.plan;
  expect(Object.keys(fields).sort()).toEqual([...Object.keys(elsewhere), ...tested].sort());
});
