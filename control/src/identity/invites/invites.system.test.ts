import { randomBytes } from "node:crypto";
import { sql } from "kysely";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type Answer, type TestApi, type TestUser, testApi } from "../../http/testing.ts";
import { deleteExpired } from "../auth/expire.ts";
import { browser, linkIn, mailTo } from "../pages/testing.ts";

let api: TestApi;
let admin: TestUser;
beforeAll(async () => {
  api = await testApi({ config: { signup: "invite" } });
  admin = await api.newUser({ admin: true });
});
afterAll(async () => {
  await api[Symbol.asyncDispose]();
});
beforeEach(async () => {
  await sql`delete from auth."rateLimit"`.execute(api.db);
  await sql`delete from attempt_bucket`.execute(api.db);
});

const password = "correct horse battery";
const newEmail = () => `${randomBytes(6).toString("hex")}@svc.test`;
const codeOf = (answer: Answer) => [answer.status, answer.body.error?.code];
const invite = (email: unknown, on = api, by = admin) =>
  on.call("POST", "/admin/invites", { session: by.session, body: { email } });
const signUp = (email: string, inviteCode?: unknown, on = api) =>
  on.request("POST", "/api/auth/sign-up/email", {
    body: { name: "Ada", email, password, ...(inviteCode !== undefined && { inviteCode }) },
  });
const codeFor = async (email: string) => (await invite(email)).body.inviteCode as string;
const userOf = (email: string, on = api) =>
  on.db.selectFrom("auth.user").select(["id", "emailVerified"]).where("email", "=", email).executeTakeFirst();

describe("POST /admin/invites", () => {
  test("returns the code, mails its link, and keeps no more than its hash", async () => {
    const email = newEmail();
    const { status, body } = await invite(email.toUpperCase());
    expect(status).toBe(200);
    expect(body).toEqual({
      ok: true,
      inviteCode: expect.stringMatching(/^[\w-]{32}$/),
      id: expect.any(String),
      expiresAt: expect.any(String),
      mailed: true,
      note: null,
    });
    expect(linkIn(await mailTo(api, email)).href).toBe(`${api.url}/sign-up?invite=${body.inviteCode}`);
    const { rows } = await sql<{ text: string }>`
      select i::text as text from invite i union all select a::text from audit a`.execute(api.db);
    expect(rows.filter(({ text }) => text.includes(body.inviteCode))).toEqual([]);
    expect(JSON.stringify((await api.call("GET", "/admin/invites", { session: admin.session })).body)).not.toContain(
      body.inviteCode,
    );
  });

  test.each([
    ["no address", 422, "INVALID_EMAIL"],
    ["", 422, "INVALID_EMAIL"],
    ["a@b@svc.test", 422, "INVALID_EMAIL"],
    ["ada@svc.test\r\nBcc: eve@evil.test", 422, "INVALID_EMAIL"],
    ["ädä@svc.test", 422, "INVALID_EMAIL"],
    [`${"a".repeat(310)}@svc.test`, 422, "INVALID_EMAIL"],
    ["ada@deleted.invalid", 422, "INVALID_EMAIL"],
    [null, 400, "INVALID_BODY"],
    [{ email: "ada@svc.test" }, 400, "INVALID_BODY"],
    [["ada@svc.test"], 400, "INVALID_BODY"],
    [7, 400, "INVALID_BODY"],
  ])("%j is refused", async (email, status, code) => {
    const before = (await api.mails()).length;
    expect(codeOf(await invite(email))).toEqual([status, code]);
    expect(codeOf(await api.call("POST", "/waitlist", { body: { email } }))).toEqual([status, code]);
    expect((await api.mails()).length).toBe(before);
  });

  test.each(["", "{", "[]", "null", '"ada@svc.test"', "{}", '{"email":"ada@svc.test","role":"admin"}'])(
    "the body %j is refused",
    async (body) => {
      const headers = { "content-type": "application/json" };
      const session = admin.session;
      expect(codeOf(await api.call("POST", "/admin/invites", { session, body, headers }))).toEqual([
        400,
        "INVALID_BODY",
      ]);
      expect(codeOf(await api.call("POST", "/waitlist", { body, headers }))).toEqual([400, "INVALID_BODY"]);
    },
  );

  test("sent again with its Idempotency-Key makes one, says which, and shows its code to nobody again", async () => {
    const email = newEmail();
    const send = (to: string, key: string) =>
      api.call("POST", "/admin/invites", {
        session: admin.session,
        body: { email: to },
        headers: { "idempotency-key": key },
      });
    const answers = await Promise.all([send(email, "invite-1"), send(email.toUpperCase(), "invite-1")]);
    const [made, again] = [answers.find(({ status }) => status === 200), answers.find(({ status }) => status !== 200)];
    if (made === undefined || again === undefined) throw new Error("not one of each");
    expect(codeOf(again)).toEqual([409, "IDEMPOTENCY_CONFLICT"]);
    expect(again.body.error.message).toContain(made.body.id);
    expect(again.text).not.toContain(made.body.inviteCode);
    const kept = await api.db.selectFrom("idempotency").selectAll().where("key", "=", "invite-1").execute();
    expect(JSON.stringify(kept)).not.toContain(made.body.inviteCode);
    expect((await api.mails()).filter(({ to }) => to === email)).toHaveLength(1);
    expect(codeOf(await send(newEmail(), "invite-1"))).toEqual([409, "IDEMPOTENCY_CONFLICT"]);
    // What replaced it would make the code that was shown worthless.
    expect((await signUp(email, made.body.inviteCode)).status).toBe(200);
  });

  test("is for administrators", async () => {
    expect(codeOf(await invite(newEmail(), api, await api.newUser()))).toEqual([403, "FORBIDDEN"]);
    expect(codeOf(await api.call("GET", "/admin/invites"))).toEqual([401, "UNAUTHORIZED"]);
  });

  test("without a mailer the administrator hands the code over", async () => {
    await using other = await testApi({ config: { signup: "invite", mail: { from: "svc@svc.test" } } });
    const email = newEmail();
    const { body } = await invite(email, other, await other.newUser({ admin: true }));
    expect([body.mailed, body.note]).toEqual([false, expect.stringContaining("hand the code over")]);
    expect((await signUp(email, body.inviteCode, other)).status).toBe(200);
    expect(await userOf(email, other)).toMatchObject({ emailVerified: true });
  });
});

describe("signing up by invitation", () => {
  test("makes the account with a proven address, once", async () => {
    const email = newEmail();
    const code = await codeFor(email);
    expect((await signUp(email, code)).status).toBe(200);
    const user = await userOf(email);
    expect(user?.emailVerified).toBe(true);
    const list = (await api.call("GET", "/admin/invites", { session: admin.session })).body.invites;
    expect(list.find((each: { email: string }) => each.email === email)).toMatchObject({
      status: "used",
      usedAt: expect.any(String),
    });
    await sql`delete from auth."user" where email = ${email}`.execute(api.db);
    expect((await signUp(email, code)).body.code).toBe("INVITE_INVALID");
  });

  test.each([
    { what: "none", code: async () => undefined },
    { what: "one that is made up", code: async () => "A".repeat(32) },
    { what: "something else", code: async () => ({ $ne: null }) },
    { what: "another person's", code: async () => codeFor(newEmail()) },
    {
      what: "one that has expired",
      code: async (email: string) => {
        const code = await codeFor(email);
        await sql`update invite set expires_at = now() where email = ${email}`.execute(api.db);
        return code;
      },
    },
    {
      what: "one that was replaced",
      code: async (email: string) => {
        const code = await codeFor(email);
        await codeFor(email);
        return code;
      },
    },
    {
      what: "one that was taken back",
      code: async (email: string) => {
        const { inviteCode, id } = (await invite(email)).body;
        expect((await api.call("DELETE", `/admin/invites/${id}`, { session: admin.session })).body).toEqual({
          ok: true,
          id,
        });
        return inviteCode;
      },
    },
  ])("$what makes none, and tells nothing of the address", async ({ code }) => {
    const email = newEmail();
    const refused = await signUp(email, await code(email));
    expect([refused.status, refused.body.code]).toEqual([400, "INVITE_INVALID"]);
    expect(await userOf(email)).toBeUndefined();
    const known = await signUp(admin.email, "A".repeat(32));
    expect([known.status, known.text]).toEqual([refused.status, refused.text]);
  });

  test("for an address that has an account says so, to whoever has shown the invitation", async () => {
    const email = newEmail();
    await signUp(email, await codeFor(email));
    const code = await codeFor(email);
    const answer = await signUp(email, code);
    expect([answer.status, answer.body]).toEqual([
      400,
      { code: "ACCOUNT_EXISTS", message: "There already is an account with this address. Sign in." },
    ]);
    expect((await signUp(email, "A".repeat(32))).body.code).toBe("INVITE_INVALID");
    const tab = browser(api);
    const form = await tab.open(`/sign-up?invite=${code}`);
    const page = await tab.submit(form, { name: "Ada", email, password, invite: code });
    expect([page.status, page.text.includes("There already is an account with this address")]).toEqual([422, true]);
  });

  test("one code used by many at once makes one account", async () => {
    const email = newEmail();
    const code = await codeFor(email);
    const answers = await Promise.all(Array.from({ length: 6 }, () => signUp(email, code)));
    const made = answers.filter(({ status }) => status === 200);
    expect(made).toHaveLength(1);
    // Who came a little later finds the code taken, or the account made.
    expect(answers.filter(({ body }) => ["INVITE_INVALID", "ACCOUNT_EXISTS"].includes(body.code))).toHaveLength(5);
    const rows = await api.db.selectFrom("auth.user").select("id").where("email", "=", email).execute();
    expect(rows).toHaveLength(1);
    const used = await api.db.selectFrom("invite").select(["user_id"]).where("email", "=", email).execute();
    expect(used).toEqual([{ user_id: rows[0]?.id }]);
  });

  test("a sign-up that took the code and died gives it back", async () => {
    const email = newEmail();
    const code = await codeFor(email);
    await sql`update invite set claimed_at = now() where email = ${email}`.execute(api.db);
    expect((await signUp(email, code)).body.code).toBe("INVITE_INVALID");
    await sql`update invite set claimed_at = now() - interval '61 seconds' where email = ${email}`.execute(api.db);
    expect((await signUp(email, code)).status).toBe(200);
  });

  test("the person follows the link, chooses a password, and is in", async () => {
    const email = newEmail();
    await invite(email);
    const link = linkIn(await mailTo(api, email));
    const tab = browser(api);
    const form = await tab.open(link.pathname + link.search);
    expect(form.text).toContain(`value="${link.searchParams.get("invite")}"`);
    const code = link.searchParams.get("invite") ?? "";
    const wrong = await tab.submit(form, { name: "Ada", email: newEmail(), password, invite: code });
    expect([wrong.status, wrong.text.includes("This invitation is not for that address")]).toEqual([422, true]);
    const home = await tab.submit(form, { name: "Ada", email, password, invite: code });
    expect(home.path).toBe("/");
    expect(home.text).toContain("Hello, Ada");
    expect(home.text).not.toContain("Confirm your email address");
    const again = await browser(api).submit(form, { name: "Ada", email, password, invite: code });
    expect(again.status).toBe(422);
  });

  test("who has no code is asked for one", async () => {
    const tab = browser(api);
    const form = await tab.open("/sign-up");
    expect(form.text).toContain("Invitation code");
    expect((await tab.submit(form, { name: "Ada", email: newEmail(), password, invite: "" })).status).toBe(422);
  });

  test("is in the audit", async () => {
    const email = newEmail();
    const { inviteCode, id } = (await invite(email)).body;
    await signUp(email, inviteCode);
    const user = await userOf(email);
    const lines = await api.db
      .selectFrom("audit")
      .select(["action", "user_id"])
      .where("target", "=", id)
      .orderBy("id")
      .execute();
    expect(lines).toEqual([
      { action: "invite.create", user_id: admin.id },
      { action: "invite.use", user_id: user?.id },
    ]);
  });
});

describe("DELETE /admin/invites/:id", () => {
  test("one that is unknown, used, or no id is not found", async () => {
    const email = newEmail();
    const { inviteCode, id } = (await invite(email)).body;
    await signUp(email, inviteCode);
    for (const each of [id, crypto.randomUUID(), "x"]) {
      const answer = await api.call("DELETE", `/admin/invites/${each}`, { session: admin.session });
      expect(codeOf(answer)).toEqual([404, "NOT_FOUND"]);
    }
  });
});

describe("the waiting list", () => {
  const join = (email: string, address = "192.0.2.1") =>
    api.call("POST", "/waitlist", { body: { email }, headers: { "x-forwarded-for": address } });
  const entries = async () =>
    (await api.call("GET", "/admin/waitlist", { session: admin.session })).body.entries as {
      email: string;
      createdAt: string;
      invitedAt: string | null;
    }[];

  test("says the same to an address that is new, on the list, or has an account, and notes each once", async () => {
    const email = newEmail();
    const answers = [await join(email), await join(email.toUpperCase()), await join(admin.email)];
    expect(answers[0]?.body).toEqual({ ok: true, message: expect.any(String) });
    expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
    expect((await entries()).filter((entry) => entry.email === email)).toEqual([
      { email, createdAt: expect.any(String), invitedAt: null },
    ]);
  });

  test("many at once note it once, in the audit too", async () => {
    const email = newEmail();
    await Promise.all(Array.from({ length: 8 }, () => join(email)));
    expect((await entries()).filter((entry) => entry.email === email)).toHaveLength(1);
    const lines = await api.db.selectFrom("audit").selectAll().where("target", "=", email).execute();
    expect(lines).toMatchObject([{ action: "waitlist.join", user_id: null, address: "192.0.2.1" }]);
  });

  test("shows who was invited", async () => {
    const email = newEmail();
    await join(email);
    await invite(email);
    expect((await entries()).find((entry) => entry.email === email)?.invitedAt).toEqual(expect.any(String));
  });

  test("one client cannot fill it, whichever address of its network it uses", async () => {
    const answers: Answer[] = [];
    for (let at = 0; at < 12; at++) answers.push(await join(newEmail(), `2001:db8:7:8::${at + 1}`));
    expect(answers.map(({ status }) => status)).toEqual([...Array(10).fill(200), 429, 429]);
    expect(answers.at(-1)?.body.error.code).toBe("RATE_LIMITED");
    expect(Number(answers.at(-1)?.headers.get("retry-after"))).toBeGreaterThan(0);
    expect((await join(newEmail(), "2001:db8:7:9::1")).status).toBe(200);
  });

  test("nor from however many networks of one site", async () => {
    const answers: Answer[] = [];
    for (let at = 0; at < 32; at++) answers.push(await join(newEmail(), `2001:db8:20:${at.toString(16)}::1`));
    expect(answers.map(({ status }) => status)).toEqual([...Array(30).fill(200), 429, 429]);
    expect((await join(newEmail(), "2001:db8:21::1")).status).toBe(200);
  });

  test("lets go of who waited longest when it is full, so that nobody can shut it to others", async () => {
    await using other = await testApi();
    await sql`insert into waitlist_entry (email, created_at, invited_at)
      select n || '@svc.test', now() - (6000 - n) * interval '1 second', case when n = 1 then now() end
      from generate_series(1, 5000) n`.execute(other.db);
    const on = (email: string) => other.call("POST", "/waitlist", { body: { email } });
    const honest = newEmail();
    const answers = await Promise.all([on(honest), on("2@svc.test"), on("3@svc.test")]);
    expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
    expect(answers[0]?.status).toBe(200);
    const { entries } = (
      await other.call("GET", "/admin/waitlist", { session: (await other.newUser({ admin: true })).session })
    ).body as { entries: { email: string }[] };
    const emails = entries.map(({ email }) => email);
    expect(emails).toHaveLength(5000);
    // Who was invited stays, and so does everybody but as many as there was no place for.
    expect(emails).toEqual(expect.arrayContaining([honest, "1@svc.test", "5@svc.test", "5000@svc.test"]));
  });

  test("makes room by itself, long after an invitation", async () => {
    await using other = await testApi();
    await sql`insert into waitlist_entry (email, invited_at)
      values ('old@svc.test', now() - interval '91 days'), ('new@svc.test', now())`.execute(other.db);
    await deleteExpired(other.db);
    expect(await other.db.selectFrom("waitlist_entry").select("email").execute()).toEqual([{ email: "new@svc.test" }]);
  });
});

describe("in other modes", () => {
  test("closed: no invitation opens the door, nor is anybody sent to it", async () => {
    await using other = await testApi({ config: { signup: "closed" } });
    const email = newEmail();
    const { body } = await invite(email, other, await other.newUser({ admin: true }));
    expect([body.mailed, body.note]).toEqual([false, expect.stringContaining("Sign-up is closed")]);
    expect((await signUp(email, body.inviteCode, other)).status).toBe(400);
    expect(await userOf(email, other)).toBeUndefined();
    expect((await other.request("GET", `/sign-up?invite=${body.inviteCode}`)).status).toBe(404);
  });

  test("open: an invitation proves the address, and a wrong one is as good as none", async () => {
    await using other = await testApi();
    const [invited, plain] = [newEmail(), newEmail()];
    const { body } = await invite(invited, other, await other.newUser({ admin: true }));
    await signUp(invited, body.inviteCode, other);
    await signUp(plain, body.inviteCode, other);
    expect(await userOf(invited, other)).toMatchObject({ emailVerified: true });
    expect(await userOf(plain, other)).toMatchObject({ emailVerified: false });
  });
});
