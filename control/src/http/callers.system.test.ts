import { randomBytes } from "node:crypto";
import { Writable } from "node:stream";
import { systemClock } from "@svc/runtime/system";
import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createLog } from "../log.ts";
import type { Lookup } from "./caller.ts";
import { type Callers, createCallers } from "./callers.ts";
import { cookieOf, type TestApi, testApi } from "./testing.ts";

let api: TestApi;
const lines: string[] = [];
const log = createLog(
  "warn",
  "test",
  new Writable({
    write(line, _encoding, done) {
      lines.push(String(line));
      done();
    },
  }),
);
beforeAll(async () => {
  api = await testApi();
});
afterAll(() => api?.[Symbol.asyncDispose]());

const start = (): Callers =>
  createCallers({ clock: systemClock, databaseUrl: api.context.config.databaseUrl, db: api.db, log });
const key = (secret: string): Lookup => ({ kind: "key", secret, isSigned: false });
const session = (secret: string): Lookup => ({ kind: "session", secret, isSigned: false });
const unknownKey = () => `svc_${randomBytes(36).toString("base64url")}`;

describe("many at once", () => {
  test("each gets their own, of either kind, and strangers nobody", async () => {
    await using callers = start();
    const users = await Promise.all(Array.from({ length: 20 }, () => api.newUser()));
    const keys = await Promise.all(users.map((user) => api.newKey(user)));
    const asked = Array.from({ length: 400 }, (_, at) => {
      const [user, owned] = [users[at % 20], keys[at % 20]];
      if (user === undefined || owned === undefined) throw new Error("no user");
      const expected = at % 3 === 2 ? null : user.id;
      const lookup = [key(owned.key), session(user.session), at % 2 ? key(unknownKey()) : session(`no${at}`)][at % 3];
      if (lookup === undefined) throw new Error("no lookup");
      return { lookup, expected };
    });
    const found = await Promise.all(asked.map(({ lookup }) => callers.find(lookup)));
    expect(found.map((caller) => caller?.userId ?? null)).toEqual(asked.map(({ expected }) => expected));
  });

  test("are asked for in few queries", async () => {
    const user = await api.newUser();
    const { key: owned } = await api.newKey(user);
    const before = await queries();
    const others = await backends();
    {
      await using callers = start();
      await callers.find(key(owned));
      await Promise.all(Array.from({ length: 500 }, () => callers.find(key(owned))));
    }
    // Postgres counts what a connection did when it ends, at the latest.
    await expect.poll(async () => (await backends()).filter((pid) => !others.includes(pid))).toEqual([]);
    expect((await queries()) - before).toBeLessThan(100);
  });

  /** Processes of Postgres that serve lookups: those of the server under test, too. */
  async function backends(): Promise<number[]> {
    const { rows } = await sql<{ pid: number }>`
      select pid from pg_stat_activity where application_name = 'svc-callers' and datname = current_database()`.execute(
      api.db,
    );
    return rows.map(({ pid }) => pid);
  }

  /** Transactions of this database so far; each lookup is one. */
  async function queries(): Promise<number> {
    await sql`select pg_stat_force_next_flush()`.execute(api.db);
    const { rows } = await sql<{ count: number }>`
      select xact_commit::int as count from pg_stat_database where datname = current_database()`.execute(api.db);
    return rows[0]?.count ?? Number.NaN;
  }
});

describe("nothing is remembered", () => {
  test("while others keep asking with it, a revoked key opens nothing once its revocation was answered", async () => {
    const user = await api.newUser();
    const { id, key: owned } = await api.newKey(user);
    let revoked = false;
    const late: number[] = [];
    let early = 0;
    const ask = async () => {
      for (let done = false; !done; ) {
        done = revoked;
        const { status } = await api.call("GET", "/me", { key: owned });
        if (!done) early += status === 200 ? 1 : 0;
        else late.push(status);
      }
    };
    const asking = Array.from({ length: 20 }, ask);
    await expect.poll(() => early).toBeGreaterThan(40);
    expect((await api.call("DELETE", `/tokens/${id}`, { session: user.session })).status).toBe(200);
    revoked = true;
    await Promise.all(asking);
    expect(late).toEqual(Array(20).fill(401));
  });

  test("a ban, its end, a role, a plan and a grant count with the next request", async () => {
    const user = await api.newUser();
    const { id, key: owned } = await api.newKey(user);
    const statuses = async () => [
      (await api.call("GET", "/me", { key: owned })).status,
      (await api.call("GET", "/me", { session: user.session })).status,
      (await api.call("GET", "/me", { cookie: cookieOf(api.context.config, user.session) })).status,
    ];
    const ban = (banned: boolean) =>
      api.db.updateTable("auth.user").set({ banned }).where("id", "=", user.id).execute();
    expect(await statuses()).toEqual([200, 200, 200]);
    await ban(true);
    expect(await statuses()).toEqual([401, 401, 401]);
    await ban(false);
    expect(await statuses()).toEqual([200, 200, 200]);
    expect((await api.call("GET", "/admin/nodes", { key: owned })).status).toBe(403);
    await api.db.updateTable("auth.user").set({ role: "admin" }).where("id", "=", user.id).execute();
    expect((await api.call("GET", "/admin/nodes", { key: owned })).status).toBe(200);
    await api.db.updateTable("api_token").set({ scopes: '["deploy"]' }).where("id", "=", id).execute();
    expect((await api.call("GET", "/admin/nodes", { key: owned })).status).toBe(403);
  });
});

describe("the last use of a key", () => {
  const lastUse = async (id: string) =>
    (await api.db.selectFrom("api_token").select("last_used_at").where("id", "=", id).executeTakeFirstOrThrow())
      .last_used_at;

  test("is noted soon, and not again within a minute", async () => {
    const user = await api.newUser();
    const { id, key: owned } = await api.newKey(user);
    const use = () => api.call("GET", "/me", { key: owned });
    expect(await lastUse(id)).toBeNull();
    await use();
    await expect.poll(() => lastUse(id)).toEqual(expect.any(Date));
    const setTo = async (secondsAgo: number) => {
      const value = new Date(Date.now() - secondsAgo * 1000);
      await api.db.updateTable("api_token").set({ last_used_at: value }).where("id", "=", id).execute();
      return value;
    };
    // Whatever would be noted of the first use is written no later than what is noted of the second key's.
    const recent = await setTo(30);
    await use();
    const other = await api.newKey(user);
    await api.call("GET", "/me", { key: other.key });
    await expect.poll(() => lastUse(other.id)).toEqual(expect.any(Date));
    expect(await lastUse(id)).toEqual(recent);
    const old = await setTo(90);
    await use();
    await expect.poll(() => lastUse(id)).not.toEqual(old);
  });

  test("is noted before a server has stopped", async () => {
    const { id, key: owned } = await api.newKey(await api.newUser());
    {
      await using callers = start();
      await callers.find(key(owned));
    }
    expect(await lastUse(id)).toEqual(expect.any(Date));
  });

  test("keeps nobody waiting: not who holds the key's row, and not who asks meanwhile", async () => {
    const user = await api.newUser();
    const held = await api.newKey(user);
    const free = await api.newKey(user);
    await api.db.transaction().execute(async (tx) => {
      await tx.selectFrom("api_token").select("id").where("id", "=", held.id).forUpdate().execute();
      expect((await api.call("GET", "/me", { key: held.key })).status).toBe(200);
      expect((await api.call("GET", "/me", { key: free.key })).status).toBe(200);
      await expect.poll(() => lastUse(free.id)).toEqual(expect.any(Date));
      expect(await lastUse(held.id)).toBeNull();
    });
    await api.call("GET", "/me", { key: held.key });
    await expect.poll(() => lastUse(held.id)).toEqual(expect.any(Date));
  });

  test("is missing when it cannot be written, and nothing else is", async () => {
    const { key: owned } = await api.newKey(await api.newUser());
    await sql`alter table api_token add constraint refuses check (last_used_at is null) not valid`.execute(api.db);
    try {
      {
        await using callers = start();
        expect(await callers.find(key(owned))).not.toBeNull();
      }
      expect(lines.filter((line) => line.includes("the last use of keys was not noted"))).toHaveLength(1);
      expect(lines.join()).not.toContain(owned);
    } finally {
      await sql`alter table api_token drop constraint refuses`.execute(api.db);
    }
  });
});

describe("when the database is away", () => {
  const stopAll = () =>
    sql`select pg_terminate_backend(pid) from pg_stat_activity
      where application_name = 'svc-callers' and datname = current_database()`.execute(api.db);

  test("who asks is told to come again, and is known when it is back", async () => {
    const user = await api.newUser();
    const ask = async () => (await api.call("GET", "/me", { session: user.session })).status;
    expect(await ask()).toBe(200);
    await sql`alter table auth."session" rename to away`.execute(api.db);
    try {
      expect(await ask()).toBe(500);
    } finally {
      await sql`alter table auth.away rename to "session"`.execute(api.db);
    }
    expect(await ask()).toBe(200);
    await stopAll();
    // A connection that died unnoticed costs the requests that find out; they may be sent again.
    await expect.poll(ask).toBe(200);
  });

  test("a lookup under way that loses its connection ends as unavailable", async () => {
    const user = await api.newUser();
    const locked = Promise.withResolvers<void>();
    const release = Promise.withResolvers<void>();
    const holding = api.db.transaction().execute(async (tx) => {
      await sql`lock table auth."session" in access exclusive mode`.execute(tx);
      locked.resolve();
      await release.promise;
    });
    await locked.promise;
    const asking = api.call("GET", "/me", { session: user.session });
    const waits = async () =>
      (
        await sql`select 1 from pg_stat_activity where application_name = 'svc-callers'
          and datname = current_database() and wait_event_type = 'Lock'`.execute(api.db)
      ).rows.length;
    await expect.poll(waits).toBe(1);
    await stopAll();
    const answer = await asking;
    expect([answer.status, answer.body.error.code]).toEqual([503, "UNAVAILABLE"]);
    expect(Number(answer.headers.get("retry-after"))).toBeGreaterThan(0);
    release.resolve();
    await holding;
    await expect.poll(async () => (await api.call("GET", "/me", { session: user.session })).status).toBe(200);
  });
});
