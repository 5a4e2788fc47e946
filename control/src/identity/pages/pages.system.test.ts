import { randomBytes } from "node:crypto";
import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type TestApi, testApi } from "../../http/testing.ts";
import { browser as browserOf, linkIn, mailTo } from "./testing.ts";

let api: TestApi;
beforeAll(async () => {
  api = await testApi();
});
afterAll(async () => {
  await api[Symbol.asyncDispose]();
});

const password = "correct horse battery";
const newEmail = () => `${randomBytes(6).toString("hex")}@svc.test`;
const html = { accept: "text/html" };
const browser = () => browserOf(api);
const forgetLimits = async () => {
  await sql`delete from auth."rateLimit"`.execute(api.db);
  await sql`delete from attempt_bucket`.execute(api.db);
};

async function account() {
  const email = newEmail();
  await api.request("POST", "/api/auth/sign-up/email", { body: { name: "Ada <b>", email, password } });
  await forgetLimits();
  return email;
}

async function signedIn() {
  const email = await account();
  const tab = browser();
  await tab.submit(await tab.open("/sign-in"), { email, password });
  return { email, tab };
}

const askForCode = async (scope = "host:ada-laptop") =>
  (await api.request("POST", "/api/auth/device/code", { body: { client_id: "svc-cli", scope } })).body;

/** One poll of the command line. */
const poll = (deviceCode: string) =>
  api.request("POST", "/api/auth/device/token", {
    body: { grant_type: "urn:ietf:params:oauth:grant-type:device_code", device_code: deviceCode, client_id: "svc-cli" },
  });

/** Forgets when the code was last polled, so that a test need not wait for the interval. */
const forgetPolls = () => sql`update auth."deviceCode" set "lastPolledAt" = null`.execute(api.db);

describe("every page", () => {
  test.each([
    "/",
    "/sign-in",
    "/sign-up",
    "/forgot-password",
    "/verify-email?token=x",
    "/reset-password?token=x",
    "/api/v1/docs",
    "/nowhere",
  ])("%s is whole without scripts and may load nothing but our style", async (path) => {
    const page = await browser().open(path);
    expect(page.headers.get("content-type")).toBe("text/html; charset=utf-8");
    expect(page.headers.get("content-security-policy")).toBe(
      "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    );
    expect(page.headers.get("cache-control")).toBe("no-store");
    expect(page.text).not.toMatch(/<script|\sstyle=|\son[a-z]+=/);
    expect(page.text).toMatch(/<html lang="en">/);
    expect(page.text.match(/<h1>/g)).toHaveLength(1);
    for (const [, id] of page.text.matchAll(/<input id="([^"]+)"/g)) expect(page.text).toContain(`<label for="${id}">`);
  });

  test("the style sheet is kept for ever under a name that changes with it", async () => {
    const [, path = ""] = /<link rel="stylesheet" href="([^"]+)">/.exec((await browser().open("/")).text) ?? [];
    const sheet = await api.request("GET", path);
    expect(sheet.status).toBe(200);
    expect(sheet.headers.get("content-type")).toBe("text/css; charset=utf-8");
    expect(sheet.headers.get("cache-control")).toContain("immutable");
  });

  test("an address that leads nowhere is a page for people and an envelope for programs", async () => {
    expect((await browser().open("/nowhere")).status).toBe(404);
    expect((await api.request("GET", "/nowhere")).body.error.code).toBe("NOT_FOUND");
    expect((await api.request("GET", "/api/v1/nowhere", { headers: html })).body.error.code).toBe("NOT_FOUND");
  });
});

describe("accounts", () => {
  test("a person signs up, confirms the address from the mail, and is greeted", async () => {
    const tab = browser();
    const email = newEmail();
    const sent = await tab.submit(await tab.open("/sign-up"), { name: "Ada & <Co>", email, password });
    expect(sent.text).toContain("Look into your mailbox");
    const home = await tab.submit(await tab.open("/sign-in"), { email, password });
    expect(home.path).toBe("/");
    expect(home.text).toContain("Hello, Ada &amp; &lt;Co&gt;");
    expect(home.text).toContain("Confirm your email address before the first deploy");

    const link = linkIn(await mailTo(api, email));
    const ask = await tab.open(link.pathname + link.search);
    expect((await tab.open("/")).text).toContain("Confirm your email address before");
    expect((await tab.submit(ask, {})).text).toContain("Address confirmed");
    expect((await tab.open("/")).text).not.toContain("Confirm your email address before");
  });

  test("a link that is not ours confirms nothing, and another can be asked for", async () => {
    const { email, tab } = await signedIn();
    const failed = await tab.submit(await tab.open("/verify-email?token=eyJh.x.y"), {});
    expect(failed.status).toBe(400);
    expect(failed.text).toContain("The link is not valid.");
    await mailTo(api, email);
    await tab.submit(await tab.open("/"), {});
    expect((await mailTo(api, email, 2)).subject).toContain("Confirm your email address");
  });

  test("a wrong password keeps the address and tells nothing more", async () => {
    const email = await account();
    const tab = browser();
    const form = await tab.open("/sign-in");
    const wrong = await tab.submit(form, { email, password: "wrong password" });
    const unknown = await tab.submit(form, { email: "nobody@svc.test", password: "wrong password" });
    expect([wrong.status, unknown.status]).toEqual([401, 401]);
    expect(wrong.text).toContain('role="alert"');
    expect(wrong.text).toContain(`value="${email}"`);
    expect(wrong.text.replace(email, "")).toBe(unknown.text.replace("nobody@svc.test", ""));
  });

  test("who is banned is told so", async () => {
    const email = await account();
    await api.db.updateTable("auth.user").set({ banned: true }).where("email", "=", email).execute();
    const tab = browser();
    expect((await tab.submit(await tab.open("/sign-in"), { email, password })).text).toContain(
      "This account is blocked.",
    );
  });

  test("too many attempts are held back", async () => {
    const tab = browser();
    const form = await tab.open("/sign-in");
    let last = await tab.submit(form, { email: "nobody@svc.test", password });
    for (let count = 0; count < 40 && last.status === 401; count += 1)
      last = await tab.submit(form, { email: "nobody@svc.test", password });
    expect(last.status).toBe(429);
    expect(last.text).toContain("Too many attempts");
    await forgetLimits();
  });

  test("the right password gets a link by mail while others guess, and is let in there", async () => {
    const email = await account();
    await mailTo(api, email);
    const tab = browser();
    const form = await tab.open("/sign-in");
    await tab.submit(form, { email, password: "wrong password" });
    await sql`update attempt_bucket set tokens = 0, at = clock_timestamp() where key like 'sign-in-account:%'`.execute(
      api.db,
    );
    const [wrong, right] = [
      await tab.submit(form, { email, password: "wrong password" }),
      await tab.submit(form, { email, password }),
    ];
    expect([wrong.status, right.status]).toEqual([429, 429]);
    const said = [wrong, right].map(({ text }) => text.replace(/\d+ (seconds|minutes)/, "some time"));
    expect(said[0]).toBe(said[1]);
    expect(said[0]).toContain("mailbox gets a link");

    const link = linkIn(await mailTo(api, email, 2));
    const elsewhere = browser();
    const page = await elsewhere.open(link.pathname + link.search);
    // A mistake does not lose the link.
    const again = await elsewhere.submit(page, { email, password: "wrong password" });
    expect(again.status).toBe(401);
    expect((await elsewhere.submit(again, { email, password })).text).toContain("Hello, Ada");
    await forgetLimits();
  });

  test("an address that is taken looks like a new one, but for the mail to its owner", async () => {
    const email = await account();
    await mailTo(api, email);
    const tab = browser();
    const form = await tab.open("/sign-up");
    const taken = await tab.submit(form, { name: "Ada", email, password });
    const other = newEmail();
    const fresh = await tab.submit(form, { name: "Ada", email: other, password });
    expect([taken.status, taken.text.replaceAll(email, "")]).toEqual([fresh.status, fresh.text.replaceAll(other, "")]);
    expect((await mailTo(api, email, 2)).subject).toContain("You already have an account");
  });

  test("a password that will not do is explained", async () => {
    const email = newEmail();
    const tab = browser();
    const form = await tab.open("/sign-up");
    expect((await tab.submit(form, { name: "Ada", email, password: "password123" })).text).toContain(
      "among the first that anybody would try",
    );
    expect((await tab.submit(form, { name: "Ada", email: newEmail(), password: "short" })).text).toContain(
      "at least 8 characters",
    );
    expect((await tab.submit(form, { name: " ", email: newEmail(), password })).text).toContain("Enter your name.");
  });

  test("signing out ends the session", async () => {
    const { tab } = await signedIn();
    const cookie = tab.cookie();
    const home = await tab.submit(await tab.open("/"), { "sign-out": "" });
    expect(home.text).toContain('href="/sign-in"');
    expect((await api.call("GET", "/me", { cookie })).status).toBe(401);
  });

  test("a forgotten password is replaced through the mailbox", async () => {
    const email = await account();
    // That of the sign-up, which must not come after the other one.
    await mailTo(api, email);
    const tab = browser();
    expect((await tab.submit(await tab.open("/forgot-password"), { email })).text).toContain("If there is an account");
    const link = linkIn(await mailTo(api, email, 2));
    const form = await tab.open(link.pathname + link.search);
    expect((await tab.submit(form, { password: "x" })).text).toContain("at least 8 characters");
    const done = await tab.submit(form, { password: "another good one" });
    expect(done.text).toContain("Password changed");
    // What a new password does not end is said, and where to end it.
    for (const said of ["API keys", "svc tokens list", "svc tokens revoke", "Git host"])
      expect(done.text).toContain(said);
    expect((await tab.submit(form, { password: "yet another one" })).text).toContain("was used already");
    const home = await tab.submit(await tab.open("/sign-in"), { email, password: "another good one" });
    expect(home.text).toContain("Hello, Ada &lt;b&gt;");
  });

  test("forms of other sites do nothing, also for who is not signed in", async () => {
    const email = await account();
    for (const headers of [{ origin: "https://evil.test" }, { origin: "null" }, {}]) {
      const answer = await api.request("POST", "/sign-in", {
        body: new URLSearchParams({ email, password }).toString(),
        headers: { ...headers, "content-type": "application/x-www-form-urlencoded" },
      });
      expect(answer.status).toBe(403);
      expect(answer.headers.getSetCookie()).toEqual([]);
    }
  });

  test("after signing in nobody is sent to another site", async () => {
    const email = await account();
    const tab = browser();
    const page = await tab.submit(await tab.open("/sign-in?next=//evil.test"), { email, password });
    expect(page.path).toBe("/");
  });
});

describe("confirming the login of a command line", () => {
  test("from the code to a key that works", async () => {
    const email = await account();
    const { device_code, user_code, verification_uri, verification_uri_complete } = await askForCode();
    expect(verification_uri).toBe(`${api.url}/device`);
    expect((await poll(device_code)).body.error).toBe("authorization_pending");

    const tab = browser();
    const link = new URL(verification_uri_complete);
    const signIn = await tab.open(link.pathname + link.search);
    expect(signIn.path).toMatch(/^\/sign-in\?next=/);
    const ask = await tab.submit(signIn, { email, password });
    expect(ask.path).toBe(`/device?user_code=${user_code}`);
    expect(ask.text).toContain(`${user_code.slice(0, 4)}-${user_code.slice(4)}`);
    expect(ask.text).toContain("ada-laptop");
    expect(ask.text).toContain("127.0.0.1");
    expect(ask.text).toContain(email);
    expect(ask.text).toContain("full access");
    const done = await tab.submit(ask, { decision: "approve" });
    expect(done.status).toBe(200);
    expect(done.text).toContain("Your command line is logged in");

    await forgetPolls();
    const token = await poll(device_code);
    const { rows } = await sql<{ action: string; detail: object; address: string }>`
      select action, detail, address from audit where target = (select id::text from auth."user" where email = ${email})
      order by id desc limit 2`.execute(api.db);
    expect(rows).toEqual([
      { action: "session.start", detail: { via: "device" }, address: "127.0.0.1" },
      { action: "device.approve", detail: {}, address: "127.0.0.1" },
    ]);
    expect(token.status).toBe(200);
    const session = token.body.access_token as string;
    const created = await api.call("POST", "/tokens", { session, body: { name: "cli @ ada-laptop" } });
    expect(created.status).toBe(201);
    const { key, start } = created.body.token;
    expect(key.startsWith(start)).toBe(true);
    expect((await api.call("GET", "/me", { key })).body.user.email).toBe(email);
    expect((await api.request("POST", "/api/auth/sign-out", { session, body: {} })).status).toBe(200);
    expect((await api.call("GET", "/me", { session })).status).toBe(401);
    expect((await api.call("DELETE", "/tokens/self", { key })).status).toBe(200);
    expect((await api.call("GET", "/me", { key })).status).toBe(401);
  });

  test("the code can be typed instead, in any case and with the hyphen", async () => {
    const { tab } = await signedIn();
    const { user_code } = await askForCode();
    expect((await tab.open("/device")).text).toContain('name="user_code"');
    const ask = await tab.open(`/device?user_code=${user_code.slice(0, 4).toLowerCase()}-${user_code.slice(4)}`);
    expect(ask.text).toContain("Let this command line in?");
  });

  test("denying is told to the command line", async () => {
    const { tab } = await signedIn();
    const { device_code, user_code } = await askForCode();
    const done = await tab.submit(await tab.open(`/device?user_code=${user_code}`), { decision: "deny" });
    expect(done.text).toContain("Denied");
    expect((await poll(device_code)).body.error).toBe("access_denied");
  });

  test("a decision is made once", async () => {
    const { tab } = await signedIn();
    const { device_code, user_code } = await askForCode();
    const ask = await tab.open(`/device?user_code=${user_code}`);
    await tab.submit(ask, { decision: "deny" });
    expect((await tab.submit(ask, { decision: "approve" })).status).toBe(409);
    expect((await poll(device_code)).body.error).toBe("access_denied");
    const again = await tab.open(`/device?user_code=${user_code}`);
    expect(again.text).toMatch(/not known|used already/);
  });

  test("a token is handed out once", async () => {
    const { tab } = await signedIn();
    const { device_code, user_code } = await askForCode();
    await tab.submit(await tab.open(`/device?user_code=${user_code}`), { decision: "approve" });
    expect((await poll(device_code)).status).toBe(200);
    expect((await poll(device_code)).body.error).toBe("invalid_grant");
  });

  test.each([
    { what: "unknown", code: "ABCDEFGH", says: "not known" },
    { what: "malformed", code: "abc", says: "eight letters and digits" },
    { what: "markup", code: "<b>hello</b>", says: "eight letters and digits" },
  ])("a code that is $what is asked for again", async ({ code, says }) => {
    const { tab } = await signedIn();
    const page = await tab.open(`/device?user_code=${encodeURIComponent(code)}`);
    expect(page.status).toBe(404);
    expect(page.text).toContain(says);
    expect(page.text).toContain('name="user_code"');
    expect(page.text).not.toContain("<b>");
  });

  test("an expired code says what to do", async () => {
    const { tab } = await signedIn();
    const { user_code } = await askForCode();
    await sql`update auth."deviceCode" set "expiresAt" = now() - interval '1 second'`.execute(api.db);
    expect((await tab.open(`/device?user_code=${user_code}`)).text).toContain("Run svc login again");
  });

  test("who did not open it first can neither see nor decide it", async () => {
    const first = await signedIn();
    const second = await signedIn();
    const { device_code, user_code } = await askForCode("host:first-laptop");
    const ask = await first.tab.open(`/device?user_code=${user_code}`);
    const other = await second.tab.open(`/device?user_code=${user_code}`);
    expect(other.text).toContain("taken up by another account");
    expect(other.text).not.toContain("first-laptop");
    expect((await second.tab.submit(ask, { decision: "approve" })).status).toBe(409);
    expect((await poll(device_code)).body.error).toBe("authorization_pending");
  });

  test("guessing codes is held back", async () => {
    const { tab } = await signedIn();
    let last = await tab.open("/device?user_code=AAAAAAAA");
    for (let count = 0; count < 80 && last.status === 404; count += 1)
      last = await tab.open("/device?user_code=AAAAAAAA");
    expect(last.status).toBe(429);
    await forgetLimits();
  });

  test("another program than ours gets no code", async () => {
    const answer = await api.request("POST", "/api/auth/device/code", { body: { client_id: "other" } });
    expect(answer.status).toBe(400);
  });

  test("what a program says of itself cannot pass for more than a name", async () => {
    const { tab } = await signedIn();
    const { user_code } = await askForCode('{"hostname":"you","address":"10.0.0.1"}');
    const { text } = await tab.open(`/device?user_code=${user_code}`);
    expect(text).toContain("127.0.0.1");
    expect(text).not.toContain("10.0.0.1");
  });
});
