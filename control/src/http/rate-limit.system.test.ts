import { sql } from "kysely";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { buildServer } from "../server.ts";
import { type Answer, cookieOf, type TestApi, type TestUser, testApi } from "./testing.ts";

const limit = 10;
const minute = 60_000;
let now = Date.parse("2026-01-01T00:00:00Z");
let api: TestApi;
beforeAll(async () => {
  api = await testApi({ now: () => new Date(now) });
});
afterAll(() => api?.[Symbol.asyncDispose]());

const newUser = () => api.newUser({ plan: { rate_limit_per_minute: limit } });
const codeOf = ({ status, body }: Answer) => [status, body.error?.code];
const me = (user: TestUser) => api.call("GET", "/me", { session: user.session });

async function passed(user: TestUser, times: number): Promise<number> {
  let count = 0;
  for (let at = 0; at < times; at += 1) if ((await me(user)).status === 200) count += 1;
  return count;
}

test("a user has so many requests a minute as the plan says, whatever the credential", async () => {
  const user = await newUser();
  const { key } = await api.newKey(user, { scopes: ["deploy"] });
  expect(await passed(user, limit - 1)).toBe(limit - 1);
  // What may not be done is asked for all the same.
  expect(codeOf(await api.call("GET", "/projects", { key }))).toEqual([403, "FORBIDDEN_SCOPE"]);
  expect(codeOf(await api.call("GET", "/projects", { key }))).toEqual([429, "RATE_LIMITED"]);
  const refused = await me(user);
  expect(codeOf(refused)).toEqual([429, "RATE_LIMITED"]);
  const wait = Number(refused.headers.get("retry-after"));
  now += wait * 1000;
  expect((await me(user)).status).toBe(200);
  now += 2 * minute;
  expect(await passed(user, 3 * limit)).toBe(limit);
});

test("others, and users whose plan sets no limit, are another matter", async () => {
  const [user, other, unlimited] = [await newUser(), await newUser(), await api.newUser()];
  expect(await passed(user, 2 * limit)).toBe(limit);
  expect(await passed(other, 2 * limit)).toBe(limit);
  expect(await passed(unlimited, 3 * limit)).toBe(3 * limit);
});

test("a page elsewhere cannot use up the visitor's requests", async () => {
  const user = await newUser();
  const cookie = cookieOf(api.context.config, user.session);
  for (let count = 0; count < 2 * limit; count += 1) {
    const answer = await api.call("POST", "/tokens", { cookie, headers: { origin: "https://evil.test" }, body: {} });
    expect(codeOf(answer)).toEqual([403, "FORBIDDEN"]);
  }
  expect(await passed(user, limit)).toBe(limit);
});

describe("two replicas", () => {
  let replica: ReturnType<typeof buildServer>;
  beforeAll(() => {
    replica = buildServer(api.context);
  });
  afterAll(() => replica?.close());
  beforeEach(() => {
    now = Math.ceil(now / minute) * minute;
  });

  const atReplica = async (user: TestUser, server = replica) =>
    (await server.inject({ url: "/api/v1/me", headers: { authorization: `Bearer ${user.session}` } })).statusCode;
  /** What all replicas have told of the user, this minute and the one before. */
  const told = async (user: TestUser) => {
    const { rows } = await sql<{ requests: number }>`
      select coalesce(sum(requests), 0)::int as requests from request_window where user_id = ${user.id}`.execute(
      api.db,
    );
    return rows[0]?.requests;
  };

  test("count together, a moment late", async () => {
    const user = await newUser();
    expect(await passed(user, limit - 2)).toBe(limit - 2);
    await expect.poll(() => told(user)).toBe(limit - 2);
    // A replica hears of the others when it tells of its own.
    let count = 0;
    const once = async () => {
      const status = await atReplica(user);
      if (status === 200) count += 1;
      return status;
    };
    expect(await once()).toBe(200);
    await expect.poll(() => told(user)).toBe(limit - 1);
    await expect.poll(once, { interval: 200 }).toBe(429);
    expect(count).toBeLessThan(limit);
    await expect.poll(() => told(user)).toBe(limit - 2 + count);
    // The other one as well, after one request more at most.
    await expect.poll(async () => (await me(user)).status, { interval: 200 }).toBe(429);
  });

  test("know of the minute before, also one that has just come", async () => {
    const user = await newUser();
    expect(await passed(user, limit)).toBe(limit);
    await expect.poll(() => told(user)).toBe(limit);
    now += minute * 1.5;
    const fresh = buildServer(api.context);
    try {
      expect(await atReplica(user, fresh)).toBe(200);
      await expect.poll(() => told(user)).toBe(limit + 1);
      let count = 1;
      const untilRefused = async () => {
        const status = await atReplica(user, fresh);
        if (status === 200) count += 1;
        return status;
      };
      await expect.poll(untilRefused, { interval: 200 }).toBe(429);
      expect(count).toBeLessThan(limit);
    } finally {
      await fresh.close();
    }
  });

  test("go each by itself while they cannot talk", async () => {
    await sql`alter table request_window rename to away`.execute(api.db);
    try {
      const user = await newUser();
      expect(await passed(user, 2 * limit)).toBe(limit);
      let count = 0;
      for (let at = 0; at < 2 * limit; at += 1) if ((await atReplica(user)) === 200) count += 1;
      expect(count).toBe(limit);
    } finally {
      await sql`alter table away rename to request_window`.execute(api.db);
    }
  });

  test("forget what is minutes old", async () => {
    const [old, user] = [await newUser(), await newUser()];
    expect(await passed(old, 1)).toBe(1);
    await expect.poll(() => told(old)).toBe(1);
    now += 10 * minute;
    expect(await passed(user, 1)).toBe(1);
    await expect.poll(() => told(old)).toBe(0);
  });
});
