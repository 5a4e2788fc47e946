import { randomUUID } from "node:crypto";
import { type ErrorCode, errorCodes, errorReply } from "@svc/proto";
import { type RawBuilder, sql } from "kysely";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { apiEndpoints } from "../../server.ts";
import type { Deployment, Plan, ProjectType } from "../../stores/db/tables.ts";
import { sizeRecord } from "../../tenants/databases/sizes.ts";
import type { Studio } from "../../tenants/databases/studio/studio.ts";
import { newJob } from "../../tenants/jobs/testing/job.ts";
import { declaredErrors } from "../declared.ts";
import { ApiError } from "../errors.ts";
import { type Answer, type CallOptions, type TestApi, type TestUser, testApi } from "../testing.ts";
import { rawConnection, rawRequest } from "../testing-raw.ts";
import { newPeople, type People } from "./credentials.ts";

const githost = {
  kind: "gitea",
  url: "https://git.test",
  apiUrl: "https://git.test/api/v1",
  clientId: "svc",
  clientSecret: "secret",
} as const;

/** What the servers of branches say next to whatever they are asked. */
let said: ErrorCode = "QUERY_ERROR";
const refusingStudio: Studio = {
  ...sizeRecord,
  findReadyBranch: async (_, __, projectId, channel) => ({
    branch: {
      projectId,
      ownerId: "o",
      channel,
      engine: "postgres",
      sizeLimitMb: 10,
      connectionLimit: 10,
      readOnly: false,
      readOnlySoft: false,
    },
    address: { databaseId: randomUUID(), nodeId: randomUUID(), epoch: "1" },
    credentials: {
      tenant: { user: "r", password: "p", database: "d" },
      admin: { user: "a", password: "p", database: "d" },
    },
  }),
  openLine: () => Promise.reject(new Error("no node")),
  transfers: {
    async exportTable() {
      throw new ApiError(said);
    },
    async importTable() {
      throw new ApiError(said);
    },
  },
  sql: {
    async ask() {
      throw new ApiError(said);
    },
  },
};

let api: TestApi;
let people: People;
beforeAll(async () => {
  api = await testApi({ config: { githost }, uploads: { totalMs: 200 }, studio: refusingStudio });
  people = await newPeople(api);
});
afterAll(async () => {
  await api?.[Symbol.asyncDispose]();
});

/** Somebody new, with an own plan where `plan` says so. */
let user: TestUser;
beforeEach(async () => {
  user = await api.newUser();
});
const withPlan = async (plan: Partial<Plan>, verified = true): Promise<void> => {
  user = await api.newUser({ plan, verified });
};

const call = (route: string, options: CallOptions = {}): Promise<Answer> => {
  const [method = "", path = ""] = route.split(" ");
  return api.call(method, path, { session: user.session, ...options });
};
const asAdmin = (route: string, body?: unknown): Promise<Answer> =>
  call(route, { session: people.admin.session, ...(body !== undefined && { body }) });
const project = async (type: ProjectType = "ssr"): Promise<string> => (await api.newProject(user, { type })).id;

/** A deployment of a new project, and the call `action` of it. */
async function onDeployment(action: string, values: Partial<Deployment>): Promise<Answer> {
  const { id } = await api.newDeployment(await api.newProject(user), values);
  return call(action.replace(":id", id));
}

const image = (changes: object = {}) => ({
  manifest: {
    version: 2,
    name: "Shop",
    type: "ociimage",
    port: 80,
    image: { reference: "registry.test/shop:1" },
    ...changes,
  },
});
const deployImage = async (body: unknown = image()): Promise<Answer> =>
  call(`POST /projects/${await project("ociimage")}/deployments`, { body });
const suspended = async (id: string): Promise<string> => {
  const facts = { suspended_at: new Date(), suspend_reason: "admin" } as const;
  await api.db.updateTable("project").set(facts).where("id", "=", id).execute();
  return id;
};

/** What was a release of `site`, with an artifact that the registry would have to be asked for. */
const built = {
  artifact_kind: "image",
  artifact_repository: "svc/x/app",
  artifact_digest: `sha256:${"a".repeat(64)}`,
} as const;

function sourceOf(manifest: object, source: Uint8Array<ArrayBuffer>): FormData {
  const form = new FormData();
  form.set("manifest", JSON.stringify(manifest));
  form.set("source", new Blob([source]), "source.tar.gz");
  return form;
}
const sourceManifest = (changes: object = {}) => ({ version: 2, app: { name: "Shop", type: "ssr" }, ...changes });
const deploySource = async (manifest: object): Promise<Answer> =>
  call(`POST /projects/${await project()}/deployments`, { body: sourceOf(manifest, new Uint8Array(100)) });

/** A container that is to run on a node from which nobody hears. */
async function lostContainer(projectId: string): Promise<void> {
  const owned = await api.db.selectFrom("project").selectAll().where("id", "=", projectId).executeTakeFirstOrThrow();
  const { id } = await api.newDeployment(owned, { status: "running" });
  const place = { project_id: projectId, channel: "production" } as const;
  const owner = { owner_kind: "deployment", owner_id: id } as const;
  const sizes = { memory_mb: 1, cpu_millicores: 1, pids_limit: 1 };
  await api.db
    .insertInto("task")
    .values({ ...place, ...owner, ...sizes, kind: "serve", spec: "{}", spec_hash: "x", node_id: randomUUID() })
    .execute();
  await api.db
    .insertInto("channel_state")
    .values({ ...place, deployment_id: id })
    .execute();
}

async function pendingBackup(): Promise<string> {
  const of = { id: randomUUID(), project_id: await project(), database_id: randomUUID() };
  await api.db
    .insertInto("database_backup")
    .values({ ...of, channel: "production", engine: "postgres" })
    .execute();
  return `/projects/${of.project_id}/database/backups/${of.id}`;
}

async function machine(): Promise<string> {
  const values = { role: "node", name: `machine-${randomUUID().slice(0, 8)}`, labels: "{}" } as const;
  return (await api.db.insertInto("node").values(values).returning("id").executeTakeFirstOrThrow()).id;
}

/** The answer to an upload of which nothing more comes. */
async function halfAnUpload(): Promise<Answer> {
  const path = `/api/v1/projects/${await project()}/deployments`;
  using connection = await rawConnection(api.url);
  const headers = [
    `host: ${new URL(api.url).host}`,
    `authorization: Bearer ${user.session}`,
    "content-type: multipart/form-data; boundary=x",
    "content-length: 5000",
  ];
  connection.write(rawRequest(`POST ${path} HTTP/1.1`, headers, "--x\r\n"));
  await connection.closed();
  const [head = "", text = ""] = connection.answer().split("\r\n\r\n");
  return { status: Number(head.split(" ")[1]), headers: new Headers(), text, body: JSON.parse(text) };
}

async function linkedWithoutToken(): Promise<void> {
  await sql`insert into auth."account" ("accountId", "providerId", "userId", "accessToken", "updatedAt")
    values ('git.test/1', 'githost', ${user.id}, 'not sealed by us', now())`.execute(api.db);
}

/** Rows of the table that are `bad` cannot be added, for no reason that anybody foresaw. */
async function unlucky(table: string, bad: RawBuilder<unknown>): Promise<void> {
  await sql`create or replace function unlucky() returns trigger language plpgsql as $$ begin raise 'no luck'; end $$`.execute(
    api.db,
  );
  await sql`create or replace trigger unlucky before insert on ${sql.table(table)} for each row when (${bad})
    execute function unlucky()`.execute(api.db);
}

/** A refusal, as "status code", and a call that ends in it. */
/** The console of a branch whose server refuses so. */
async function consoleSays(code: ErrorCode): Promise<Answer> {
  said = code;
  return call(`POST /projects/${await project()}/database/query`, { body: { sql: "select 1" } });
}

/** The same of the rows of a table. */
async function tableSays(code: ErrorCode, method: string, body?: unknown): Promise<Answer> {
  said = code;
  const path = `/projects/${await project()}/database/tables/orders/rows`;
  return call(`${method} ${path}`, { ...(body !== undefined && { body }) });
}

const refusals: Readonly<Record<string, () => Promise<Answer>>> = {
  "401 UNAUTHORIZED": () => api.call("GET", "/projects"),
  "403 FORBIDDEN_SCOPE": async () => {
    const { key } = await api.newKey(user, { scopes: ["logs:read"] });
    return api.call("GET", "/projects", { key });
  },
  "403 FORBIDDEN": () => call("GET /admin/users"),
  "403 SESSION_REQUIRED": async () =>
    api.call("POST", "/tokens", { key: (await api.newKey(user)).key, body: { name: "x" } }),
  "403 EMAIL_NOT_VERIFIED": async () => {
    await withPlan({}, false);
    return deployImage();
  },
  "409 PASSWORD_ALREADY_SET": async () => {
    const body = { newPassword: "correct horse battery" };
    await call("POST /account/set-password", { body });
    return call("POST /account/set-password", { body });
  },
  "400 SET_PASSWORD_FAILED": () => call("POST /account/set-password", { body: { newPassword: user.email } }),
  "500 SET_PASSWORD_FAILED": async () => {
    await unlucky("auth.account", sql`new."userId" = ${sql.lit(user.id)}`);
    return call("POST /account/set-password", { body: { newPassword: "correct horse battery" } });
  },
  "500 TOKEN_CREATE_FAILED": async () => {
    await unlucky("api_token", sql`new.name = 'unlucky'`);
    return call("POST /tokens", { body: { name: "unlucky" } });
  },
  "400 TOKEN_CREATE_FAILED": () => call("POST /tokens", { body: { name: "x", expiresIn: 60 } }),
  "400 GITHOST_NOT_CONNECTED": () => call("GET /githost/repos"),
  "400 GITHOST_TOKEN_INVALID": async () => {
    await linkedWithoutToken();
    return call("GET /githost/repos");
  },
  "422 VALIDATION": () => call("POST /projects", { body: { name: "Shop", type: "ssr", slug: "www" } }),
  "400 BAD_REQUEST": () => call("POST /account/set-password", { body: { newPassword: "short" } }),
  "408 BAD_REQUEST": halfAnUpload,
  "400 INVALID_INPUT": async () => call(`GET /projects/${await project()}/jobs?channel=beta`),
  "409 SCOPE_UNAVAILABLE": async () => {
    const { id, project_id } = await api.newDeployment(await api.newProject(user));
    return call(`GET /projects/${project_id}/jobs?deployment=${id}`);
  },
  "409 ARTIFACT_UNAVAILABLE": async () => {
    const { id: deployment_id, project_id } = await api.newDeployment(await api.newProject(user), {
      status: "running",
    });
    await api.db
      .insertInto("channel_state")
      .values({ project_id, channel: "production", deployment_id, stopped: false })
      .execute();
    const { id } = await newJob(api.db, { project_id, deployment_id });
    return call(`POST /projects/${project_id}/jobs/${id}/run`);
  },
  "400 INVALID_BODY": () => asAdmin(`POST /admin/users/${user.id}/role`, { role: "root" }),
  "422 INVALID_EMAIL": () => call("POST /waitlist", { body: { email: "ada@" } }),
  "413 UPLOAD_TOO_LARGE": async () => {
    await withPlan({ max_upload_mb: 1 });
    const body = sourceOf(sourceManifest(), new Uint8Array(3 * 1024 * 1024));
    return call(`POST /projects/${await project()}/deployments`, { body });
  },
  "413 BODY_TOO_LARGE": () => call("POST /projects", { body: { name: "x".repeat(2 * 1024 * 1024) } }),
  "405 METHOD_NOT_ALLOWED": () => call("DELETE /projects"),
  "409 IDEMPOTENCY_CONFLICT": async () => {
    const create = (name: string) =>
      call("POST /projects", { body: { name, type: "ssr" }, headers: { "idempotency-key": "once" } });
    await create("Shop");
    return create("Another shop");
  },
  "422 OCI_REFERENCE_INVALID": () => deployImage(image({ image: { reference: "localhost/shop:1" } })),
  "400 DESTRUCTIVE_CONFIRMATION_REQUIRED": async () =>
    call(`DELETE /projects/${await project("ociimage")}/registry-credentials`, { body: { host: "registry.test" } }),
  "422 UNKNOWN_PLAN": () => asAdmin(`POST /admin/users/${user.id}/plan`, { plan: "gold" }),
  "404 NOT_FOUND": () => call(`GET /projects/${randomUUID()}`),
  "409 SLUG_CONFLICT": async () => {
    const { slug } = await api.newProject(people.stranger);
    return call("POST /projects", { body: { name: "Shop", type: "ssr", slug } });
  },
  "403 SUSPENDED": async () => call(`POST /projects/${await suspended(await project())}/start`),
  "403 PLAN_FEATURE_UNAVAILABLE": async () => {
    await withPlan({ max_image_mb: 0 });
    return call("POST /projects", { body: { name: "Shop", type: "ociimage" } });
  },
  "403 PREVIEW_UNAVAILABLE": async () => {
    await withPlan({ previews_enabled: false });
    return deployImage(image({ channel: "preview" }));
  },
  "403 QUOTA_EXCEEDED": async () => {
    await withPlan({ max_projects: 0 });
    return call("POST /projects", { body: { name: "Shop", type: "ssr" } });
  },
  "422 QUOTA_EXCEEDED": async () => {
    await withPlan({ max_env_vars: 0 });
    return call(`PUT /projects/${await project()}/env`, { body: { vars: { A: "1" } } });
  },
  "429 RATE_LIMITED": async () => {
    await withPlan({ rate_limit_per_minute: 1 });
    await call("GET /me");
    return call("GET /me");
  },
  "409 ROLLBACK_UNAVAILABLE": () => onDeployment("POST /deployments/:id/rollback", { status: "running" }),
  "400 ROLLBACK_UNAVAILABLE": () => onDeployment("POST /deployments/:id/rollback", { channel: "preview" }),
  "409 PROMOTE_UNAVAILABLE": () =>
    onDeployment("POST /deployments/:id/promote", { channel: "preview", status: "superseded" }),
  "409 CANCEL_UNAVAILABLE": () => onDeployment("POST /deployments/:id/cancel", { status: "running" }),
  "409 DELETE_UNAVAILABLE": () => onDeployment("DELETE /deployments/:id", { status: "running" }),
  "409 STOP_UNAVAILABLE": async () => call(`POST /projects/${await project()}/stop`),
  "409 START_UNAVAILABLE": async () => call(`POST /projects/${await project()}/start`),
  "409 DATABASE_NOT_READY": () => deploySource(sourceManifest({ database: { enabled: true } })),
  "409 DATABASE_PROVISIONING": async () => {
    const id = await project();
    await call(`POST /projects/${id}/database`);
    return call(`POST /projects/${id}/database/rotate-credentials`);
  },
  "409 DATABASE_ENGINE_CONFLICT": async () => {
    const id = await project();
    await call(`POST /projects/${id}/database`);
    return call(`POST /projects/${id}/database?channel=dev`, { body: { engine: "mariadb" } });
  },
  "503 DATABASE_ENGINE_UNAVAILABLE": async () => {
    const { databases } = api.context.config;
    databases.mariadb = false;
    try {
      return await call(`POST /projects/${await project()}/database`, { body: { engine: "mariadb" } });
    } finally {
      databases.mariadb = true;
    }
  },
  "400 QUERY_ERROR": () => consoleSays("QUERY_ERROR"),
  "400 DRY_RUN_UNAVAILABLE": () => consoleSays("DRY_RUN_UNAVAILABLE"),
  "404 TABLE_NOT_FOUND": () => tableSays("TABLE_NOT_FOUND", "GET"),
  "400 COLUMN_NOT_FOUND": () => tableSays("COLUMN_NOT_FOUND", "GET"),
  "400 NO_PRIMARY_KEY": () => tableSays("NO_PRIMARY_KEY", "DELETE", { pk: { id: 1 } }),
  "409 CONFLICT": async () => {
    const path = `POST /projects/${await project()}/database/saved-queries`;
    await call(path, { body: { name: "all", sql: "select 1" } });
    return call(path, { body: { name: "all", sql: "select 2" } });
  },
  "409 RUNTIME_LOGS_UNAVAILABLE": async () => call(`GET /projects/${await project()}/runtime-logs`),
  "502 RUNTIME_LOGS_UNAVAILABLE": async () => {
    const id = await project();
    await lostContainer(id);
    return call(`GET /projects/${id}/runtime-logs`);
  },
  "400 SELF_ACTION": () => asAdmin(`DELETE /admin/users/${people.admin.id}`),
  "409 ALREADY_SUSPENDED": async () => asAdmin(`POST /admin/projects/${await suspended(await project())}/suspend`),
  "409 NOT_SUSPENDED": async () => asAdmin(`POST /admin/projects/${await project()}/resume`),
  "409 PLAN_IS_DEFAULT": async () => {
    const plan = await api.db.selectFrom("plan").select("id").where("is_default", "=", true).executeTakeFirstOrThrow();
    return asAdmin(`DELETE /admin/plans/${plan.id}`);
  },
  "409 PLAN_IN_USE": async () => {
    await withPlan({});
    const { plan_id } = await api.db
      .selectFrom("account")
      .select("plan_id")
      .where("user_id", "=", user.id)
      .executeTakeFirstOrThrow();
    return asAdmin(`DELETE /admin/plans/${plan_id}`);
  },
  "409 NODE_ACTION_UNAVAILABLE": async () => asAdmin(`POST /admin/nodes/${await machine()}/uncordon`),
  "409 CLUSTER_SCHEDULER_DISABLED": async () => {
    const { config } = api.context;
    config.schedulerEnabled = false;
    try {
      return await asAdmin(`POST /admin/nodes/${await machine()}/cordon`);
    } finally {
      config.schedulerEnabled = true;
    }
  },
  "409 CA_ROTATION_UNDER_WAY": async () => {
    await asAdmin("POST /admin/ca/rotate");
    return asAdmin("POST /admin/ca/rotate");
  },
  "409 SCREENSHOT_UNAVAILABLE": () => onDeployment("POST /deployments/:id/screenshot", { status: "superseded" }),
  "409 BACKUP_IN_PROGRESS": async () => call(`DELETE ${await pendingBackup()}`),
  "409 BACKUP_NOT_READY": async () => call(`GET ${await pendingBackup()}/download`),
  "500 INTERNAL": async () => {
    const id = await project();
    await api.db
      .insertInto("env_var")
      .values({ project_id: id, key: "A", value: Buffer.from("not sealed") })
      .execute();
    return call(`GET /projects/${id}/env`);
  },
  "503 UNAVAILABLE": () => onDeployment("POST /deployments/:id/rollback", { status: "superseded", ...built }),
};

describe("every refusal", () => {
  const declared = apiEndpoints.flatMap((spec) => declaredErrors(spec).map(({ status, code }) => `${status} ${code}`));

  test("that an endpoint declares is asked for below", () => {
    // What no endpoint can say of itself: that it is another one that was wanted.
    const wanted = new Set([...declared, "405 METHOD_NOT_ALLOWED"]);
    expect([...wanted].filter((name) => !Object.hasOwn(refusals, name))).toEqual([]);
    expect(Object.keys(refusals).filter((name) => !wanted.has(name))).toEqual([]);
  });

  test("of the catalogue is one that can happen", () => {
    const here = new Set(Object.keys(refusals).map((name) => name.split(" ")[1]));
    expect(errorCodes.filter((code) => !here.has(code))).toEqual([]);
  });

  test.each(Object.entries(refusals))("%s is what a call is told", async (name, ask) => {
    const { status, body, headers, text } = await ask();
    expect(`${status} ${body.error?.code}`, text).toBe(name);
    expect(errorReply.safeParse(body).success).toBe(true);
    expect(Object.keys(body.error).sort()).toEqual(["code", "message"]);
    expect(body.error.message.length).toBeGreaterThan(10);
    if (status === 429) expect(Number(headers.get("retry-after"))).toBeGreaterThan(0);
  });
});
