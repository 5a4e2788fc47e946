import { randomBytes, randomUUID } from "node:crypto";
import { sql } from "kysely";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type Answer, type TestApi, type TestUser, testApi } from "../../../http/testing.ts";

let api: TestApi;
let admin: TestUser;
let owner: TestUser;
beforeAll(async () => {
  api = await testApi();
  admin = await api.newUser({ admin: true });
  owner = await api.newUser();
});
afterAll(async () => {
  await api?.[Symbol.asyncDispose]();
});
afterEach(() => api.db.deleteFrom("work_item").execute());

const codeOf = (answer: Answer) => [answer.status, answer.body.error?.code];
const as = (user: TestUser) => ({ session: user.session });
interface Listed {
  id: string;
  slug: string;
  [field: string]: unknown;
}
async function listed(query = ""): Promise<{ projects: Listed[]; nextCursor: string | null }> {
  const answer = await api.call("GET", `/admin/projects${query}`, as(admin));
  expect(answer.status).toBe(200);
  return answer.body;
}
const listedProject = async (id: string) => (await listed()).projects.find((project) => project.id === id);
const visits = (projectId: string, channel: string, hoursAgo: number, requests: number) =>
  sql`insert into traffic_hour (project_id, channel, hour, requests)
    values (${projectId}, ${channel}, date_trunc('hour', now()) - ${hoursAgo} * interval '1 hour', ${requests})`.execute(
    api.db,
  );

describe("GET /admin/projects", () => {
  test("tells of everybody's projects what their owners see, whose they are, and how they fare", async () => {
    const project = await api.newProject(owner, { type: "static" });
    expect(await listedProject(project.id)).toEqual({
      ...{ id: project.id, name: "Shop", slug: project.slug, type: "static", framework: null },
      url: `http://${project.slug}.svc.localhost:8080`,
      ...{ repoUrl: null, repoId: null, deployMode: "auto", status: null },
      ...{ suspendedAt: null, suspendReason: null, passwordProtected: false },
      ...{ createdAt: expect.any(String), updatedAt: expect.any(String) },
      ...{ ownerId: owner.id, ownerEmail: owner.email, requests30d: 0 },
    });
    await api.newDeployment(project, { status: "running" });
    await api.newDeployment(project, { status: "failed", channel: "preview" });
    await visits(project.id, "production", 1, 3);
    // Within the 30 days also when an hour ends meanwhile.
    await visits(project.id, "dev", 718, 4);
    await visits(project.id, "production", 722, 1_000);
    await api.db
      .updateTable("project")
      .set({ suspended_at: new Date(), suspend_reason: "admin", password_hash: "x" })
      .where("id", "=", project.id)
      .execute();
    const { text } = await api.call("GET", "/admin/projects", as(admin));
    expect(text).not.toContain("password_hash");
    expect(await listedProject(project.id)).toMatchObject({
      status: "failed",
      suspendedAt: expect.any(String),
      suspendReason: "admin",
      passwordProtected: true,
      requests30d: 7,
    });
  });

  test("leaves out what is being deleted", async () => {
    const project = await api.newProject(owner);
    await api.call("DELETE", `/projects/${project.id}`, as(owner));
    expect(await listedProject(project.id)).toBeUndefined();
  });

  test("comes in pages, newest first, and looks for a slug, a name or an owner", async () => {
    const word = randomBytes(4).toString("hex");
    await sql`insert into project (owner_id, name, slug, type, created_at)
      select ${owner.id}, 'Paged', ${word} || '-' || n, 'ssr', timestamptz '2030-01-01' + (n / 4) * interval '1 microsecond'
      from generate_series(1, 7) as n`.execute(api.db);
    const seen: string[] = [];
    for (let cursor: string | null = ""; cursor !== null; ) {
      const query: string = `?q=${word.toUpperCase()}&limit=3${cursor === "" ? "" : `&cursor=${cursor}`}`;
      const page = await listed(query);
      seen.push(...page.projects.map(({ slug }) => slug));
      cursor = page.nextCursor;
      expect(seen.length).toBeLessThanOrEqual(7);
    }
    const { rows } = await sql<{ slug: string }>`
      select slug from project where slug like ${`${word}%`} order by created_at desc, id desc`.execute(api.db);
    expect(seen).toEqual(rows.map(({ slug }) => slug));
    expect((await listed(`?q=paged`)).projects).toHaveLength(7);
    expect((await listed(`?q=${owner.email}`)).projects.every(({ ownerId }) => ownerId === owner.id)).toBe(true);
  });

  test.each(["limit=0", "cursor=x", "q=", "owner=1"])("?%s is refused", async (query) => {
    expect(codeOf(await api.call("GET", `/admin/projects?${query}`, as(admin)))).toEqual([422, "VALIDATION"]);
  });
});

describe("DELETE /admin/projects/:id", () => {
  const remove = (id: string, by: TestUser = admin) => api.call("DELETE", `/admin/projects/${id}`, as(by));
  const teardowns = () =>
    api.db.selectFrom("work_item").select(["key", "payload"]).where("kind", "=", "teardown").execute();

  test("deletes anybody's project the way its owner would", async () => {
    const [theirs, byOwner] = [await api.newProject(owner), await api.newProject(owner)];
    const answer = await remove(theirs.id);
    expect([answer.status, answer.body]).toEqual([200, { ok: true, id: theirs.id }]);
    await api.call("DELETE", `/projects/${byOwner.id}`, as(owner));
    const torn = [theirs, byOwner].map(({ id, slug }) => ({
      key: id,
      payload: { projectId: id, hosts: [`${slug}.svc.localhost`] },
    }));
    expect(await teardowns()).toEqual(torn);
    expect(codeOf(await api.call("GET", `/projects/${theirs.id}`, as(owner)))).toEqual([404, "NOT_FOUND"]);
  });

  test("deletes a suspended one too", async () => {
    const project = await api.newProject(owner);
    await api.db
      .updateTable("project")
      .set({ suspended_at: new Date(), suspend_reason: "quota" })
      .where("id", "=", project.id)
      .execute();
    expect((await remove(project.id)).status).toBe(200);
  });

  test("asked for by administrator and owner at once, is done once", async () => {
    const project = await api.newProject(owner);
    const answers = await Promise.all([
      remove(project.id),
      api.call("DELETE", `/projects/${project.id}`, as(owner)),
      remove(project.id),
    ]);
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 404, 404]);
    expect(await teardowns()).toHaveLength(1);
    expect(codeOf(await remove(project.id))).toEqual([404, "NOT_FOUND"]);
  });

  test("is for administrators, and for projects that are there", async () => {
    const project = await api.newProject(owner);
    expect(codeOf(await remove(project.id, owner))).toEqual([403, "FORBIDDEN"]);
    const { key } = await api.newKey(admin, { scopes: ["projects:write"] });
    expect(codeOf(await api.call("DELETE", `/admin/projects/${project.id}`, { key }))).toEqual([
      403,
      "FORBIDDEN_SCOPE",
    ]);
    expect(codeOf(await remove(randomUUID()))).toEqual([404, "NOT_FOUND"]);
    expect(codeOf(await remove("x"))).toEqual([404, "NOT_FOUND"]);
    expect((await api.call("GET", `/projects/${project.id}`, as(owner))).status).toBe(200);
  });
});

test("GET /admin/databases is a list, for administrators", async () => {
  const answer = await api.call("GET", "/admin/databases", as(admin));
  expect([answer.status, answer.body]).toEqual([200, { ok: true, databases: [] }]);
  expect(codeOf(await api.call("GET", "/admin/databases", as(owner)))).toEqual([403, "FORBIDDEN"]);
});
