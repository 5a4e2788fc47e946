import { randomBytes, randomUUID } from "node:crypto";
import { sql } from "kysely";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type Answer, type TestApi, type TestUser, testApi } from "../../../http/testing.ts";
import { lockUser } from "../../../identity/accounts/store.ts";
import { createLog } from "../../../log.ts";
import type { Db } from "../../../stores/db/pool.ts";
import { type ClaimedWork, finishWork } from "../../../stores/work/queue.ts";
import { claimWork } from "../../../stores/work/testing/claim.ts";
import type { WorkHandler } from "../../../stores/work/worker.ts";
import type { Teardown } from "../../projects/teardown/request.ts";
import { deleteRows } from "../../projects/teardown/worker.ts";
import { deleteUserKind } from "./deletion/request.ts";
import { deleteUserWorker } from "./deletion/worker.ts";

const log = createLog("silent");
const never = new AbortController().signal;
const password = "correct horse battery";

let api: TestApi;
let db: Db;
let admin: TestUser;
let work: WorkHandler;
beforeAll(async () => {
  api = await testApi();
  db = api.db;
  admin = await api.newUser({ admin: true });
  work = deleteUserWorker({ db, registry: api.context.registry, log, graceMs: 0 });
});
afterAll(async () => {
  await api?.[Symbol.asyncDispose]();
});
afterEach(() => db.deleteFrom("work_item").execute());

const codeOf = (answer: Answer) => [answer.status, answer.body.error?.code];
const remove = (id: string, by: TestUser = admin) => api.call("DELETE", `/admin/users/${id}`, { session: by.session });
const newEmail = () => `${randomBytes(6).toString("hex")}@svc.test`;
const identity = (path: string, body: object) => api.request("POST", `/api/auth${path}`, { body });

/** An account that was made and signed in to by its address and password. */
async function signUp(email = newEmail()): Promise<TestUser> {
  expect((await identity("/sign-up/email", { name: "Ada", email, password })).status).toBe(200);
  const { body } = await identity("/sign-in/email", { email, password });
  const session = body.token as string;
  expect((await api.call("GET", "/me", { session })).body.user.id).toBe(body.user.id);
  return { id: body.user.id, email, session };
}

const rowOf = (id: string) => db.selectFrom("auth.user").select("email").where("id", "=", id).executeTakeFirst();
const projectsOf = (id: string) =>
  db.selectFrom("project").select(["id", "deleting_at"]).where("owner_id", "=", id).orderBy("id").execute();
const queued = async (kind: string) =>
  (await db.selectFrom("work_item").select("payload").where("kind", "=", kind).where("state", "=", "queued").execute())
    .map(({ payload }) => payload)
    .toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));

const queuedTeardowns = async () =>
  (await queued("teardown")).map((payload) => (payload as Teardown).projectId).toSorted();

async function claimed(kind = deleteUserKind): Promise<ClaimedWork> {
  await db.updateTable("work_item").set({ run_at: sql<Date>`now()` }).where("state", "=", "queued").execute();
  const item = await claimWork(db, { kinds: [kind], owner: "test", leaseMs: 60_000 });
  if (item === null) throw new Error(`no ${kind} to do`);
  return item;
}

/** One round, as the queue has it done. */
async function round(): Promise<"done" | "waits"> {
  const item = await claimed();
  const outcome = await work(item, never);
  await finishWork(db, item, "test", outcome);
  return "state" in outcome && outcome.state === "done" ? "done" : "waits";
}

/** As the teardown does once nothing of the project is left on edges, on nodes and in the registry. */
async function finishTeardown(projectId: string): Promise<void> {
  await db.transaction().execute((tx) => deleteRows(tx, projectId));
}

describe("DELETE /admin/users/:id", () => {
  test("leaves nobody who can act as the user, by whatever they had", async () => {
    const user = await signUp();
    const { key } = await api.newKey(user);
    const reset = await identity("/request-password-reset", { email: user.email });
    expect(reset.status).toBe(200);
    const mail = (await api.mails()).findLast(({ to, text }) => to === user.email && text.includes("reset-password"));
    const resetToken = new URL(/http\S+/.exec(mail?.text ?? "")?.[0] ?? "http://x").searchParams.get("token");

    const answer = await remove(user.id);
    expect([answer.status, answer.body]).toEqual([200, { ok: true, id: user.id }]);
    expect(codeOf(await api.call("GET", "/me", { key }))).toEqual([401, "UNAUTHORIZED"]);
    expect(codeOf(await api.call("GET", "/me", { session: user.session }))).toEqual([401, "UNAUTHORIZED"]);
    expect((await identity("/sign-in/email", { email: user.email, password })).status).toBe(401);
    expect((await identity("/reset-password", { newPassword: password, token: resetToken })).status).toBe(400);
    expect((await identity("/sign-in/email", { email: user.email, password })).status).toBe(401);
    // A session that was being made while the deletion was.
    const late = randomBytes(24).toString("hex");
    await sql`insert into auth."session" (token, "userId", "expiresAt", "updatedAt")
      values (${late}, ${user.id}, now() + interval '1 day', now())`.execute(db);
    expect(codeOf(await api.call("GET", "/me", { session: late }))).toEqual([401, "UNAUTHORIZED"]);
  });

  test("takes the user from every list, and nothing can be done to them any more", async () => {
    const user = await api.newUser();
    await remove(user.id);
    const session = admin.session;
    const { body } = await api.call("GET", "/admin/users", { session });
    expect(body.users.map(({ id }: { id: string }) => id)).not.toContain(user.id);
    expect(codeOf(await remove(user.id))).toEqual([404, "NOT_FOUND"]);
    for (const [action, sent] of [
      ["ban", {}],
      ["unban", {}],
      ["role", { role: "admin" }],
      ["plan", { plan: "standard" }],
    ] as const) {
      const answer = await api.call("POST", `/admin/users/${user.id}/${action}`, { session, body: sent });
      expect(codeOf(answer)).toEqual([404, "NOT_FOUND"]);
    }
  });

  test("frees the address at once for an account that has nothing of the old one", async () => {
    const user = await signUp();
    await api.newProject(user);
    await remove(user.id);
    const again = await signUp(user.email);
    expect(again.id).not.toBe(user.id);
    expect((await api.call("GET", "/projects", { session: again.session })).body.projects).toEqual([]);
    while ((await round()) !== "done") for (const { id } of await projectsOf(user.id)) await finishTeardown(id);
    expect((await api.call("GET", "/me", { session: again.session })).status).toBe(200);
  });

  test("takes their projects away, and frees the slugs for anybody, before it answers", async () => {
    const user = await api.newUser();
    const projects = [await api.newProject(user), await api.newProject(user)];
    const other = await api.newUser();
    const take = (slug: string) =>
      api.call("POST", "/projects", { session: other.session, body: { name: "Shop", slug, type: "ssr" } });
    const { slug } = projects[0] ?? { slug: "" };
    expect(codeOf(await take(slug))).toEqual([409, "SLUG_CONFLICT"]);
    await remove(user.id);
    expect((await projectsOf(user.id)).filter(({ deleting_at }) => deleting_at === null)).toEqual([]);
    const torn = projects.map(({ id }) => id).toSorted();
    expect(await queuedTeardowns()).toEqual(torn);
    expect((await take(slug)).status).toBe(201);
    expect((await api.call("GET", "/admin/projects", { session: admin.session })).text).not.toContain(torn[0]);
  });

  test("asked for by two at once, is done once", async () => {
    const user = await api.newUser();
    const other = await api.newUser({ admin: true });
    const answers = await Promise.all([remove(user.id), remove(user.id, other), remove(user.id)]);
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 404, 404]);
    expect(await queued(deleteUserKind)).toEqual([{ userId: user.id }]);
  });

  test("turns away a request that was let in before it", async () => {
    const user = await api.newUser();
    await remove(user.id);
    const late = db.transaction().execute((tx) => lockUser(tx, user.id));
    await expect(late).rejects.toMatchObject({ code: "UNAUTHORIZED" });
    await round();
    await expect(db.transaction().execute((tx) => lockUser(tx, user.id))).rejects.toMatchObject({
      code: "UNAUTHORIZED",
    });
  });

  test("is not kept from anybody by an account under the name that is left of them", async () => {
    const user = await api.newUser();
    const name = "Eve";
    expect((await identity("/sign-up/email", { name, email: `${user.id}@deleted.invalid`, password })).body.code).toBe(
      "INVALID_EMAIL",
    );
    // One that was made before such addresses were refused.
    await sql`insert into auth."user" (name, email, "emailVerified")
      values (${name}, ${`${user.id}@deleted.invalid`}, true)`.execute(db);
    expect((await remove(user.id)).status).toBe(200);
    const { email } = (await rowOf(user.id)) ?? { email: "" };
    expect(email).toMatch(new RegExp(`^${user.id}\\.[0-9a-f]{32}@deleted\\.invalid$`));
    const other = await api.newUser();
    await remove(other.id);
    expect((await rowOf(other.id))?.email.split(".")[1]).not.toBe(email.split(".")[1]);
  });

  test("of nobody is refused", async () => {
    expect(codeOf(await remove(randomUUID()))).toEqual([404, "NOT_FOUND"]);
    expect(codeOf(await remove("x"))).toEqual([404, "NOT_FOUND"]);
  });

  test("of an administrator by another one works, and leaves the other", async () => {
    const other = await api.newUser({ admin: true });
    expect((await remove(other.id)).status).toBe(200);
    expect(codeOf(await api.call("GET", "/admin/stats", { session: other.session }))).toEqual([401, "UNAUTHORIZED"]);
  });
});

describe("the work of a deletion", () => {
  test("tears every project down like its owner would, waits for the last one, and then deletes the user", async () => {
    const user = await api.newUser({ plan: {} });
    const kept = await api.newProject(await api.newUser());
    const projects = [await api.newProject(user), await api.newProject(user)].map(({ id }) => id).toSorted();
    await api.call("DELETE", `/projects/${projects[0]}`, { session: user.session });
    await remove(user.id);
    expect(await round()).toBe("waits");
    expect(await queuedTeardowns()).toEqual(projects);
    expect((await projectsOf(user.id)).every(({ deleting_at }) => deleting_at !== null)).toBe(true);

    expect(await round()).toBe("waits");
    expect(await queuedTeardowns()).toHaveLength(2);
    await finishTeardown(projects[0] ?? "");
    expect(await round()).toBe("waits");
    expect(await rowOf(user.id)).toBeDefined();
    await finishTeardown(projects[1] ?? "");
    expect(await round()).toBe("done");
    expect(await rowOf(user.id)).toBeUndefined();
    expect((await projectsOf(kept.owner_id)).map(({ deleting_at }) => deleting_at)).toEqual([null]);
  });

  test("cut off anywhere, is done again without harm", async () => {
    const user = await api.newUser();
    const project = await api.newProject(user);
    await remove(user.id);
    const first = await claimed();
    await work(first, never);
    // The outcome was never stored: another worker has the item once the lease is over.
    await db.updateTable("work_item").set({ state: "queued" }).where("id", "=", first.id).execute();
    expect(await round()).toBe("waits");
    expect(await queuedTeardowns()).toEqual([project.id]);
    await finishTeardown(project.id);
    const last = await claimed();
    expect(await work(last, never)).toEqual({ state: "done" });
    expect(await work(last, never)).toEqual({ state: "done" });
    expect(await rowOf(user.id)).toBeUndefined();
  });

  test("takes also a project that was being created meanwhile", async () => {
    const user = await api.newUser();
    await remove(user.id);
    const late = await api.newProject(user);
    expect(await round()).toBe("waits");
    expect(await queuedTeardowns()).toEqual([late.id]);
  });

  test("takes more projects than fit into one transaction", async () => {
    const user = await api.newUser();
    await sql`insert into project (owner_id, name, slug, type)
      select ${user.id}, 'P', 'many-' || n || '-' || substr(${user.id}, 1, 8), 'ssr' from generate_series(1, 120) as n`.execute(
      db,
    );
    await remove(user.id);
    expect(await round()).toBe("waits");
    expect(await queuedTeardowns()).toHaveLength(120);
    await db.deleteFrom("project").where("owner_id", "=", user.id).execute();
    expect(await round()).toBe("done");
  });

  test("leaves the row for as long as a request that was let in before may take", async () => {
    const user = await api.newUser();
    await remove(user.id);
    const patient = deleteUserWorker({ db, registry: api.context.registry, log });
    const item = await claimed();
    expect(await patient({ ...item, ageMs: 0 }, never)).toMatchObject({ retryAfterMs: 60_000, refund: true });
    expect(await rowOf(user.id)).toBeDefined();
    expect(await patient({ ...item, ageMs: 60_000 }, never)).toEqual({ state: "done" });
    expect(await rowOf(user.id)).toBeUndefined();
  });

  test("leaves nothing that names the user but the audit log", async () => {
    const user = await api.newUser({ plan: {} });
    await api.newKey(user);
    const created = await api.call("POST", "/projects", {
      session: user.session,
      body: { name: "Shop", type: "ssr" },
      headers: { "idempotency-key": "once" },
    });
    const project = created.body.project.id as string;
    await sql`insert into traffic_month (user_id, month, requests) values (${user.id}, '2030-01-01', 5)`.execute(db);
    await sql`insert into auth."deviceCode" ("deviceCode", "userCode", "userId", "expiresAt", status)
      values (${user.id}, ${user.id.slice(0, 8)}, ${user.id}, now() + interval '1 day', 'approved')`.execute(db);
    await remove(user.id);
    await round();
    await finishTeardown(project);
    expect(await round()).toBe("done");
    await db.deleteFrom("work_item").execute();
    expect(await tablesNaming(user.id)).toEqual(["public.audit"]);
  });

  test("no table keeps a user from being deleted", async () => {
    const { rows } = await sql<{ name: string }>`
      select conrelid::regclass::text as name from pg_constraint
      where contype = 'f' and confrelid = 'auth."user"'::regclass and confdeltype not in ('c', 'n')`.execute(db);
    // Projects go before their owner.
    expect(rows.map(({ name }) => name)).toEqual(["project"]);
  });
});

/** Tables of which a row has the id in any column. */
async function tablesNaming(id: string): Promise<string[]> {
  const { rows: tables } = await sql<{ name: string }>`
    select format('%I.%I', table_schema, table_name) as name from information_schema.tables
    where table_schema in ('public', 'auth') and table_type = 'BASE TABLE' order by 1`.execute(db);
  const naming = [];
  for (const { name } of tables) {
    const { rows } = await sql<{ count: number }>`
      select count(*) as count from ${sql.raw(name)} as t where to_jsonb(t)::text like ${`%${id}%`}`.execute(db);
    if ((rows[0]?.count ?? 0) > 0) naming.push(name);
  }
  return naming;
}
