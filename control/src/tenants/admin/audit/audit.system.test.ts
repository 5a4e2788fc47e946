import { randomBytes, randomUUID } from "node:crypto";
import { limits } from "@svc/proto";
import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { keepHouse } from "../../../housekeeping.ts";
import { recordAudit } from "../../../http/audit.ts";
import { type Answer, type CallOptions, type TestApi, type TestUser, testApi } from "../../../http/testing.ts";
import { createLog } from "../../../log.ts";
import type { Db } from "../../../stores/db/pool.ts";
import { lockWaits } from "../../../stores/db/testing.ts";
import { expireAudit } from "./expire.ts";
import { readAudit } from "./store.ts";

let api: TestApi;
let db: Db;
let admin: TestUser;
beforeAll(async () => {
  api = await testApi();
  db = api.db;
  admin = await api.newUser({ admin: true });
});
afterAll(async () => {
  await api?.[Symbol.asyncDispose]();
});

const codeOf = (answer: Answer) => [answer.status, answer.body.error?.code];
const get = (query = "", options: CallOptions = { session: admin.session }) =>
  api.call("GET", `/admin/audit${query}`, options);

interface Entry {
  id: string;
  at: string;
  action: string;
  target: string | null;
  [field: string]: unknown;
}
async function entries(query: Record<string, string>): Promise<Entry[]> {
  const { status, body } = await get(`?${new URLSearchParams(query)}`);
  expect(status).toBe(200);
  return body.entries;
}

/** A word that is in no other target. */
const newWord = () => randomBytes(6).toString("hex");
const line = (target: string, { action = "test.done", daysAgo = 0 }: { action?: string; daysAgo?: number } = {}) =>
  db
    .insertInto("audit")
    .values({ action, target, detail: "{}", at: sql<Date>`now() - ${daysAgo} * interval '1 day'` as unknown as Date })
    .execute();
const countOf = async (target: string) =>
  (await db.selectFrom("audit").select("id").where("target", "=", target).execute()).length;

describe("the audit log", () => {
  test("is not changed by anybody who writes to the database", async () => {
    const target = newWord();
    await line(target);
    await line(target, { daysAgo: limits.auditKeptDays - 1 });
    const attempts = [
      sql`update audit set action = 'x' where target = ${target}`,
      sql`update audit set action = 'x' where false`,
      sql`delete from audit where target = ${target}`,
      sql`truncate audit`,
      sql`insert into audit (id, action) overriding system value
        select id, 'x' from audit on conflict (id) do update set action = 'x'`,
    ];
    for (const attempt of attempts) await expect(attempt.execute(db)).rejects.toThrow("append-only");
    expect(await db.selectFrom("audit").select("action").where("target", "=", target).execute()).toEqual([
      { action: "test.done" },
      { action: "test.done" },
    ]);
  });

  test("lets go of what it has kept for long enough, the oldest first", async () => {
    const [old, kept] = [newWord(), newWord()];
    await line(old, { daysAgo: limits.auditKeptDays + 1 });
    await line(kept, { daysAgo: limits.auditKeptDays - 1 });
    await line(kept);
    await keepHouse(db, createLog("silent"), { previewIdleDays: 0 } as Parameters<typeof keepHouse>[2]);
    expect([await countOf(old), await countOf(kept)]).toEqual([0, 2]);
    expect(await expireAudit(db)).toBe(0);
  });

  test("outlives whom it tells of, with their address", async () => {
    const user = await api.newUser();
    await api.call("POST", "/projects", { session: user.session, body: { name: "Shop", type: "ssr" } });
    await api.call("DELETE", `/admin/users/${user.id}`, { session: admin.session });
    await db.deleteFrom("project").where("owner_id", "=", user.id).execute();
    await db.deleteFrom("auth.user").where("id", "=", user.id).execute();
    for (const who of [user.id, user.email, user.email.toUpperCase()])
      expect(await entries({ user: who })).toMatchObject([{ action: "project.create", userEmail: user.email }]);
    expect(await entries({ target: user.id })).toMatchObject([
      { action: "user.delete", detail: { email: user.email } },
    ]);
  });

  test("has a line of what nobody did who is known, and of what is known of somebody by id alone", async () => {
    const target = newWord();
    await recordAudit(db, { caller: null, address: "", action: "test.done", target });
    await recordAudit(db, { caller: { userId: admin.id, tokenId: null }, address: "", action: "test.done", target });
    expect(await entries({ target })).toMatchObject([
      { userId: admin.id, userEmail: admin.email, credential: null, requestId: null },
      { userId: null, userEmail: null, credential: null, requestId: null },
    ]);
  });

  test("says of a line from before it told more only what it told then", async () => {
    const target = newWord();
    await sql`insert into audit (user_id, token_id, action, target) values
      (${admin.id}, ${randomUUID()}, 'test.done', ${target})`.execute(db);
    expect(await entries({ user: admin.id, target })).toMatchObject([
      { userId: admin.id, userEmail: null, credential: null, requestId: null },
    ]);
  });
});

describe("GET /admin/audit", () => {
  test("tells who, what, to what, when and from where", async () => {
    const { id: tokenId, key } = await api.newKey(admin);
    const user = await api.newUser();
    await api.call("POST", `/admin/users/${user.id}/role`, { key, body: { role: "admin" } });
    const [entry] = await entries({ target: user.id });
    expect(entry).toEqual({
      id: expect.stringMatching(/^\d+$/),
      at: expect.any(String),
      ...{ userId: admin.id, userEmail: admin.email, credential: "key", tokenId },
      ...{ action: "user.role", target: user.id, address: "127.0.0.1", requestId: expect.any(String) },
      detail: { email: user.email, from: "user", to: "admin" },
    });
    expect(Math.abs(Date.parse(String(entry?.at)) - Date.now())).toBeLessThan(60_000);
  });

  test("is in pages, newest first, that leave nothing out and show nothing twice", async () => {
    const target = newWord();
    // Of one instant, like lines of one transaction.
    await sql`insert into audit (action, target, at) select 'test.' || n, ${target}, now() - (n / 4) * interval '1 microsecond'
      from generate_series(1, 10) as n`.execute(db);
    const seen: string[] = [];
    for (let cursor: string | null = ""; cursor !== null; ) {
      const query: string = `?target=${target}&limit=3${cursor === "" ? "" : `&cursor=${cursor}`}`;
      const { body } = await get(query);
      seen.push(...(body.entries as Entry[]).map(({ action }) => action));
      cursor = body.nextCursor;
      expect(seen.length).toBeLessThanOrEqual(10);
    }
    const { rows } = await sql<{ action: string }>`
      select action from audit where target = ${target} order by at desc, id desc`.execute(db);
    expect(seen).toEqual(rows.map(({ action }) => action));
    expect((await get(`?target=${target}`)).body).toMatchObject({ nextCursor: null });
  });

  test("has fifty without a limit", async () => {
    const target = newWord();
    await sql`insert into audit (action, target) select 'test.many', ${target} from generate_series(1, 60)`.execute(db);
    expect(await entries({ target })).toHaveLength(50);
    expect(await entries({ target, limit: "200" })).toHaveLength(60);
  });

  test("narrows down by who, what, to what and when, all at once", async () => {
    const target = newWord();
    await line(target, { action: "project.delete", daysAgo: 3 });
    await line(target, { action: "project.create", daysAgo: 2 });
    await line(target, { action: "projects.other", daysAgo: 1 });
    await recordAudit(db, { caller: { userId: admin.id, tokenId: null }, address: "", action: "user.ban", target });
    const actions = async (query: Record<string, string>) =>
      (await entries({ target, ...query })).map(({ action }) => action);
    const daysAgo = (days: number) => new Date(Date.now() - days * 86_400_000).toISOString();
    expect(await actions({})).toEqual(["user.ban", "projects.other", "project.create", "project.delete"]);
    expect(await actions({ action: "project." })).toEqual(["project.create", "project.delete"]);
    expect(await actions({ action: "project.delete" })).toEqual(["project.delete"]);
    expect(await actions({ user: admin.id })).toEqual(["user.ban"]);
    expect(await actions({ user: randomUUID() })).toEqual([]);
    expect(await actions({ since: daysAgo(2.5) })).toEqual(["user.ban", "projects.other", "project.create"]);
    expect(await actions({ since: daysAgo(2.5), until: daysAgo(0.5) })).toEqual(["projects.other", "project.create"]);
    expect(await actions({ action: "project", until: daysAgo(2.5) })).toEqual(["project.delete"]);
    const [middle] = await entries({ target, action: "project.create" });
    // The first moment counts, the last one does not.
    const exact = String(
      (
        await sql<{ at: string }>`select to_char(at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at
      from audit where id = ${middle?.id}`.execute(db)
      ).rows[0]?.at,
    );
    expect(await actions({ since: exact, until: daysAgo(1.5) })).toEqual(["project.create"]);
    expect(await actions({ until: exact })).toEqual(["project.delete"]);
  });

  test.each([
    "limit=0",
    "limit=201",
    "limit=x",
    "cursor=",
    "cursor=x",
    `cursor=${Buffer.from("1/x").toString("base64url")}`,
    `cursor=${"a".repeat(513)}`,
    "user=",
    "user=ada",
    "action=",
    "action=%25",
    "action=Project",
    "target=",
    "target=%00",
    `target=${"a".repeat(256)}`,
    "since=yesterday",
    "since=0000-01-01T00:00:00Z",
    "until=0000-12-31T23:59:59Z",
    "limit=0x10",
    "since=2030-01-01",
    "until=2030-01-01T00:00:00%2B02:00",
    "since=2030-01-01T00:00:00Z&since=2030-01-02T00:00:00Z",
    "actor=x",
  ])("?%s is refused", async (query) => {
    expect(codeOf(await get(`?${query}`))).toEqual([422, "VALIDATION"]);
  });

  test.each(["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"])("takes the moment %s", async (at) => {
    expect((await get(`?since=${at}&until=${at}`)).body).toEqual({ ok: true, entries: [], nextCursor: null });
  });

  test("is for administrators with full access", async () => {
    const user = await api.newUser();
    const { key } = await api.newKey(admin, { scopes: ["projects:read"] });
    expect(codeOf(await get("", {}))).toEqual([401, "UNAUTHORIZED"]);
    expect(codeOf(await get("", { session: user.session }))).toEqual([403, "FORBIDDEN"]);
    expect(codeOf(await get("", { key }))).toEqual([403, "FORBIDDEN_SCOPE"]);
  });

  test("finds a few lines among many without reading all of them", async () => {
    const target = newWord();
    await line(target, { daysAgo: 200 });
    await sql`insert into audit (at, user_id, user_email, action, target)
      select now() - n * interval '5 minutes', gen_random_uuid(), 'u' || n || '@svc.test', 'env.read', gen_random_uuid()::text
      from generate_series(1, 100000) as n`.execute(db);
    await recordAudit(db, { caller: null, address: "", action: "rare.action", target });
    await sql`analyze audit`.execute(db);
    for (const query of [
      {},
      { target },
      { action: "rare." },
      { user: admin.id },
      { user: "u5@svc.test" },
      { until: new Date(Date.now() - 300 * 86_400_000).toISOString() },
      { user: randomUUID(), action: "env." },
    ]) {
      const read = await db.transaction().execute(async (tx) => {
        await readAudit(tx, { limit: 50, ...query });
        return linesRead(tx);
      });
      expect({ query, read: read < 500 }).toEqual({ query, read: true });
    }
  });
});

/** Lines that this transaction has looked at, by an index or one after another. */
async function linesRead(tx: Db): Promise<number> {
  const { rows } = await sql<{ read: number }>`
    select seq_tup_read + coalesce(idx_tup_fetch, 0) as read from pg_stat_xact_user_tables
    where relname = 'audit'`.execute(tx);
  return rows[0]?.read ?? 0;
}

describe("refused administration", () => {
  const refusals = (user: TestUser) => entries({ user: user.id, action: "admin." });

  test("is told of once per user and hour, with what was tried", async () => {
    const user = await api.newUser();
    const { key, id } = await api.newKey(user);
    const nobody = randomUUID();
    expect(codeOf(await api.call("POST", `/admin/users/${nobody}/ban`, { key }))).toEqual([403, "FORBIDDEN"]);
    for (const path of ["/admin/users", "/admin/audit", "/admin/nodes"])
      expect(codeOf(await api.call("GET", path, { session: user.session }))).toEqual([403, "FORBIDDEN"]);
    expect(await refusals(user)).toEqual([
      {
        id: expect.any(String),
        at: expect.any(String),
        ...{ userId: user.id, userEmail: user.email, credential: "key", tokenId: id },
        ...{ action: "admin.refused", target: null, address: "127.0.0.1", requestId: expect.any(String) },
        detail: { route: "POST /admin/users/:id/ban" },
      },
    ]);
  });

  test("is told of once, however many are refused at once", async () => {
    const user = await api.newUser();
    let answers: Promise<Answer>[] = [];
    await db.transaction().execute(async (tx) => {
      // All of them have looked before the first one writes.
      await sql`lock table audit in share mode`.execute(tx);
      answers = Array.from({ length: 4 }, () => api.call("GET", "/admin/users", { session: user.session }));
      await expect.poll(() => lockWaits(db)).toBe(answers.length);
    });
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual(Array(4).fill(403));
    expect(await refusals(user)).toHaveLength(1);
  });

  test("of an administrator's limited key is told of as well", async () => {
    const other = await api.newUser({ admin: true });
    const { key } = await api.newKey(other, { scopes: ["projects:write"] });
    await api.call("DELETE", `/admin/users/${admin.id}`, { key });
    expect(await refusals(other)).toMatchObject([{ detail: { route: "DELETE /admin/users/:id" } }]);
  });

  test("is not told of for strangers, nor for what is not administration", async () => {
    const user = await api.newUser();
    const { key } = await api.newKey(user, { scopes: ["projects:read"] });
    const { rows } = await sql<{ count: number }>`select count(*) as count from audit`.execute(db);
    await api.call("GET", "/admin/users");
    await api.call("GET", "/admin/users", { key: "svc_wrong" });
    await api.call("POST", "/projects", { key, body: { name: "x", type: "ssr" } });
    expect((await sql<{ count: number }>`select count(*) as count from audit`.execute(db)).rows).toEqual(rows);
  });
});
