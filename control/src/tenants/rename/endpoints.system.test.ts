import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Answer, type TestApi, type TestUser, testApi } from "../../http/testing.ts";
import type { Project } from "../../stores/db/tables.ts";
import { claimHost } from "../hosts/hosts.ts";

let api: TestApi;
let user: TestUser;
beforeAll(async () => {
  api = await testApi();
  user = await api.newUser();
});
afterAll(() => api[Symbol.asyncDispose]());

let count = 0;
const newSlug = () => {
  count += 1;
  return `store-${count}-x`;
};
const rename = (id: string, body: unknown, session = user.session) =>
  api.call("PUT", `/projects/${id}`, { session, body });
const create = (slug: string, session: string) =>
  api.call("POST", "/projects", { session, body: { name: "Shop", type: "ssr", slug } });
const codeOf = ({ status, body }: Answer) => [status, body.error?.code];

const hostsOf = async (project: Project) =>
  (await api.db.selectFrom("site_host").selectAll().where("project_id", "=", project.id).orderBy("host").execute()).map(
    ({ host, redirect_to }) => [host, redirect_to],
  );
const queued = (project: Project) =>
  api.db.selectFrom("work_item").select(["id", "payload"]).where("key", "=", `rename/${project.id}`).execute();
const reload = (project: Project) =>
  api.db.selectFrom("project").selectAll().where("id", "=", project.id).executeTakeFirstOrThrow();
/** As the worker leaves it while an edge has not followed: the old host does not redirect yet. */
async function flip(project: Project, slug: string): Promise<void> {
  const { slug: old } = await reload(project);
  await api.db
    .updateTable("site_host")
    .set({ slug: sql<string>`coalesce(slug, ${old})`, for_next_slug: false, redirected_until: null })
    .where("project_id", "=", project.id)
    .execute();
  await api.db.updateTable("project").set({ slug, next_slug: null }).where("id", "=", project.id).execute();
}
/** As the worker leaves it once every edge has followed. */
async function finish(project: Project, slug: string): Promise<void> {
  const { slug: old } = await reload(project);
  await flip(project, slug);
  await api.db
    .updateTable("site_host")
    .set({ redirect_to: `${slug}.svc.localhost`, redirect_until: new Date(Date.now() + 60_000) })
    .where("project_id", "=", project.id)
    .where(({ eb, or }) => or([eb("host", "=", `${old}.svc.localhost`), eb("redirect_to", "is not", null)]))
    .execute();
}

test("is queued, and holds the new name at once while the old one goes on", async () => {
  const project = await api.newProject(user);
  const slug = newSlug();
  const answer = await rename(project.id, { slug });
  expect([answer.status, answer.body]).toEqual([202, { ok: true, queued: true, newSlug: slug }]);
  expect(await hostsOf(project)).toEqual([
    [`${project.slug}.svc.localhost`, null],
    [`${slug}.svc.localhost`, null],
  ]);
  const { body } = await api.call("GET", `/projects/${project.id}`, { session: user.session });
  expect(body.project).toMatchObject({ slug: project.slug, url: `http://${project.slug}.svc.localhost:8080` });
  expect(await queued(project)).toEqual([{ id: expect.anything(), payload: { projectId: project.id } }]);
});

test("leaves a line in the audit log", async () => {
  const { id, key } = await api.newKey(user, { scopes: ["projects:write"] });
  const project = await api.newProject(user);
  const slug = newSlug();
  expect((await api.call("PUT", `/projects/${project.id}`, { key, body: { slug } })).status).toBe(202);
  const lines = await api.db.selectFrom("audit").selectAll().where("target", "=", project.id).execute();
  expect(lines).toEqual([
    expect.objectContaining({
      action: "project.rename",
      user_id: user.id,
      token_id: id,
      detail: { from: project.slug, to: slug },
    }),
  ]);
});

test("asked again while it is queued, gives the same answer and no second work", async () => {
  const project = await api.newProject(user);
  const slug = newSlug();
  const answers = [await rename(project.id, { slug }), await rename(project.id, { slug })];
  expect(answers.map(({ status, text }) => [status, text])).toEqual(Array(2).fill([202, answers[0]?.text]));
  expect(await queued(project)).toHaveLength(1);
  const lines = await api.db.selectFrom("audit").select("id").where("target", "=", project.id).execute();
  expect(lines).toHaveLength(1);
});

test("asked again while it is being worked on, leaves work for after it", async () => {
  const project = await api.newProject(user);
  await rename(project.id, { slug: newSlug() });
  await api.db.updateTable("work_item").set({ state: "running" }).where("key", "=", `rename/${project.id}`).execute();
  await rename(project.id, { slug: newSlug() });
  expect(await queued(project)).toHaveLength(2);
});

test.each([
  { what: "nothing", body: {} },
  { what: "another field", body: { slug: "fine-slug", name: "Shop" } },
  { what: "no text", body: { slug: 7 } },
  { what: "two characters", body: { slug: "ab" } },
  { what: "31 characters", body: { slug: "a".repeat(31) } },
  { what: "capitals", body: { slug: "Shop" } },
  { what: "a dot", body: { slug: "my.shop" } },
  { what: "a hyphen at the end", body: { slug: "shop-" } },
  { what: "a name of the platform", body: { slug: "registry" } },
  { what: "a reserved prefix", body: { slug: "preview-shop" } },
  { what: "another reserved prefix", body: { slug: "dev-shop" } },
  { what: "the preview host of a pull request", body: { slug: "shop--7" } },
  { what: "a reserved slug", body: { slug: "postmaster" } },
  { what: "an encoded name", body: { slug: "xn--shp-1na" } },
])("refuses $what as a slug", async ({ body }) => {
  const project = await api.newProject(user);
  expect(codeOf(await rename(project.id, body))).toEqual([422, "VALIDATION"]);
  expect(await queued(project)).toEqual([]);
});

test("refuses the slug that the project has", async () => {
  const project = await api.newProject(user);
  const answer = await rename(project.id, { slug: project.slug });
  expect(codeOf(answer)).toEqual([422, "VALIDATION"]);
  expect(answer.body.error.message).toContain(project.slug);
});

test("refuses a suspended project", async () => {
  const project = await api.newProject(user);
  await api.db.updateTable("project").set({ suspended_at: new Date() }).where("id", "=", project.id).execute();
  expect(codeOf(await rename(project.id, { slug: newSlug() }))).toEqual([403, "SUSPENDED"]);
  await api.db.updateTable("project").set({ suspend_reason: "quota" }).where("id", "=", project.id).execute();
  const byQuota = await rename(project.id, { slug: newSlug() });
  expect(byQuota.body.error.message).toContain("comes back next month");
});

test("knows only the caller's own projects", async () => {
  const foreign = await api.newProject(await api.newUser());
  const project = await api.newProject(user);
  const { key } = await api.newKey(user, { projectIds: [project.id] });
  const other = await api.newProject(user);
  for (const id of [foreign.id, other.id, "11111111-2222-4333-8444-555555555555"]) {
    expect(codeOf(await api.call("PUT", `/projects/${id}`, { key, body: { slug: newSlug() } }))).toEqual([
      404,
      "NOT_FOUND",
    ]);
  }
  expect((await api.call("PUT", `/projects/${project.id}`, { key, body: { slug: newSlug() } })).status).toBe(202);
});

describe("a slug that is taken", () => {
  test("by another project, its rename, or its redirect is refused", async () => {
    const owner = await api.newUser();
    const holder = await api.newProject(owner);
    const project = await api.newProject(user);
    const [next, last] = [newSlug(), newSlug()];
    const { session } = await api.newUser();
    const refused = async (slug: string) => {
      expect(codeOf(await rename(project.id, { slug })), slug).toEqual([409, "SLUG_CONFLICT"]);
      expect(codeOf(await create(slug, session)), slug).toEqual([409, "SLUG_CONFLICT"]);
    };
    await refused(holder.slug);
    expect((await rename(holder.id, { slug: next }, owner.session)).status).toBe(202);
    await refused(holder.slug);
    await refused(next);
    await finish(holder, next);
    await refused(holder.slug);
    await refused(next);
    expect((await rename(holder.id, { slug: last }, owner.session)).status).toBe(202);
    await refused(holder.slug);
    expect(await queued(project)).toEqual([]);
    expect((await reload(project)).next_slug).toBeNull();
  });

  test("is free as soon as its project is being deleted", async () => {
    const leaving = await api.newProject(user);
    const project = await api.newProject(user);
    expect(codeOf(await rename(project.id, { slug: leaving.slug }))).toEqual([409, "SLUG_CONFLICT"]);
    await api.call("DELETE", `/projects/${leaving.id}`, { session: user.session });
    expect((await rename(project.id, { slug: leaving.slug })).status).toBe(202);
  });

  test("goes to one of several renames and creations at once", async () => {
    const slug = newSlug();
    const users = await Promise.all(Array.from({ length: 6 }, () => api.newUser()));
    const projects = await Promise.all(users.map((each) => api.newProject(each)));
    const answers = await Promise.all(
      users.flatMap(({ session }, index) => [
        rename(projects[index]?.id ?? "", { slug }, session),
        create(slug, session),
      ]),
    );
    const won = answers.filter(({ status }) => status < 300);
    expect(won).toHaveLength(1);
    expect(answers.filter((answer) => !won.includes(answer)).map(codeOf)).toEqual(
      Array(11).fill([409, "SLUG_CONFLICT"]),
    );
    const holders = await api.db
      .selectFrom("site_host")
      .selectAll()
      .where("host", "=", `${slug}.svc.localhost`)
      .execute();
    expect(holders).toHaveLength(1);
  });
});

describe("another rename of the same project", () => {
  test("takes over from one that is queued, whose name is anybody's at once", async () => {
    const project = await api.newProject(user);
    const [second, third] = [newSlug(), newSlug()];
    await rename(project.id, { slug: second });
    expect((await rename(project.id, { slug: third })).body.newSlug).toBe(third);
    expect((await reload(project)).next_slug).toBe(third);
    expect(await hostsOf(project)).toEqual([project.slug, third].sort().map((slug) => [`${slug}.svc.localhost`, null]));
    const stranger = await api.newUser();
    expect((await create(second, stranger.session)).status).toBe(201);
  });

  test("to the present slug takes a queued one back, whose name is anybody's at once", async () => {
    const project = await api.newProject(user);
    const given = newSlug();
    await rename(project.id, { slug: given });
    expect((await rename(project.id, { slug: project.slug })).status).toBe(202);
    expect(await reload(project)).toMatchObject({ slug: project.slug, next_slug: project.slug });
    expect(await hostsOf(project)).toEqual([[`${project.slug}.svc.localhost`, null]]);
    const stranger = await api.newUser();
    expect((await create(given, stranger.session)).status).toBe(201);
  });

  test("over and over holds no more names than one", async () => {
    const project = await api.newProject(user);
    for (let count = 0; count < 20; count += 1)
      expect((await rename(project.id, { slug: newSlug() })).status).toBe(202);
    expect(await hostsOf(project)).toHaveLength(2);
  });

  test("takes over from one to a slug that redirects, which redirects again until the same moment", async () => {
    const project = await api.newProject(user);
    const [second, third] = [newSlug(), newSlug()];
    await rename(project.id, { slug: second });
    await finish(project, second);
    const former = () =>
      api.db
        .selectFrom("site_host")
        .selectAll()
        .where("host", "=", `${project.slug}.svc.localhost`)
        .executeTakeFirstOrThrow();
    const before = await former();
    expect(before.redirect_until).not.toBeNull();
    for (const slug of [project.slug, third, project.slug, second]) {
      expect((await rename(project.id, { slug })).status, slug).toBe(202);
      if (slug === project.slug) expect((await former()).redirect_to).toBeNull();
      else expect(await former()).toEqual(before);
    }
  });

  test("takes over from one to a slug that still serves after a rename, which goes on serving", async () => {
    const project = await api.newProject(user);
    const [second, third] = [newSlug(), newSlug()];
    await rename(project.id, { slug: second });
    await flip(project, second);
    await rename(project.id, { slug: project.slug });
    await rename(project.id, { slug: third });
    expect(await hostsOf(project)).toEqual(
      [project.slug, second, third].sort().map((slug) => [`${slug}.svc.localhost`, null]),
    );
  });

  test("gives a deployment whose only address goes the one of the slug that comes instead", async () => {
    const project = await api.newProject(user);
    const [second, third] = [newSlug(), newSlug()];
    await rename(project.id, { slug: second });
    const host = await api.db
      .transaction()
      .execute(async (tx) =>
        claimHost(tx, await reload(project), { channel: "preview", prNumber: 1 }, "svc.localhost"),
      );
    const pull = await api.newDeployment(project, {
      channel: "preview",
      pr_number: 1,
      status: "queued",
      url: `http://${host}:8080`,
    });
    expect(host).toBe(`preview-${second}--1.svc.localhost`);
    const urlNow = async () =>
      (await api.db.selectFrom("deployment").select("url").where("id", "=", pull.id).executeTakeFirstOrThrow()).url;
    for (const slug of [third, project.slug]) {
      await rename(project.id, { slug });
      expect(await urlNow()).toBe(`http://preview-${slug}--1.svc.localhost:8080`);
      expect((await hostsOf(project)).map(([each]) => each)).toEqual(
        [
          ...new Set([`${project.slug}.svc.localhost`, `${slug}.svc.localhost`, `preview-${slug}--1.svc.localhost`]),
        ].sort(),
      );
    }
  });

  test("back to the old slug turns its redirect into a serving host at once", async () => {
    const project = await api.newProject(user);
    const slug = newSlug();
    await rename(project.id, { slug });
    await finish(project, slug);
    expect(await hostsOf(project)).toContainEqual([`${project.slug}.svc.localhost`, `${slug}.svc.localhost`]);
    expect((await rename(project.id, { slug: project.slug })).status).toBe(202);
    expect(await hostsOf(project)).toEqual([
      [`${project.slug}.svc.localhost`, null],
      [`${slug}.svc.localhost`, null],
    ]);
  });
});

test("refuses a sixth slug beside five that still lead to the project, and goes back to one of these", async () => {
  const project = await api.newProject(user);
  const slugs = [project.slug, ...Array.from({ length: 5 }, newSlug)];
  for (const slug of slugs.slice(1)) {
    expect((await rename(project.id, { slug })).status, slug).toBe(202);
    await finish(project, slug);
  }
  await api.db
    .updateTable("site_host")
    .set({ redirect_until: new Date("2040-01-02T03:04:05Z") })
    .where("host", "=", `${project.slug}.svc.localhost`)
    .execute();
  await api.db
    .updateTable("site_host")
    .set({ redirect_until: new Date("2050-01-02T03:04:05Z") })
    .where("project_id", "=", project.id)
    .where("redirect_to", "is not", null)
    .where("host", "!=", `${project.slug}.svc.localhost`)
    .execute();
  const before = await hostsOf(project);
  const sixth = newSlug();
  const answer = await rename(project.id, { slug: sixth });
  expect(codeOf(answer)).toEqual([403, "QUOTA_EXCEEDED"]);
  expect(answer.body.error.message).toContain("2040-01-02T03:04:05.000Z");
  expect(await hostsOf(project)).toEqual(before);
  expect((await rename(project.id, { slug: slugs[2] })).status).toBe(202);
  // What it refuses leaves the one that is under way.
  expect(codeOf(await rename(project.id, { slug: sixth }))).toEqual([403, "QUOTA_EXCEEDED"]);
  expect((await reload(project)).next_slug).toBe(slugs[2]);
  await api.db
    .updateTable("site_host")
    .set({ redirect_until: new Date(Date.now() - 1_000) })
    .where("host", "=", `${project.slug}.svc.localhost`)
    .execute();
  expect((await rename(project.id, { slug: sixth })).status).toBe(202);
});

describe("a deployment that is accepted while the rename is queued", () => {
  const claim = (project: Project, prNumber: number) =>
    api.db.transaction().execute((tx) => claimHost(tx, project, { channel: "preview", prNumber }, "svc.localhost"));

  test("keeps the address that its channel has", async () => {
    const project = await api.newProject(user);
    const before = await claim(project, 1);
    await rename(project.id, { slug: newSlug() });
    expect(await claim(await reload(project), 1)).toBe(before);
  });

  test("gets only a new one when its channel has none yet", async () => {
    const project = await api.newProject(user);
    const slug = newSlug();
    await rename(project.id, { slug });
    expect(await claim(await reload(project), 1)).toBe(`preview-${slug}--1.svc.localhost`);
    expect((await hostsOf(project)).map(([host]) => host)).not.toContain(`preview-${project.slug}--1.svc.localhost`);
  });
});
