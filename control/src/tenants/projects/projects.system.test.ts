import { verify } from "@node-rs/bcrypt";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type TestApi, type TestUser, testApi } from "../../http/testing.ts";

let api: TestApi;
let user: TestUser;
beforeAll(async () => {
  api = await testApi();
});
afterAll(async () => {
  await api[Symbol.asyncDispose]();
});

let count = 0;
const newSlug = () => {
  count += 1;
  return `shop-${count}-x`;
};
const create = (body: object, session = user.session, headers: Record<string, string> = {}) =>
  api.call("POST", "/projects", { session, body, headers });
const codeOf = (answer: { status: number; body: { error?: { code: string } } }) => [
  answer.status,
  answer.body.error?.code,
];
const work = (key: string) =>
  api.db.selectFrom("work_item").select(["kind", "payload"]).where("key", "=", key).execute();

beforeAll(async () => {
  user = await api.newUser();
});

describe("creating", () => {
  test("answers with the little that is new", async () => {
    const slug = newSlug();
    const answer = await create({ name: "My Shop", slug, type: "static" });
    expect(answer.status).toBe(201);
    expect(answer.body).toEqual({
      ok: true,
      project: {
        id: expect.stringMatching(/^[0-9a-f-]{36}$/),
        name: "My Shop",
        slug,
        url: `http://${slug}.svc.localhost:8080`,
        type: "static",
        createdAt: expect.stringMatching(/Z$/),
        updatedAt: expect.stringMatching(/Z$/),
      },
    });
    const host = await api.db
      .selectFrom("site_host")
      .select(["host", "project_id", "channel", "pr_number"])
      .where("project_id", "=", answer.body.project.id)
      .execute();
    expect(host).toEqual([
      { host: `${slug}.svc.localhost`, project_id: answer.body.project.id, channel: "production", pr_number: null },
    ]);
  });

  test("makes a slug from the name, and another when that is taken", async () => {
    const first = await create({ name: "Café au Lait", type: "ssr" });
    const second = await create({ name: "Café au Lait", slug: "auto", type: "ssr" });
    expect(first.body.project.slug).toBe("cafe-au-lait");
    expect(second.body.project.slug).toMatch(/^cafe-au-lait-[a-z0-9]{5}$/);
  });

  test.each([
    { what: "a short slug", body: { name: "Shop", slug: "ab", type: "ssr" } },
    { what: "a long slug", body: { name: "Shop", slug: "a".repeat(31), type: "ssr" } },
    { what: "a slug with a hyphen at its end", body: { name: "Shop", slug: "shop-", type: "ssr" } },
    { what: "an upper-case slug", body: { name: "Shop", slug: "Shop", type: "ssr" } },
    { what: "a Cyrillic slug", body: { name: "Shop", slug: "\u0430pp", type: "ssr" } },
    { what: "the reserved prefix dev-", body: { name: "Shop", slug: "dev-shop", type: "ssr" } },
    { what: "the reserved prefix preview-", body: { name: "Shop", slug: "preview-shop", type: "ssr" } },
    { what: "the preview host of a pull request", body: { name: "Shop", slug: "shop--7", type: "ssr" } },
    { what: "a reserved slug", body: { name: "Shop", slug: "www", type: "ssr" } },
    { what: "punycode", body: { name: "Shop", slug: "xn--shop", type: "ssr" } },
    { what: "no name", body: { type: "ssr" } },
    { what: "an empty name", body: { name: "", type: "ssr" } },
    { what: "a name of many lines", body: { name: "a\nb", type: "ssr" } },
    { what: "a very long name", body: { name: "a".repeat(10_000), type: "ssr" } },
    { what: "an unknown type", body: { name: "Shop", type: "SSR" } },
    { what: "no type", body: { name: "Shop", type: null } },
    { what: "an unknown key", body: { name: "Shop", type: "ssr", ownerId: "x" } },
  ])("$what is refused", async ({ body }) => {
    expect(codeOf(await create(body))).toEqual([422, "VALIDATION"]);
  });

  test("a slug belongs to one project, however many ask at once", async () => {
    const slug = newSlug();
    const users = await Promise.all(Array.from({ length: 6 }, () => api.newUser()));
    const answers = await Promise.all(users.map(({ session }) => create({ name: "Shop", slug, type: "ssr" }, session)));
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 409, 409, 409, 409, 409]);
    expect(answers.find(({ status }) => status === 409)?.body.error.code).toBe("SLUG_CONFLICT");
  });

  test("the plan's number of projects holds, however many are asked for at once", async () => {
    const { session } = await api.newUser({ plan: { max_projects: 2 } });
    const answers = await Promise.all(Array.from({ length: 8 }, () => create({ name: "Shop", type: "ssr" }, session)));
    expect(answers.map(codeOf).sort()).toEqual([
      [201, undefined],
      [201, undefined],
      ...Array(6).fill([403, "QUOTA_EXCEEDED"]),
    ]);
  });

  test("a plan of one project says so in the singular", async () => {
    const { session } = await api.newUser({ plan: { max_projects: 1 } });
    await create({ name: "Shop", type: "ssr" }, session);
    const { body } = await create({ name: "Shop", type: "ssr" }, session);
    expect(body.error.message).toBe("The plan allows 1 project.");
  });

  test("images need a plan with images", async () => {
    const { session } = await api.newUser({ plan: { max_image_mb: 0 } });
    expect(codeOf(await create({ name: "Shop", type: "ociimage" }, session))).toEqual([
      403,
      "PLAN_FEATURE_UNAVAILABLE",
    ]);
  });

  test("a key that is limited to projects creates none", async () => {
    const project = await api.newProject(user);
    const { key } = await api.newKey(user, { scopes: ["projects:write"], projectIds: [project.id] });
    expect(codeOf(await api.call("POST", "/projects", { key, body: { name: "Shop", type: "ssr" } }))).toEqual([
      403,
      "FORBIDDEN_SCOPE",
    ]);
  });

  test("a repeated request with one Idempotency-Key creates one project, also at once", async () => {
    const headers = { "idempotency-key": "create-1" };
    const body = { name: "Once", type: "ssr" };
    const answers = await Promise.all([1, 2, 3].map(() => create(body, user.session, headers)));
    expect(answers.map(({ status }) => status)).toEqual([201, 201, 201]);
    expect(new Set(answers.map((answer) => answer.body.project.id)).size).toBe(1);
    expect(codeOf(await create({ ...body, name: "Other" }, user.session, headers))).toEqual([
      409,
      "IDEMPOTENCY_CONFLICT",
    ]);
    const { session } = await api.newUser();
    expect((await create(body, session, headers)).status).toBe(201);
  });

  test("a refused request does not use up its Idempotency-Key", async () => {
    const slug = newSlug();
    const taken = await api.newProject(await api.newUser(), { slug });
    const headers = { "idempotency-key": "create-2" };
    expect((await create({ name: "Shop", slug, type: "ssr" }, user.session, headers)).status).toBe(409);
    await api.db.deleteFrom("project").where("id", "=", taken.id).execute();
    expect((await create({ name: "Shop", slug, type: "ssr" }, user.session, headers)).status).toBe(201);
  });
});

describe("listing", () => {
  test("shows one's own, newest first, with the status of the newest deployment", async () => {
    const owner = await api.newUser();
    const first = await api.newProject(owner, { name: "First" });
    const second = await api.newProject(owner, { name: "Second" });
    await api.newDeployment(first, { status: "running" });
    await api.newDeployment(first, { status: "failed", channel: "preview" });
    const { body } = await api.call("GET", "/projects", { session: owner.session });
    expect(body.projects.map(({ name, status }: { name: string; status: string }) => [name, status])).toEqual([
      ["Second", null],
      ["First", "failed"],
    ]);
    expect(body.projects[1]).toEqual({
      id: first.id,
      name: "First",
      slug: first.slug,
      type: "ssr",
      url: `http://${first.slug}.svc.localhost:8080`,
      framework: null,
      repoUrl: null,
      repoId: null,
      deployMode: "auto",
      status: "failed",
      crashing: null,
      suspendedAt: null,
      suspendReason: null,
      passwordProtected: false,
      createdAt: first.created_at.toISOString(),
      updatedAt: first.updated_at.toISOString(),
    });
    const { key } = await api.newKey(owner, { projectIds: [second.id] });
    const limited = await api.call("GET", "/projects", { key });
    expect(limited.body.projects.map(({ id }: { id: string }) => id)).toEqual([second.id]);
    await api.db.updateTable("project").set({ deleting_at: new Date() }).where("id", "=", second.id).execute();
    expect((await api.call("GET", "/projects", { key })).body.projects).toEqual([]);
  });
});

describe("one project", () => {
  test("comes with its ten newest production and three newest dev deployments", async () => {
    const project = await api.newProject(user);
    for (let index = 0; index < 12; index += 1) await api.newDeployment(project, { trigger: `p${index}` });
    for (let index = 0; index < 5; index += 1)
      await api.newDeployment(project, { channel: "dev", trigger: `d${index}` });
    await api.newDeployment(project, { channel: "preview", trigger: "preview" });
    const { body, status } = await api.call("GET", `/projects/${project.id}`, { session: user.session });
    expect(status).toBe(200);
    expect(body.project).toMatchObject({ id: project.id, productionBranch: "main" });
    expect(body.project).not.toHaveProperty("status");
    expect(body.deployments.map(({ trigger }: { trigger: string }) => trigger)).toEqual([
      "d4",
      "d3",
      "d2",
      "p11",
      "p10",
      "p9",
      "p8",
      "p7",
      "p6",
      "p5",
      "p4",
      "p3",
      "p2",
    ]);
  });

  test("of another user, of no user, and outside of the key's list are all the same answer", async () => {
    const mine = await api.newProject(user);
    const other = await api.newProject(user);
    const foreign = await api.newProject(await api.newUser());
    const { key } = await api.newKey(user, { projectIds: [mine.id] });
    expect((await api.call("GET", `/projects/${mine.id}`, { key })).status).toBe(200);
    const missing = (await api.call("GET", "/projects/11111111-2222-4333-8444-555555555555", { key })).text;
    for (const id of [other.id, foreign.id]) {
      for (const [method, path, body] of [
        ["GET", "", undefined],
        ["PATCH", "", { deployMode: "auto" }],
        ["DELETE", "", undefined],
        ["GET", "/env", undefined],
        ["PUT", "/env", { vars: {} }],
        ["GET", "/deployments", undefined],
        ["GET", "/runtime-logs", undefined],
        ["POST", "/stop", undefined],
        ["POST", "/start", undefined],
        ["POST", "/deployments", {}],
      ] as const) {
        const answer = await api.call(method, `/projects/${id}${path}`, { key, ...(body && { body }) });
        expect([answer.status, answer.text], `${method} ${path}`).toEqual([404, missing]);
      }
    }
  });
});

describe("changing", () => {
  const patch = (id: string, body: unknown) => api.call("PATCH", `/projects/${id}`, { session: user.session, body });

  test("takes every field, alone or together", async () => {
    const project = await api.newProject(user);
    const changed = await patch(project.id, {
      repoUrl: "https://git.test/ada/shop",
      repoId: "42",
      productionBranch: "release/1",
      deployMode: "preview",
    });
    expect(changed.status).toBe(200);
    expect(changed.body.project).toMatchObject({
      repoUrl: "https://git.test/ada/shop",
      repoId: "42",
      productionBranch: "release/1",
      deployMode: "preview",
      passwordProtected: false,
    });
    expect(changed.body.project.updatedAt > project.updated_at.toISOString()).toBe(true);
    const unlinked = await patch(project.id, { repoUrl: null, repoId: null });
    expect(unlinked.body.project).toMatchObject({ repoUrl: null, repoId: null, deployMode: "preview" });
  });

  test("a password is kept as a hash, protects the site and is never told", async () => {
    const project = await api.newProject(user);
    const secret = `${"é".repeat(35)}xy`;
    const { body, text } = await patch(project.id, { password: secret });
    expect(body.project.passwordProtected).toBe(true);
    expect(text).not.toContain("$2");
    const stored = await api.db
      .selectFrom("project")
      .select("password_hash")
      .where("id", "=", project.id)
      .executeTakeFirstOrThrow();
    expect(await verify(secret, stored.password_hash ?? "")).toBe(true);
    expect((await patch(project.id, { password: null })).body.project.passwordProtected).toBe(false);
    const audit = await api.db.selectFrom("audit").select("detail").where("target", "=", project.id).execute();
    expect(JSON.stringify(audit)).not.toContain(secret);
  });

  test.each([
    { what: "nothing", body: {} },
    { what: "an unknown field", body: { slug: "other" } },
    { what: "an empty password", body: { password: "" } },
    { what: "a password of 73 bytes", body: { password: "a".repeat(73) } },
    { what: "a password of 37 two-byte characters", body: { password: "é".repeat(37) } },
    { what: "an empty branch", body: { productionBranch: "" } },
    { what: "a branch of 256 characters", body: { productionBranch: "a".repeat(256) } },
    { what: "a branch that is an option", body: { productionBranch: "-o" } },
    { what: "an unknown deploy mode", body: { deployMode: "prod" } },
    { what: "a repository on the disk", body: { repoUrl: "file:///etc" } },
    { what: "a repository that runs a command", body: { repoUrl: "ext::sh -c id" } },
  ])("$what is refused", async ({ body }) => {
    const project = await api.newProject(user);
    expect(codeOf(await patch(project.id, body))).toEqual([422, "VALIDATION"]);
  });
});

describe("deleting", () => {
  test("takes the project away at once and queues the rest", async () => {
    const project = await api.newProject(user);
    const { body, status } = await api.call("DELETE", `/projects/${project.id}`, { session: user.session });
    expect([status, body]).toEqual([200, { ok: true, id: project.id }]);
    expect(await work(project.id)).toEqual([
      { kind: "teardown", payload: { projectId: project.id, hosts: [`${project.slug}.svc.localhost`] } },
    ]);
    expect((await api.call("GET", `/projects/${project.id}`, { session: user.session })).status).toBe(404);
    expect((await api.call("DELETE", `/projects/${project.id}`, { session: user.session })).status).toBe(404);
  });

  test("frees the slug at once, also one that the project was being renamed to, for anybody", async () => {
    const [slug, next, other] = [newSlug(), newSlug(), await api.newUser()];
    const take = (by: TestUser, wanted: string) => create({ name: "Shop", slug: wanted, type: "ssr" }, by.session);
    const { id } = (await take(user, slug)).body.project;
    const renamed = await api.call("PUT", `/projects/${id}`, { session: user.session, body: { slug: next } });
    expect(renamed.status).toBe(202);
    for (const wanted of [slug, next]) expect(codeOf(await take(other, wanted))).toEqual([409, "SLUG_CONFLICT"]);
    await api.call("DELETE", `/projects/${id}`, { session: user.session });
    for (const wanted of [slug, next]) expect((await take(other, wanted)).status).toBe(201);
  });
});

test("changes leave a line in the audit log, with who and what", async () => {
  const { id, key } = await api.newKey(user, { scopes: ["projects:write"] });
  const { body } = await api.call("POST", "/projects", { key, body: { name: "Audited", type: "ssr" } });
  const lines = await api.db.selectFrom("audit").selectAll().where("target", "=", body.project.id).execute();
  expect(lines).toEqual([
    expect.objectContaining({
      action: "project.create",
      user_id: user.id,
      token_id: id,
      address: "127.0.0.1",
      detail: { slug: "audited", type: "ssr" },
    }),
  ]);
});
