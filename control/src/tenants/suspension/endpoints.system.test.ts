import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Endpoint } from "../../http/endpoint.ts";
import { type Answer, type CallOptions, type TestApi, type TestUser, testApi } from "../../http/testing.ts";
import { apiEndpoints } from "../../server.ts";
import type { Project } from "../../stores/db/tables.ts";
import { formOf, manifestOf } from "../deployments/testing/source.ts";
import { newJob } from "../jobs/testing/job.ts";

let api: TestApi;
let user: TestUser;
let admin: TestUser;
beforeAll(async () => {
  api = await testApi();
  user = await api.newUser({ plan: { max_deploys_per_hour: 1_000, max_projects: 1_000 } });
  admin = await api.newUser({ admin: true });
});
afterAll(() => api?.[Symbol.asyncDispose]());

const codeOf = (answer: Answer) => [answer.status, answer.body.error?.code];
const act = (project: Project, action: "suspend" | "resume", as: CallOptions = { session: admin.session }) =>
  api.call("POST", `/admin/projects/${project.id}/${action}`, as);
const rowOf = ({ id }: Project) =>
  api.db.selectFrom("project").selectAll().where("id", "=", id).executeTakeFirstOrThrow();
const auditOf = async ({ id }: Project) =>
  (
    await api.db
      .selectFrom("audit")
      .select(["action", "user_id", "detail"])
      .where("target", "=", id)
      .orderBy("id")
      .execute()
  ).filter(({ action }) => /suspend|resume/.test(action));

describe("POST /admin/projects/:id/suspend and /resume", () => {
  test("suspends at once, resumes by and by, and writes down who did it", async () => {
    const project = await api.newProject(user);
    const suspended = await act(project, "suspend");
    expect(suspended.status).toBe(202);
    expect(suspended.body).toEqual({ ok: true, id: project.id, queued: true, suspended: true });
    expect(await rowOf(project)).toMatchObject({ suspended_at: expect.any(Date), suspend_reason: "admin" });

    const resumed = await act(project, "resume");
    expect(resumed.status).toBe(202);
    expect(resumed.body).toEqual({ ok: true, id: project.id, queued: true });
    // A worker clears it.
    expect(await rowOf(project)).toMatchObject({ suspended_at: expect.any(Date), resuming_at: expect.any(Date) });
    expect(await auditOf(project)).toEqual([
      { action: "project.suspend", user_id: admin.id, detail: { reason: "admin" } },
      { action: "project.resume", user_id: admin.id, detail: { reason: "admin" } },
    ]);
    const work = api.db.selectFrom("work_item").select("id").where("key", "=", `suspension/${project.id}`);
    expect(await work.execute()).toHaveLength(1);
  });

  test("says when there is nothing to do", async () => {
    const project = await api.newProject(user);
    expect(codeOf(await act(project, "resume"))).toEqual([409, "NOT_SUSPENDED"]);
    await act(project, "suspend");
    expect(codeOf(await act(project, "suspend"))).toEqual([409, "ALREADY_SUSPENDED"]);
    expect(await auditOf(project)).toHaveLength(1);
  });

  test("of many who suspend at once, one does", async () => {
    const project = await api.newProject(user);
    const answers = await Promise.all(Array.from({ length: 6 }, () => act(project, "suspend")));
    expect(answers.map(({ status }) => status).sort()).toEqual([202, 409, 409, 409, 409, 409]);
  });

  test("the last word counts: a suspension takes a resumption back that is under way", async () => {
    const project = await api.newProject(user);
    await act(project, "suspend");
    await act(project, "resume");
    expect((await act(project, "suspend")).status).toBe(202);
    expect(await rowOf(project)).toMatchObject({ suspended_at: expect.any(Date), resuming_at: null });
  });

  test("an owner's quota is no administrator's word, and the answer says how to make it one", async () => {
    const project = await api.newProject(user);
    await api.db
      .updateTable("project")
      .set({ suspended_at: new Date(), suspend_reason: "quota" })
      .where("id", "=", project.id)
      .execute();
    const refused = await act(project, "suspend");
    expect(codeOf(refused)).toEqual([409, "ALREADY_SUSPENDED"]);
    expect(refused.body.error.message).toContain("resume it and suspend it again");
    expect((await act(project, "resume")).status).toBe(202);
    expect((await act(project, "suspend")).status).toBe(202);
    expect((await rowOf(project)).suspend_reason).toBe("admin");
  });

  test("lets a project run on for the rest of the database's month, whatever a replica's clock says", async () => {
    await using other = await testApi({ now: () => new Date(Date.now() - 40 * 86_400_000) });
    const [owner, chief] = [
      await other.newUser({ plan: { monthly_requests: 0 } }),
      await other.newUser({ admin: true }),
    ];
    const project = await other.newProject(owner);
    for (const action of ["suspend", "resume"])
      expect(
        (await other.call("POST", `/admin/projects/${project.id}/${action}`, { session: chief.session })).status,
      ).toBe(202);
    const { rows } = await sql<{ isRight: boolean }>`
      select quota_waived_until = (date_trunc('month', now() at time zone 'UTC') + interval '1 month') at time zone 'UTC'
        as "isRight" from project where id = ${project.id}`.execute(other.db);
    expect(rows).toEqual([{ isRight: true }]);
  });

  test("knows no project that is missing or being deleted", async () => {
    const project = await api.newProject(user);
    await api.db.updateTable("project").set({ deleting_at: new Date() }).where("id", "=", project.id).execute();
    for (const action of ["suspend", "resume"] as const) {
      expect(codeOf(await act(project, action))).toEqual([404, "NOT_FOUND"]);
      const id = crypto.randomUUID();
      expect(codeOf(await act({ ...project, id }, action))).toEqual([404, "NOT_FOUND"]);
    }
  });

  test("is for administrators with full access", async () => {
    const project = await api.newProject(user);
    const { key } = await api.newKey(admin, { scopes: ["projects:write"] });
    for (const action of ["suspend", "resume"] as const) {
      expect(codeOf(await act(project, action, { session: user.session }))).toEqual([403, "FORBIDDEN"]);
      expect(codeOf(await act(project, action, { key }))).toEqual([403, "FORBIDDEN_SCOPE"]);
    }
    expect((await rowOf(project)).suspended_at).toBeNull();
  });
});

test("lists show when and why a project is suspended", async () => {
  const project = await api.newProject(user);
  await act(project, "suspend");
  const { body } = await api.call("GET", "/projects", { session: user.session });
  const found = body.projects.find(({ id }: Project) => id === project.id);
  expect(found).toMatchObject({ suspendReason: "admin" });
  expect(new Date(found.suspendedAt).toISOString()).toBe(found.suspendedAt);
});

/** What a suspended project's owner cannot do, apart from what needs a database. */
const refused = new Set([
  "POST /projects/:id/deployments",
  "PUT /projects/:id",
  "POST /projects/:id/start",
  "POST /deployments/:id/rollback",
  "POST /deployments/:id/promote",
  "POST /projects/:id/jobs/:jobId/run",
]);
/** What only a site that is live has. */
const ofLiveSites = new Set(["POST /deployments/:id/screenshot"]);
const nameOf = ({ method, path }: Endpoint) => `${method} ${path}`;
const ofProjects = apiEndpoints.filter(({ path }) => /^\/(projects|deployments)\/:id/.test(path));
const withDatabase = (path: string) => path.startsWith("/projects/:id/database");

describe("a suspended project", () => {
  /** A project with something to call every endpoint for. */
  async function aProject(suspended: boolean) {
    const project = await api.newProject(user);
    const artifact = {
      artifact_kind: "image" as const,
      artifact_repository: "svc/x/app",
      artifact_digest: `sha256:${"a".repeat(64)}`,
    };
    const superseded = await api.newDeployment(project, { status: "superseded", ...artifact });
    const running = await api.newDeployment(project, { status: "running", ...artifact });
    const preview = await api.newDeployment(project, { status: "running", channel: "preview", ...artifact });
    await api.db
      .insertInto("channel_state")
      .values([
        { project_id: project.id, channel: "production", deployment_id: running.id },
        { project_id: project.id, channel: "preview", deployment_id: preview.id },
      ])
      .execute();
    const job = await newJob(api.db, { project_id: project.id, deployment_id: running.id });
    if (suspended) expect((await act(project, "suspend")).status).toBe(202);
    return { project, job, deployments: { rollback: superseded, promote: preview, other: preview } };
  }

  const bodies: Record<string, () => unknown> = {
    "POST /projects/:id/deployments": () => formOf({ manifest: manifestOf("ssr", { start: { command: "node x" } }) }),
    "PUT /projects/:id": () => ({ slug: `new-${crypto.randomUUID().slice(0, 8)}` }),
    "PATCH /projects/:id": () => ({ productionBranch: "trunk", password: "a long password" }),
    "PUT /projects/:id/env": () => ({ vars: { GREETING: "hello" } }),
  };

  const call = async ({ method, path }: Endpoint, { suspended }: { suspended: boolean }) => {
    const { project, job, deployments } = await aProject(suspended);
    const { rollback, promote, other } = deployments;
    const deployment = path.endsWith("/rollback") ? rollback : path.endsWith("/promote") ? promote : other;
    const id = path.startsWith("/projects") ? project.id : deployment.id;
    const body = bodies[`${method} ${path}`]?.();
    const named = path.replace(":id", id).replace(":jobId", job.id).replace(/:\w+/g, crypto.randomUUID());
    return api.call(method, named, {
      session: user.session,
      ...(body !== undefined && { body }),
    });
  };

  test.each(ofProjects.filter((each) => refused.has(nameOf(each))).map((each) => [nameOf(each), each] as const))(
    "refuses %s",
    async (_, each) => {
      expect(codeOf(await call(each, { suspended: true }))).toEqual([403, "SUSPENDED"]);
      expect((await call(each, { suspended: false })).body.error?.code).not.toBe("SUSPENDED");
    },
  );

  test("is not live, so that there is nothing to capture", async () => {
    const capture = ofProjects.filter((each) => ofLiveSites.has(nameOf(each)));
    expect(capture).toHaveLength(1);
    for (const each of capture) {
      expect(codeOf(await call(each, { suspended: true }))).toEqual([409, "SCREENSHOT_UNAVAILABLE"]);
      expect((await call(each, { suspended: false })).status).toBe(202);
    }
  });

  test("refuses an image project's deployment", async () => {
    const project = await api.newProject(user, { type: "ociimage" });
    await act(project, "suspend");
    const body = {
      manifest: { version: 2, name: "Shop", type: "ociimage", port: 80, image: { reference: "a.test/b:1" } },
    };
    const answer = await api.call("POST", `/projects/${project.id}/deployments`, { session: user.session, body });
    expect(codeOf(answer)).toEqual([403, "SUSPENDED"]);
  });

  const others = ofProjects.filter(
    (each) => !refused.has(nameOf(each)) && !ofLiveSites.has(nameOf(each)) && !withDatabase(each.path),
  );
  test.each(others.map((each) => [nameOf(each), each] as const))("answers %s as ever", async (_, each) => {
    const answer = await call(each, { suspended: true });
    expect(answer.body.error?.code).not.toBe("SUSPENDED");
    expect(answer.status).toBe((await call(each, { suspended: false })).status);
  });

  test("is refused exactly where the description says so", () => {
    const declared = apiEndpoints.filter(
      ({ path, errors }) => !withDatabase(path) && errors.some((each) => each === "SUSPENDED"),
    );
    expect(declared.map(nameOf).sort()).toEqual([...refused].sort());
  });
});
