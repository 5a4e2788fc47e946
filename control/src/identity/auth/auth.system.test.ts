import { randomBytes } from "node:crypto";
import { systemClock } from "@svc/runtime/system";
import { getMigrations } from "better-auth/db/migration";
import { sql } from "kysely";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { findCaller } from "../../http/caller.ts";
import { presentedCredential } from "../../http/credentials.ts";
import { signInCookieName } from "../../http/sign-in-cookie.ts";
import { type TestApi, testApi } from "../../http/testing.ts";
import { linkIn, mailTo } from "../pages/testing.ts";
import { createAdmin, InvalidAccount } from "./admin.ts";
import { createAuth } from "./auth.ts";
import { deleteExpired } from "./expire.ts";

let api: TestApi;
beforeAll(async () => {
  api = await testApi();
});
afterAll(async () => {
  await api[Symbol.asyncDispose]();
});

const password = "correct horse battery";
const newEmail = () => `${randomBytes(6).toString("hex")}@svc.test`;
const auth = (path: string, body: object, headers: Record<string, string> = {}) =>
  api.request("POST", `/api/auth${path}`, { body, headers });
/** A new account, and the token of its first session. */
async function signUp(email = newEmail()) {
  expect((await auth("/sign-up/email", { name: "Ada", email, password })).status).toBe(200);
  return { email, session: (await signIn(email)).body.token as string };
}
const signIn = (email: string, tried = password) => auth("/sign-in/email", { email, password: tried });
const cookieOf = (headers: Headers) =>
  headers
    .getSetCookie()
    .find((cookie) => cookie.includes("session_token="))
    ?.split(";", 1)[0] ?? "";

test("the frozen tables are the ones that better-auth wants", async () => {
  await using own = createAuth({
    clock: systemClock,
    config: api.context.config,
    db: api.db,
    log: api.context.log,
    mailer: null,
  });
  const { toBeCreated, toBeAdded } = await getMigrations(own.options);
  expect({ toBeCreated, toBeAdded }).toEqual({ toBeCreated: [], toBeAdded: [] });
});

describe("signing up and in", () => {
  test("a new account gets a mail whose link confirms the address", async () => {
    const { email, session } = await signUp();
    expect((await api.call("GET", "/account", { session })).body).toEqual({
      ok: true,
      hasPassword: true,
      emailVerified: false,
      linkedProviders: [],
    });
    const link = linkIn(await mailTo(api, email));
    expect(link.origin).toBe(api.url);

    const token = link.searchParams.get("token") ?? "";
    const verified = await api.request("GET", `/api/auth/verify-email?token=${encodeURIComponent(token)}`, { session });
    expect(verified.status).toBe(200);
    expect((await api.call("GET", "/account", { session })).body.emailVerified).toBe(true);
  });

  test("the session works as cookie, as token, and as the signed token of the reply header", async () => {
    const { email } = await signUp();
    const { headers, body } = await signIn(email);
    const carriers = [
      { cookie: cookieOf(headers) },
      { session: body.token as string },
      { session: headers.get("set-auth-token") ?? "" },
    ];
    for (const carrier of carriers) {
      const me = await api.call("GET", "/me", carrier);
      expect(me.status).toBe(200);
      expect(me.body).toEqual({
        ok: true,
        user: { id: expect.any(String), email, name: "Ada", plan: "standard" },
        scopes: null,
        projectIds: null,
      });
    }
  });

  test("the cookie is for this host alone and out of reach of scripts", async () => {
    const { email } = await signUp();
    const [cookie] = (await signIn(email)).headers.getSetCookie();
    expect(cookie).toMatch(/^svc\.session_token=/);
    expect(cookie).toMatch(/HttpOnly/i);
    expect(cookie).toMatch(/SameSite=Lax/i);
    expect(cookie).toMatch(/Path=\//i);
    expect(cookie).not.toMatch(/Domain=/i);
  });

  test("over TLS the cookie cannot be set by a sibling host", async () => {
    const config = { ...api.context.config, apiUrl: "https://control.svc.test" };
    await using own = createAuth({
      clock: systemClock,
      config,
      db: api.db,
      log: api.context.log,
      mailer: { send: async () => {}, close: () => {} },
    });
    const post = (path: string, body: object) =>
      own.handler(
        new Request(`https://control.svc.test/api/auth${path}`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify(body),
        }),
      );
    const email = newEmail();
    await post("/sign-up/email", { name: "Ada", email, password });
    const response = await post("/sign-in/email", { email, password });
    const [cookie] = response.headers.getSetCookie();
    expect(cookie).toMatch(/^__Host-svc\.session_token=/);
    expect(cookie).toMatch(/; Secure/i);
    expect(cookie).not.toMatch(/Domain=/i);
    const carried = { apiUrl: config.apiUrl, cookie: cookie?.split(";", 1)[0] ?? "" };
    const credential = presentedCredential({ cookie: carried.cookie }, signInCookieName(carried.apiUrl));
    expect(typeof credential === "object" && (await findCaller(api.db, credential, config.authSecret))).toMatchObject({
      kind: "session",
    });
  });

  test("a cookie with a changed signature is nobody's", async () => {
    const { email } = await signUp();
    const cookie = cookieOf((await signIn(email)).headers);
    for (const forged of [
      // Its first character: not every bit of the last one counts.
      cookie.replace(/\.([^.])([^.]*)$/, (_, first, rest) => `.${first === "x" ? "y" : "x"}${rest}`),
      cookie.replace(/\.[^.]*$/, ""),
      cookie.replace("token=", "token=x"),
    ]) {
      expect((await api.call("GET", "/me", { cookie: forged })).status).toBe(401);
    }
  });

  test("signing out ends the session, by cookie and by token", async () => {
    const { email } = await signUp();
    const byToken = (await signIn(email)).body.token as string;
    expect((await api.request("POST", "/api/auth/sign-out", { session: byToken, body: {} })).status).toBe(200);
    expect((await api.call("GET", "/me", { session: byToken })).status).toBe(401);

    const cookie = cookieOf((await signIn(email)).headers);
    await api.request("POST", "/api/auth/sign-out", { cookie, body: {}, headers: { origin: api.url } });
    expect((await api.call("GET", "/me", { cookie })).status).toBe(401);
  });

  test("a wrong password is refused", async () => {
    const { email } = await signUp();
    expect((await signIn(email, "wrong password")).status).toBe(401);
  });

  test("nobody makes themselves an administrator at sign-up", async () => {
    const email = newEmail();
    await auth("/sign-up/email", { name: "Eve", email, password, role: "admin", emailVerified: true, banned: false });
    const user = await api.db
      .selectFrom("auth.user")
      .select(["role", "emailVerified"])
      .where("email", "=", email)
      .executeTakeFirst();
    expect(user ?? { role: "user", emailVerified: false }).toEqual({ role: "user", emailVerified: false });
  });

  test("a forgotten password is replaced through the mailbox, and old sessions end", async () => {
    const { email, session } = await signUp();
    await auth("/request-password-reset", { email });
    const token = linkIn(await mailTo(api, email, 2)).searchParams.get("token");
    expect((await auth("/reset-password", { token, newPassword: "another good one" })).status).toBe(200);
    expect((await api.call("GET", "/me", { session })).status).toBe(401);
    expect((await signIn(email, "another good one")).status).toBe(200);
    expect((await auth("/reset-password", { token, newPassword: "a third one here" })).status).toBe(400);
  });
});

describe("the name of a new account", () => {
  beforeEach(() => sql`delete from auth."rateLimit"`.execute(api.db));

  test.each([
    { what: "nothing", name: "" },
    { what: "blanks", name: " \t\u00a0" },
    { what: "60,000 characters", name: "x".repeat(60_000) },
    { what: "101 characters", name: "x".repeat(101) },
    { what: "two lines", name: "Ada\nLovelace" },
    { what: "an escape", name: "Ada\u001b[31m" },
    { what: "a mark that turns text around", name: "Ada\u202e" },
    { what: "a list", name: ["Ada"] },
    { what: "none at all", name: undefined },
  ])("is refused with a sentence when it is $what", async ({ name }) => {
    const email = newEmail();
    const { status, body } = await auth("/sign-up/email", { name, email, password });
    expect([status, body.code]).toEqual([400, "INVALID_NAME"]);
    expect(body.message).toMatch(/^A name /);
    expect(await api.db.selectFrom("auth.user").select("id").where("email", "=", email).execute()).toEqual([]);
  });

  test("is kept as it was typed", async () => {
    const [email, name] = [newEmail(), `${"\u{1f600}".repeat(99)}!`];
    expect((await auth("/sign-up/email", { name, email, password })).body.user.name).toBe(name);
    const { session } = { session: (await signIn(email)).body.token as string };
    expect((await api.call("GET", "/me", { session })).body.user.name).toBe(name);
  });
});

test("text that the database does not take is refused wherever it comes", async () => {
  const email = newEmail();
  await signUp(email);
  const { session } = await api.newUser();
  const answers = [
    await auth("/sign-up/email", { name: "A\0", email: newEmail(), password }),
    await auth("/sign-in/email", { email, password: "\ud800" }),
    await auth("/device/token", {
      grant_type: "urn:ietf:params:oauth:grant-type:device_code",
      device_code: "\0",
      client_id: "svc-cli",
    }),
    await api.request("GET", "/api/auth/device?user_code=%00", { session }),
    await api.request("GET", "/api/auth/verify-email?token=%00"),
  ];
  expect(answers.map(({ status, body }) => [status, body.error?.code])).toEqual(
    Array(answers.length).fill([400, "BAD_REQUEST"]),
  );
});

describe("what a signed-in page can learn of sessions", () => {
  beforeEach(() => sql`delete from auth."rateLimit"`.execute(api.db));

  /** Two sessions of one account, as the browser and the API client that have them. */
  async function two() {
    const { email, session } = await signUp();
    return { email, session, cookie: cookieOf((await signIn(email)).headers) };
  }
  const read = (path: string, carrier: object) => api.request("GET", `/api/auth${path}`, carrier);
  const revoke = (body: object, carrier: object) =>
    api.request("POST", "/api/auth/revoke-session", { body, ...carrier, headers: { origin: api.url } });
  const isIn = async (carrier: object) => (await api.call("GET", "/me", carrier)).status === 200;

  test("is who, until when and from where, and no token", async () => {
    const { email, session, cookie } = await two();
    // Old enough that looking at it makes it last longer, which sets the cookie anew.
    await sql`update auth."session" set "updatedAt" = now() - interval '2 days', "expiresAt" = now() + interval '5 days'`.execute(
      api.db,
    );
    for (const carrier of [{ cookie }, { session }]) {
      const current = await read("/get-session", carrier);
      expect(current.body).toMatchObject({ user: { email }, session: { id: expect.any(String) } });
      const all = await read("/list-sessions", carrier);
      expect(all.body).toHaveLength(2);
      expect(all.body[0]).toMatchObject({ id: expect.any(String), expiresAt: expect.any(String) });
      for (const { text, headers } of [current, all]) {
        expect(text).not.toMatch(/token|impersonatedBy/i);
        expect(text).not.toContain(session);
        expect(headers.get("set-auth-token")).toBe(null);
      }
    }
    expect((await read("/get-session", {})).text).toBe("null");
    expect((await read("/list-sessions", {})).status).toBe(401);
  });

  test("is enough to end one of them by its id, and nobody else's", async () => {
    const { session, cookie } = await two();
    const { id } = (await read("/get-session", { session })).body.session;
    const stranger = await two();
    expect((await revoke({ id }, { cookie: stranger.cookie })).status).toBe(200);
    expect((await revoke({ token: session }, { cookie })).status).toBe(400);
    for (const other of ["x", crypto.randomUUID(), null, { $ne: null }])
      expect((await revoke({ id: other }, { cookie })).status).toBe(200);
    expect([await isIn({ session }), await isIn({ cookie })]).toEqual([true, true]);
    expect((await revoke({ id: id.toUpperCase() }, { cookie })).body).toEqual({ status: true });
    expect([await isIn({ session }), await isIn({ cookie })]).toEqual([false, true]);
    expect((await revoke({ id }, {})).status).toBe(401);
  });

  test("all others, and all, are ended as ever", async () => {
    const { email, session, cookie } = await two();
    const end = (path: string) =>
      api.request("POST", `/api/auth${path}`, { body: {}, cookie, headers: { origin: api.url } });
    expect((await end("/revoke-other-sessions")).status).toBe(200);
    expect([await isIn({ session }), await isIn({ cookie })]).toEqual([false, true]);
    const again = (await signIn(email)).body.token as string;
    expect((await end("/revoke-sessions")).status).toBe(200);
    expect([await isIn({ session: again }), await isIn({ cookie })]).toEqual([false, false]);
  });

  test("does not keep the command line from being let in and given its token", async () => {
    const { session, cookie } = await two();
    const { device_code, user_code } = (await auth("/device/code", { client_id: "svc-cli" })).body;
    const approve = { cookie, body: { userCode: user_code }, headers: { origin: api.url } };
    expect((await read(`/device?user_code=${user_code}`, { cookie })).status).toBe(200);
    expect((await api.request("POST", "/api/auth/device/approve", approve)).status).toBe(200);
    const grant = { grant_type: "urn:ietf:params:oauth:grant-type:device_code", device_code, client_id: "svc-cli" };
    const { access_token } = (await auth("/device/token", grant)).body;
    expect(await isIn({ session: access_token })).toBe(true);
    expect(access_token).not.toBe(session);
  });
});

describe("what better-auth could do and does not here", () => {
  test.each([
    ["POST", "/admin/set-role"],
    ["POST", "/admin/impersonate-user"],
    ["GET", "/admin/list-users"],
    ["POST", "/admin/create-user"],
    ["POST", "/delete-user"],
    ["POST", "/change-email"],
    ["POST", "/set-password"],
    ["POST", "/update-user"],
    ["POST", "/api-key/create"],
    ["GET", "/reset-password/x"],
    ["GET", "/sign-in/email"],
    ["POST", "/../v1/tokens"],
    ["POST", "/sign-out/../admin/set-role"],
  ])("%s %s is not there, not even for an administrator", async (method, path) => {
    const { session } = await api.newUser({ admin: true });
    const answer = await api.request(method, `/api/auth${path}`, { session, ...(method === "POST" && { body: {} }) });
    expect([404, 405, 401, 422, 415]).toContain(answer.status);
    if (path.includes("admin") || path.startsWith("/api-key")) expect(answer.status).toBe(404);
    expect(answer.body.ok).toBe(false);
  });

  test("the address that a client claims for itself does not get around the limits, and the refusal is the API's", async () => {
    const tries = [];
    for (let count = 0; count < 40; count += 1) {
      tries.push(
        await auth(
          "/sign-in/email",
          // Another one each time: what is full is the room of the address that they come from.
          { email: `nobody${count}@svc.test`, password },
          { "x-svc-client-address": `192.0.2.${count}` },
        ),
      );
    }
    const { status, headers, body } = tries.at(-1) ?? tries[0] ?? expect.fail("nothing was tried");
    expect([status, body]).toEqual([
      429,
      expect.objectContaining({
        ok: false,
        error: { code: "RATE_LIMITED", message: expect.stringMatching(/\.$/) },
        code: "RATE_LIMITED",
        message: body.error.message,
      }),
    ]);
    expect(headers.get("content-type")).toMatch(/^application\/json/);
    expect(Number(headers.get("retry-after"))).toBeGreaterThan(0);
    await sql`delete from auth."rateLimit"`.execute(api.db);
    await sql`delete from attempt_bucket`.execute(api.db);
  });
});

describe("sign-up that is not open", () => {
  test("closed refuses", async () => {
    await using other = await testApi({ config: { signup: "closed" } });
    const answer = await other.request("POST", "/api/auth/sign-up/email", {
      body: { name: "Ada", email: newEmail(), password },
    });
    expect(answer.status).toBe(400);
    expect((await other.request("GET", "/sign-up")).status).toBe(404);
    expect(await other.db.selectFrom("auth.user").select("id").execute()).toEqual([]);
  });

  test("so does an installation that cannot send mail", async () => {
    await using other = await testApi({ config: { mail: { from: "svc@svc.test" } } });
    const answer = await other.request("POST", "/api/auth/sign-up/email", {
      body: { name: "Ada", email: newEmail(), password },
    });
    expect(answer.status).toBe(400);
  });
});

describe("credentials", () => {
  const me = (options: Parameters<TestApi["call"]>[2]) => api.call("GET", "/me", options).then(({ status }) => status);

  test("none, an unknown one, and two at once are nobody", async () => {
    const user = await api.newUser();
    const { key } = await api.newKey(user);
    expect(await me({})).toBe(401);
    expect(await me({ key: "svc_unknown" })).toBe(401);
    expect(await me({ session: "unknown" })).toBe(401);
    expect(await me({ key, session: user.session })).toBe(401);
    expect(await me({ key: `${key}, ${key}` })).toBe(401);
    expect(await me({ headers: { authorization: `Basic ${key}` } })).toBe(401);
    expect(await me({ key })).toBe(200);
  });

  test("a key is not a session token, nor is a session token a key", async () => {
    const user = await api.newUser();
    const { key } = await api.newKey(user);
    expect(await me({ session: key })).toBe(401);
    expect(await me({ key: user.session })).toBe(401);
  });

  test("no credential is read from the address", async () => {
    const user = await api.newUser();
    expect((await api.call("GET", `/me?token=${user.session}&access_token=${user.session}`)).status).toBe(401);
  });

  test("expired ones are nobody's", async () => {
    const user = await api.newUser();
    const { id, key } = await api.newKey(user);
    await api.db
      .updateTable("api_token")
      .set({ expires_at: new Date(Date.now() - 1000) })
      .where("id", "=", id)
      .execute();
    expect(await me({ key })).toBe(401);
    await api.db
      .updateTable("auth.session")
      .set({ expiresAt: new Date(Date.now() - 1000) })
      .where("userId", "=", user.id)
      .execute();
    expect(await me({ session: user.session })).toBe(401);
  });

  test.each([
    { ban: "for ever", until: null, status: 401 },
    { ban: "for an hour", until: 3_600_000, status: 401 },
    { ban: "that has run out", until: -1000, status: 200 },
  ])("a user with a ban $ban gets $status by every way in", async ({ until, status }) => {
    const user = await api.newUser();
    const { key } = await api.newKey(user);
    const banExpires = until === null ? null : new Date(Date.now() + until);
    await api.db.updateTable("auth.user").set({ banned: true, banExpires }).where("id", "=", user.id).execute();
    expect(await me({ key })).toBe(status);
    expect(await me({ session: user.session })).toBe(status);
  });

  test("a banned user cannot sign in", async () => {
    const { email } = await signUp();
    await api.db.updateTable("auth.user").set({ banned: true }).where("email", "=", email).execute();
    expect((await signIn(email)).status).toBe(403);
  });

  test.each([
    "null",
    "{}",
    '"*"',
    '["projects:read", 7]',
    '["everything"]',
    '["ci:deploy", "env:read"]',
    '["ci:deploy"]',
  ])("stored scopes that read %s open nothing", async (stored) => {
    const user = await api.newUser();
    const { id, key } = await api.newKey(user);
    await sql`update api_token set scopes = ${stored}::jsonb where id = ${id}`.execute(api.db);
    for (const path of ["/projects", "/account", "/account/usage", "/tokens"]) {
      const answer = await api.call("GET", path, { key });
      expect(answer.status, path).toBe(403);
      expect(answer.body.error.code).toBe("FORBIDDEN_SCOPE");
    }
  });

  test("keys end with their user", async () => {
    const user = await api.newUser();
    const { key } = await api.newKey(user);
    await sql`delete from auth."user" where id = ${user.id}`.execute(api.db);
    expect(await me({ key })).toBe(401);
  });

  test("the last use of a key is noted", async () => {
    const user = await api.newUser();
    const { id, key } = await api.newKey(user);
    await me({ key });
    const noted = () =>
      api.db.selectFrom("api_token").select("last_used_at").where("id", "=", id).executeTakeFirstOrThrow();
    await expect.poll(noted).toEqual({ last_used_at: expect.any(Date) });
  });
});

describe("requests that a browser sends with the cookie", () => {
  const withCookie = async () => {
    const { email } = await signUp();
    return cookieOf((await signIn(email)).headers);
  };
  const create = { name: "Shop", type: "ssr" };

  test("change something only from a page of ours", async () => {
    const cookie = await withCookie();
    const from = (headers: Record<string, string>) =>
      api.call("POST", "/projects", { cookie, body: create, headers }).then(({ status }) => status);
    expect(await from({ origin: api.url })).toBe(201);
    expect(await from({ origin: "https://evil.test" })).toBe(403);
    expect(await from({ origin: "null" })).toBe(403);
    expect(await from({})).toBe(403);
  });

  test("that holds for uploads, which forms of any page can send", async () => {
    const cookie = await withCookie();
    const created = await api.call("POST", "/projects", { cookie, body: create, headers: { origin: api.url } });
    const form = new FormData();
    form.set("manifest", "{}");
    const answer = await api.call("POST", `/projects/${created.body.project.id}/deployments`, {
      cookie,
      body: form,
      headers: { origin: "https://evil.test" },
    });
    expect(answer.status).toBe(403);
    expect(answer.body.error.code).toBe("FORBIDDEN");
  });

  test("reading needs no origin", async () => {
    expect((await api.call("GET", "/projects", { cookie: await withCookie() })).status).toBe(200);
  });
});

describe("pages of other sites", () => {
  const evil = { origin: "https://evil.test" };

  test.each(["/sign-out", "/device/approve", "/device/deny", "/change-password", "/revoke-sessions"])(
    "cannot post to %s with the cookie",
    async (path) => {
      const { email } = await signUp();
      const cookie = cookieOf((await signIn(email)).headers);
      const answer = await api.request("POST", `/api/auth${path}`, {
        cookie,
        body: { userCode: "ABCDEFGH" },
        headers: evil,
      });
      expect(answer.status).toBe(403);
      expect((await api.call("GET", "/me", { cookie })).status).toBe(200);
    },
  );

  test("cannot sign a visitor in as somebody else", async () => {
    const { email } = await signUp();
    const body = new URLSearchParams({ email, password }).toString();
    for (const type of ["application/x-www-form-urlencoded", "text/plain"]) {
      const answer = await api.request("POST", "/api/auth/sign-in/email", {
        body,
        headers: { ...evil, "content-type": type },
      });
      expect(answer.status).toBeGreaterThanOrEqual(400);
      expect(answer.headers.getSetCookie()).toEqual([]);
    }
  });
});

test("what has run out is deleted, and nothing else", async () => {
  const user = await api.newUser();
  const gone = await api.newUser();
  await sql`update auth."session" set "expiresAt" = now() - interval '1 second' where "userId" = ${gone.id}`.execute(
    api.db,
  );
  await sql`insert into auth."deviceCode" ("deviceCode", "userCode", "expiresAt", status) values
    ('old', 'OLD', now() - interval '1 second', 'pending'), ('new', 'NEW', now() + interval '1 hour', 'pending')`.execute(
    api.db,
  );
  await sql`insert into idempotency (user_id, key, request_hash, status, body, created_at) values
    (${user.id}, 'old', '', 201, '{}', now() - interval '25 hours'), (${user.id}, 'new', '', 201, '{}', now())`.execute(
    api.db,
  );
  await sql`delete from attempt_bucket`.execute(api.db);
  await sql`insert into attempt_bucket (key, tokens, at) values
    ('old', 0, now() - interval '25 hours'), ('new', 0, now())`.execute(api.db);
  await sql`insert into claim_link (hash, expires_at) values ('', now() - interval '1 second')`.execute(api.db);
  await sql`insert into invite (id, email, hash, expires_at) values
    (gen_random_uuid(), 'old@svc.test', 'old', now() - interval '91 days'),
    (gen_random_uuid(), 'new@svc.test', 'new', now() - interval '1 day')`.execute(api.db);
  expect(await deleteExpired(api.db)).toBeGreaterThanOrEqual(6);
  expect(await deleteExpired(api.db)).toBe(0);
  expect((await api.call("GET", "/me", { session: user.session })).status).toBe(200);
  expect(await api.db.selectFrom("idempotency").select("key").execute()).toEqual([{ key: "new" }]);
  expect(await api.db.selectFrom("invite").select("email").execute()).toEqual([{ email: "new@svc.test" }]);
  const { rows } = await sql`select key from attempt_bucket`.execute(api.db);
  expect(rows).toEqual([{ key: "new" }]);
  await sql`insert into attempt_bucket (key, tokens, at)
    select n::text, 0, now() - n * interval '1 millisecond' from generate_series(1, 100010) n`.execute(api.db);
  expect(await deleteExpired(api.db)).toBe(10);
});

describe("createAdmin", () => {
  test("makes an administrator who can sign in, and repeating it changes nothing", async () => {
    await using own = createAuth({
      clock: systemClock,
      config: api.context.config,
      db: api.db,
      log: api.context.log,
      mailer: null,
    });
    const email = newEmail();
    const id = await createAdmin({ db: api.db, auth: own }, { email: email.toUpperCase(), password });
    const session = (await signIn(email)).body.token as string;
    expect(await createAdmin({ db: api.db, auth: own }, { email, password })).toBe(id);
    expect((await api.call("GET", "/admin/nodes", { session })).status).toBe(200);
    expect((await api.call("GET", "/account", { session })).body.emailVerified).toBe(true);
  });

  test("promotes an existing account, and a new password ends its sessions", async () => {
    await using own = createAuth({
      clock: systemClock,
      config: api.context.config,
      db: api.db,
      log: api.context.log,
      mailer: null,
    });
    const { email, session } = await signUp();
    await createAdmin({ db: api.db, auth: own }, { email, password: "a different password" });
    expect((await api.call("GET", "/me", { session })).status).toBe(401);
    const again = (await signIn(email, "a different password")).body.token as string;
    expect((await api.call("GET", "/admin/nodes", { session: again })).status).toBe(200);
  });

  test("refuses what cannot be an account", async () => {
    await using own = createAuth({
      clock: systemClock,
      config: api.context.config,
      db: api.db,
      log: api.context.log,
      mailer: null,
    });
    await expect(createAdmin({ db: api.db, auth: own }, { email: "nobody", password })).rejects.toThrow(InvalidAccount);
    await expect(createAdmin({ db: api.db, auth: own }, { email: newEmail(), password: "short" })).rejects.toThrow(
      InvalidAccount,
    );
  });
});
