import { randomBytes } from "node:crypto";
import { getMigrations } from "better-auth/db/migration";
import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type TestApi, testApi } from "../http/testing.ts";
import { createAdmin, InvalidAccount } from "./admin.ts";
import { createAuth, sessionCookieName } from "./auth.ts";
import { findCaller } from "./caller.ts";
import { presentedCredential } from "./credentials.ts";
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
const signUp = async (email = newEmail()) => ({
  email,
  answer: await auth("/sign-up/email", { name: "Ada", email, password }),
});
const signIn = (email: string, tried = password) => auth("/sign-in/email", { email, password: tried });
const cookieOf = (headers: Headers) =>
  headers
    .getSetCookie()
    .map((cookie) => cookie.split(";", 1)[0])
    .join("; ");

test("the frozen tables are the ones that better-auth wants", async () => {
  await using own = createAuth({ config: api.context.config, log: api.context.log, mailer: null });
  const { toBeCreated, toBeAdded } = await getMigrations(own.options);
  expect({ toBeCreated, toBeAdded }).toEqual({ toBeCreated: [], toBeAdded: [] });
});

describe("signing up and in", () => {
  test("a new account gets a mail whose link confirms the address", async () => {
    const { email, answer } = await signUp();
    expect(answer.status).toBe(200);
    const session = answer.body.token as string;
    expect((await api.call("GET", "/account", { session })).body).toEqual({
      ok: true,
      hasPassword: true,
      emailVerified: false,
      linkedProviders: [],
    });
    const mail = (await api.mails()).find(({ to }) => to === email);
    const link = new URL(/http\S+/.exec(mail?.text ?? "")?.[0] ?? "");
    expect(link.origin).toBe(api.url);

    const token = link.searchParams.get("token") ?? "";
    const verified = await api.request("GET", `/api/auth/verify-email?token=${encodeURIComponent(token)}`);
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
    await using own = createAuth({ config, log: api.context.log, mailer: { send: async () => {}, close: () => {} } });
    const response = await own.handler(
      new Request("https://control.svc.test/api/auth/sign-up/email", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ name: "Ada", email: newEmail(), password }),
      }),
    );
    const [cookie] = response.headers.getSetCookie();
    expect(cookie).toMatch(/^__Host-svc\.session_token=/);
    expect(cookie).toMatch(/; Secure/i);
    expect(cookie).not.toMatch(/Domain=/i);
    const carried = { apiUrl: config.apiUrl, cookie: cookie?.split(";", 1)[0] ?? "" };
    const credential = presentedCredential({ cookie: carried.cookie }, sessionCookieName(carried.apiUrl));
    expect(typeof credential === "object" && (await findCaller(api.db, credential, config.authSecret))).toMatchObject({
      kind: "session",
    });
  });

  test("a cookie with a changed signature is nobody's", async () => {
    const { email } = await signUp();
    const cookie = cookieOf((await signIn(email)).headers);
    for (const forged of [
      cookie.replace(/.%3D$|.$/, "x"),
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
    const { email, answer } = await signUp();
    await auth("/request-password-reset", { email });
    const mail = (await api.mails()).findLast(({ to }) => to === email);
    const token = new URL(/http\S+/.exec(mail?.text ?? "")?.[0] ?? "").searchParams.get("token");
    expect((await auth("/reset-password", { token, newPassword: "another good one" })).status).toBe(200);
    expect((await api.call("GET", "/me", { session: answer.body.token })).status).toBe(401);
    expect((await signIn(email, "another good one")).status).toBe(200);
    expect((await auth("/reset-password", { token, newPassword: "a third one here" })).status).toBe(400);
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

  test("the address that a client claims for itself does not get around the limits", async () => {
    const tries = [];
    for (let count = 0; count < 40; count += 1) {
      tries.push(
        (
          await auth(
            "/sign-in/email",
            { email: "nobody@svc.test", password },
            { "x-svc-client-address": `192.0.2.${count}` },
          )
        ).status,
      );
    }
    expect(tries.at(-1)).toBe(429);
    await sql`delete from auth."rateLimit"`.execute(api.db);
  });
});

describe("sign-up that is not open", () => {
  test.each(["closed", "invite"] as const)("%s refuses", async (signup) => {
    await using other = await testApi({ config: { signup } });
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
    const { last_used_at } = await api.db
      .selectFrom("api_token")
      .select("last_used_at")
      .where("id", "=", id)
      .executeTakeFirstOrThrow();
    expect(last_used_at).toBeInstanceOf(Date);
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
  expect(await deleteExpired(api.db)).toBeGreaterThanOrEqual(3);
  expect(await deleteExpired(api.db)).toBe(0);
  expect((await api.call("GET", "/me", { session: user.session })).status).toBe(200);
  expect(await api.db.selectFrom("idempotency").select("key").execute()).toEqual([{ key: "new" }]);
});

describe("createAdmin", () => {
  test("makes an administrator who can sign in, and repeating it changes nothing", async () => {
    await using own = createAuth({ config: api.context.config, log: api.context.log, mailer: null });
    const email = newEmail();
    const id = await createAdmin(own, { email: email.toUpperCase(), password });
    const session = (await signIn(email)).body.token as string;
    expect(await createAdmin(own, { email, password })).toBe(id);
    expect((await api.call("GET", "/admin/nodes", { session })).status).toBe(200);
    expect((await api.call("GET", "/account", { session })).body.emailVerified).toBe(true);
  });

  test("promotes an existing account, and a new password ends its sessions", async () => {
    await using own = createAuth({ config: api.context.config, log: api.context.log, mailer: null });
    const { email, answer } = await signUp();
    await createAdmin(own, { email, password: "a different password" });
    expect((await api.call("GET", "/me", { session: answer.body.token })).status).toBe(401);
    const session = (await signIn(email, "a different password")).body.token as string;
    expect((await api.call("GET", "/admin/nodes", { session })).status).toBe(200);
  });

  test("refuses what cannot be an account", async () => {
    await using own = createAuth({ config: api.context.config, log: api.context.log, mailer: null });
    await expect(createAdmin(own, { email: "nobody", password })).rejects.toThrow(InvalidAccount);
    await expect(createAdmin(own, { email: newEmail(), password: "short" })).rejects.toThrow(InvalidAccount);
  });
});
