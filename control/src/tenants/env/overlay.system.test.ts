import { manifestSchema } from "@svc/proto";
import { systemClock } from "@svc/runtime/system";
import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type RegistryProcess, startDockerRegistry } from "../../../../registry/src/testing/docker-registry.ts";
import { createPlacementLoader } from "../../fleet/tasks/assignment.ts";
import { serveTask } from "../../fleet/tasks/kinds/serve.ts";
import { insertTask } from "../../fleet/tasks/store.ts";
import { type TestApi, type TestUser, testApi } from "../../http/testing.ts";
import { planOfUser } from "../../identity/plans/of-user.ts";
import type { Project } from "../../stores/db/tables.ts";
import { aSource, formOf, manifestOf } from "../deployments/testing/source.ts";

let registry: RegistryProcess;
let api: TestApi;
let user: TestUser;
let wide: TestUser;
beforeAll(async () => {
  registry = await startDockerRegistry();
  api = await testApi({ registryUrl: registry.url });
  user = await api.newUser({ plan: { max_env_vars: 3 } });
  wide = await api.newUser({ plan: { max_env_vars: 4, max_sse_connections: 7 } });
});
afterAll(async () => {
  await api[Symbol.asyncDispose]();
  await registry[Symbol.asyncDispose]();
});

const at = (id: string, channel?: string) => `/projects/${id}/env${channel === undefined ? "" : `?channel=${channel}`}`;
const put = (id: string, vars: Record<string, string>, channel?: string, as = user) =>
  api.call("PUT", at(id, channel), { session: as.session, body: { vars } });
const get = async (id: string, channel?: string) =>
  (await api.call("GET", at(id, channel), { session: user.session })).body.vars;

test("each channel has variables of its own beside the project's", async () => {
  const { id } = await api.newProject(user);
  await put(id, { A: "base" });
  expect((await put(id, { A: "preview", B: "1" }, "preview")).body).toEqual({ ok: true, keys: ["A", "B"] });
  await put(id, { C: "dev" }, "dev");
  expect(await get(id)).toEqual({ A: "base" });
  expect(await get(id, "preview")).toEqual({ A: "preview", B: "1" });
  expect(await get(id, "production")).toEqual({});
  await put(id, { D: "base" });
  await put(id, {}, "preview");
  expect(await get(id)).toEqual({ D: "base" });
  expect(await get(id, "preview")).toEqual({});
  expect(await get(id, "dev")).toEqual({ C: "dev" });
});

test("a sealed value of one channel opens in no other, and not as one of the project", async () => {
  const { id } = await api.newProject(user);
  await put(id, { SECRET: "plain text" }, "dev");
  await sql`insert into env_overlay (project_id, channel, key, value)
    select project_id, 'production', key, value from env_overlay where project_id = ${id}`.execute(api.db);
  await sql`insert into env_var (project_id, key, value)
    select project_id, key, value from env_overlay where project_id = ${id} and channel = 'dev'`.execute(api.db);
  for (const stolen of [at(id, "production"), at(id)]) {
    const answer = await api.call("GET", stolen, { session: user.session });
    expect([answer.status, answer.body.error.code]).toEqual([500, "INTERNAL"]);
    expect(answer.text).not.toContain("plain text");
  }
  expect(await get(id, "dev")).toEqual({ SECRET: "plain text" });
});

describe("the plan's limit is for what one channel gets", () => {
  test("an overlay that would pass it is refused, and nothing changes", async () => {
    const { id } = await api.newProject(user);
    await put(id, { A: "1", B: "1" });
    expect((await put(id, { B: "2", C: "2" }, "preview")).status).toBe(200);
    const refused = await put(id, { C: "3", D: "3" }, "preview");
    expect([refused.status, refused.body.error.code]).toEqual([422, "QUOTA_EXCEEDED"]);
    expect(refused.body.error.message).toContain("preview");
    expect(await get(id, "preview")).toEqual({ B: "2", C: "2" });
  });

  test("so is a base with which an overlay would pass it", async () => {
    const { id } = await api.newProject(user);
    await put(id, { X: "1", Y: "1" }, "dev");
    const refused = await put(id, { A: "1", B: "1" });
    expect([refused.status, refused.body.error.code]).toEqual([422, "QUOTA_EXCEEDED"]);
    expect(await get(id)).toEqual({});
  });
});

test.each(["prod", "PRODUCTION", "", "dev&channel=preview", "dev%00", "dev&merge=1"])(
  "?channel=%s is refused",
  async (channel) => {
    const { id } = await api.newProject(user);
    for (const method of ["GET", "PUT"]) {
      const body = method === "PUT" ? { body: { vars: {} } } : {};
      const answer = await api.call(method, at(id, channel), { session: user.session, ...body });
      expect([method, answer.status, answer.body.error?.code]).toEqual([method, 422, "VALIDATION"]);
    }
  },
);

test("writers of all layers at once leave each layer whole", async () => {
  const { id } = await api.newProject(user);
  const sets = [
    { A: "1", B: "1" },
    { B: "2", C: "2" },
  ];
  for (let round = 0; round < 5; round += 1) {
    await Promise.all([undefined, "dev"].flatMap((channel) => sets.map((vars) => put(id, vars, channel))));
    expect(sets).toContainEqual(await get(id));
    expect(sets).toContainEqual(await get(id, "dev"));
  }
});

test("reading and writing a channel's layer say so in the audit, without a value", async () => {
  const { id } = await api.newProject(user);
  await put(id, { SECRET: "plain text" }, "preview");
  await get(id, "preview");
  const lines = await api.db
    .selectFrom("audit")
    .select(["action", "detail"])
    .where("target", "=", id)
    .orderBy("id")
    .execute();
  expect(lines).toEqual([
    { action: "env.replace", detail: { channel: "preview", count: 1 } },
    { action: "env.read", detail: { channel: "preview", count: 1 } },
  ]);
});

/** What a container of a new deployment on `channel` would be given. */
async function environmentOn(project: Project, channel: string, as = wide): Promise<Record<string, string>> {
  const manifest = manifestOf("ssr", { channel, env: { files: [".env"] } });
  const source = aSource(
    { name: "server.js", content: "x" },
    { name: "./.env", content: "FILE=file\nBASE=file\nOVER=file\n" },
  );
  const path = `/projects/${project.id}/deployments`;
  const answer = await api.call("POST", path, { session: as.session, body: formOf({ manifest, source }) });
  expect([answer.status, answer.body.error]).toEqual([202, undefined]);
  const { db, secrets } = api.context;
  const deployment = await db
    .updateTable("deployment")
    .set({ artifact_repository: "svc/app", artifact_digest: `sha256:${"0".repeat(64)}` })
    .where("id", "=", answer.body.deploymentId)
    .returningAll()
    .executeTakeFirstOrThrow();
  const plan = await planOfUser(db, as.id);
  const task = serveTask(deployment, plan, manifestSchema.parse(deployment.manifest), null);
  const id = await insertTask(db, deployment, task, { replica: 0 });
  const deps = {
    db,
    secrets,
    registryHost: "registry.test",
    baseImage: "node",
    builderImage: "node",
    buildCaBundle: "",
    gatePass: () => "",
  };
  const placement = await createPlacementLoader(systemClock, deps)(id);
  return placement?.spec.case === "serve" ? placement.spec.value.env : {};
}

test("a deployment gets the files, then the project's, then its channel's, then the platform's word", async () => {
  const project = await api.newProject(wide);
  await put(project.id, { BASE: "base", OVER: "base", PORT: "1" }, undefined, wide);
  await put(project.id, { OVER: "preview" }, "preview", wide);
  const own = { FILE: "file", BASE: "base", PORT: "3000" };
  const production = await environmentOn(project, "production");
  expect(production).toMatchObject({ ...own, OVER: "base", SVC_CHANNEL: "production" });
  const preview = await environmentOn(project, "preview");
  expect(preview).toMatchObject({ ...own, OVER: "preview", SVC_CHANNEL: "preview" });
});

test("a container is told how many streams the plan of its owner allows, as it is when it starts", async () => {
  const project = await api.newProject(wide);
  await put(project.id, { SVC: "own" }, undefined, wide);
  expect(await environmentOn(project, "production")).toMatchObject({ SVC: "own", SVC_MAX_SSE_CONNECTIONS: "7" });
  const { id } = await planOfUser(api.db, wide.id);
  await api.db.updateTable("plan").set({ max_sse_connections: 12 }).where("id", "=", id).execute();
  expect(await environmentOn(project, "production")).toMatchObject({ SVC_MAX_SSE_CONNECTIONS: "12" });
  const nobody = await api.newUser();
  const { max_sse_connections: byDefault } = await planOfUser(api.db, nobody.id);
  const told = await environmentOn(await api.newProject(nobody), "production", nobody);
  expect(told).toMatchObject({ SVC_MAX_SSE_CONNECTIONS: String(byDefault) });
});

test("files that come with a source count together with what its channel gets", async () => {
  const project = await api.newProject(wide);
  await put(project.id, { A: "1" }, undefined, wide);
  await put(project.id, { B: "1" }, "preview", wide);
  const deploy = (channel: string) => {
    const manifest = manifestOf("ssr", { channel, env: { files: [".env"] } });
    const source = aSource({ name: "./.env", content: "F1=1\nF2=1\nF3=1\n" });
    const path = `/projects/${project.id}/deployments`;
    return api.call("POST", path, { session: wide.session, body: formOf({ manifest, source }) });
  };
  expect((await deploy("production")).status).toBe(202);
  const refused = await deploy("preview");
  expect([refused.status, refused.body.error.code]).toEqual([422, "QUOTA_EXCEEDED"]);
});
