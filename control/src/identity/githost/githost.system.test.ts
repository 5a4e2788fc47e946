import { randomBytes, randomInt } from "node:crypto";
import { systemClock } from "@svc/runtime/system";
import { sql } from "kysely";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type Answer, type TestApi, type TestUser, testApi } from "../../http/testing.ts";
import type { Config } from "../../settings/settings.ts";
import { browser, linkIn, mailTo } from "../pages/testing.ts";
import { createGithostClient } from "./client.ts";
import type { GithostKind } from "./settings.ts";
import { type GithostPerson, startGithost, type TestGithost } from "./testing.ts";

const password = "correct horse battery";
const newEmail = () => `${randomBytes(6).toString("hex")}@svc.test`;
const codeOf = (answer: Answer) => [answer.status, answer.body.error?.code];

function aPerson({
  email = newEmail(),
  verified = true,
  ...changes
}: Partial<GithostPerson & { email: string; verified: boolean }> = {}): GithostPerson & { email: string } {
  return {
    id: randomInt(1, 1_000_000_000),
    login: "ada",
    email,
    emails: [
      { email: `other-${email}`, verified: true, primary: false },
      { email, verified, primary: true },
    ].slice(verified ? 0 : 1),
    ...changes,
  };
}

const stack = new AsyncDisposableStack();
let api: TestApi;
let host: TestGithost;
afterAll(() => stack.disposeAsync());
beforeEach(async () => {
  if (api === undefined) return;
  await sql`delete from auth."user"`.execute(api.db);
  await sql`delete from auth."rateLimit"`.execute(api.db);
  await sql`delete from attempt_bucket`.execute(api.db);
  if (host !== undefined) Object.assign(host, { tokenSeconds: 0, broken: null, beforeRefreshed: null });
});

/** An installation with a Git host of its own. */
async function begin(kind: GithostKind, config: Partial<Config> = {}): Promise<void> {
  const callback = { url: "" };
  // The Git host has to know the address of the installation, which knows the Git host's.
  host = stack.use(await startGithost(kind, { callback: () => callback.url }));
  api = stack.use(await testApi({ config: { ...config, githost: host.config } }));
  callback.url = `${api.url}/api/auth/callback/githost`;
}

const go = async (
  tab: ReturnType<typeof browser>,
  person: GithostPerson,
  from = "/sign-in",
  action = "/sign-in/githost",
) => {
  const away = await tab.submit(await tab.open(from), {}, action);
  if (away.leadsAway === null) throw new Error(`nobody was sent to the Git host:\n${away.text}`);
  return tab.open(host.letIn(away.leadsAway, person));
};
/** A browser that came in through the Git host. */
async function signedIn(person: GithostPerson) {
  const tab = browser(api);
  const home = await go(tab, person);
  expect(home.text).toContain("Hello, ");
  return tab;
}
const usersCalled = (email: string) =>
  api.db.selectFrom("auth.user").select(["id", "emailVerified"]).where("email", "=", email).execute();
const linked = () => api.db.selectFrom("auth.account").selectAll().where("providerId", "=", "githost").execute();
const sessionOf = async (tab: ReturnType<typeof browser>) => ({ cookie: tab.cookie() });

describe.each<GithostKind>(["github", "gitea"])("with %s", (kind) => {
  beforeAll(() => begin(kind));

  test("a newcomer signs up with it, and comes back to the same account", async () => {
    const person = aPerson();
    const tab = await signedIn(person);
    const [user] = await usersCalled(person.email);
    expect(user?.emailVerified).toBe(true);
    const { body } = await api.call("GET", "/account", await sessionOf(tab));
    expect(body).toEqual({ ok: true, hasPassword: false, emailVerified: true, linkedProviders: ["githost"] });
    await signedIn({ ...person, login: "ada-has-married" });
    expect(await usersCalled(person.email)).toHaveLength(1);
    expect(await linked()).toHaveLength(1);
    const actions = await api.db
      .selectFrom("audit")
      .select(["action", "detail"])
      .where("user_id", "=", user?.id ?? "")
      .orderBy("id")
      .execute();
    expect(actions).toEqual([
      { action: "account.create", detail: { via: "githost" } },
      { action: "account.link", detail: { provider: "githost" } },
      { action: "session.start", detail: { via: "githost" } },
      { action: "session.start", detail: { via: "githost" } },
    ]);
  });

  test.each([
    { what: "60,000 characters", name: "x".repeat(60_000), is: "x".repeat(100) },
    { what: "two lines and an escape", name: " Ada\u001b\n\tLove\0lace\u202e ", is: "Ada Lovelace" },
    { what: "blanks", name: " \u0000\u2028", is: "ada.l" },
  ])("somebody whose name there is $what has one that fits here", async ({ name, is }) => {
    const person = aPerson({ email: `ada.l@${randomBytes(6).toString("hex")}.test`, name });
    const tab = await signedIn(person);
    expect((await api.call("GET", "/me", await sessionOf(tab))).body.user.name).toBe(is);
  });

  test("an address that it has not verified has to be confirmed here", async () => {
    const person = aPerson({ verified: false });
    await signedIn(person);
    expect(await usersCalled(person.email)).toMatchObject([{ emailVerified: false }]);
    expect((await mailTo(api, person.email)).subject).toContain("Confirm your email address");
  });

  test.each([true, false])("an address that somebody has here opens nothing (verified there: %s)", async (verified) => {
    const email = newEmail();
    await api.request("POST", "/api/auth/sign-up/email", { body: { name: "Ada", email, password } });
    await sql`update auth."user" set "emailVerified" = true where email = ${email}`.execute(api.db);
    const tab = browser(api);
    const page = await go(tab, aPerson({ email, verified }));
    expect([page.status, page.path.split("?")[0]]).toEqual([403, "/sign-in"]);
    expect(page.text).toContain("There is an account here with the address");
    expect((await api.call("GET", "/me", { cookie: tab.cookie() })).status).toBe(401);
    expect(await linked()).toEqual([]);
  });

  test.each(["ada@deleted.invalid", "\u00e4d\u00e4@svc.test"])(
    "an address that no account can have: %s",
    async (email) => {
      const page = await go(browser(api), aPerson({ email, emails: [{ email, verified: true, primary: true }] }));
      expect([page.status, page.path.split("?")[0]]).toEqual([403, "/sign-in"]);
      expect(page.text).toContain("no email address that an account here can have");
      expect(await usersCalled(email)).toEqual([]);
    },
  );

  test("who is signed in connects it, whatever address they have there, and lists private repositories", async () => {
    const email = newEmail();
    await api.request("POST", "/api/auth/sign-up/email", { body: { name: "Ada", email, password } });
    const tab = browser(api);
    await tab.submit(await tab.open("/sign-in"), { email, password }, "/sign-in");
    expect(codeOf(await api.call("GET", "/githost/repos", await sessionOf(tab)))).toEqual([
      400,
      "GITHOST_NOT_CONNECTED",
    ]);
    const person = aPerson({
      repos: [
        { name: "shop", private: true, updatedAt: "2026-03-01T00:00:00Z" },
        { name: "blog", updatedAt: "2026-04-01T02:00:00+02:00" },
      ],
    });
    const home = await go(tab, person, "/", "/account/githost");
    expect(home.text).toContain("Your Git host account is connected.");
    // Whoever reads the owner's mail learns that there is another way in.
    const told = await mailTo(api, email, 2);
    expect(told.subject).toContain("was connected to your account");
    expect(told.text).toContain(api.url);
    expect((await api.call("GET", "/githost/repos", await sessionOf(tab))).body).toEqual({
      ok: true,
      truncated: false,
      repos: [
        {
          id: "2",
          name: "blog",
          fullName: "ada/blog",
          url: "https://git.svc.test/ada/blog",
          defaultBranch: "main",
          private: false,
          updatedAt: "2026-04-01T00:00:00.000Z",
        },
        {
          id: "1",
          name: "shop",
          fullName: "ada/shop",
          url: "https://git.svc.test/ada/shop",
          defaultBranch: "main",
          private: true,
          updatedAt: "2026-03-01T00:00:00.000Z",
        },
      ],
    });
    // From now on it is a way in; the little that a sign-in asks for does not take the repositories away.
    const other = await signedIn(person);
    expect((await api.call("GET", "/me", await sessionOf(other))).body.user.email).toBe(email);
    expect((await api.call("GET", "/githost/repos", await sessionOf(other))).body.repos).toHaveLength(2);
  });

  test("a key that is limited to projects does not list what the whole account has", async () => {
    const person = aPerson({ repos: [{ name: "shop" }] });
    const tab = await signedIn(person);
    const { id, email } = (await api.call("GET", "/me", await sessionOf(tab))).body.user;
    const user = { id, email, session: "" };
    const { key } = await api.newKey(user, { projectIds: [crypto.randomUUID()] });
    expect(codeOf(await api.call("GET", "/githost/repos", { key }))).toEqual([403, "FORBIDDEN_SCOPE"]);
    const whole = await api.newKey(user);
    expect(codeOf(await api.call("GET", "/githost/repos", { key: whole.key }))[1]).not.toBe("FORBIDDEN_SCOPE");
  });

  test("an account there belongs to one user here", async () => {
    const person = aPerson();
    await signedIn(person);
    const email = newEmail();
    await api.request("POST", "/api/auth/sign-up/email", { body: { name: "Eve", email, password } });
    const tab = browser(api);
    await tab.submit(await tab.open("/sign-in"), { email, password }, "/sign-in");
    expect((await go(tab, person, "/", "/account/githost")).text).toContain("is connected to another account here");
    expect(await linked()).toHaveLength(1);
  });

  test("repositories come page by page, up to a bound", async () => {
    const many = Array.from({ length: 1105 }, (_, at) => ({ name: `repo-${at}` }));
    const person = aPerson({ repos: many.slice(0, 230) });
    const tab = await signedIn(person);
    await relink(tab, person);
    host.asked.length = 0;
    const { body } = await api.call("GET", "/githost/repos", await sessionOf(tab));
    expect([body.repos.length, body.truncated]).toEqual([230, false]);
    expect(host.asked).toHaveLength(kind === "github" ? 3 : 5);
    person.repos = many;
    const bounded = (await api.call("GET", "/githost/repos", await sessionOf(tab))).body;
    expect([bounded.repos.length, bounded.truncated]).toEqual([1000, true]);
  });

  test("tokens are sealed in the database", async () => {
    host.tokenSeconds = 3600;
    await signedIn(aPerson());
    const [account] = await linked();
    const stored = JSON.stringify(account);
    for (const token of [...host.tokens.keys(), ...host.refreshTokens.keys()]) expect(stored).not.toContain(token);
    expect(account?.accessToken).toEqual(expect.any(String));
    expect(account?.refreshToken).toEqual(expect.any(String));
  });

  test("a token that has run out is exchanged, by many at once without harm", async () => {
    host.tokenSeconds = 1;
    const person = aPerson({ repos: [{ name: "shop" }] });
    const tab = await signedIn(person);
    await relink(tab, person);
    host.tokenSeconds = 3600;
    const old = new Set(host.tokens.keys());
    const answers = await Promise.all(
      Array.from({ length: 4 }, async () => api.call("GET", "/githost/repos", await sessionOf(tab))),
    );
    // The refresh token works once: who came second uses what the first one got, or is told to try again.
    expect(answers.filter(({ status }) => status === 200).length).toBeGreaterThanOrEqual(1);
    expect((await api.call("GET", "/githost/repos", await sessionOf(tab))).body.repos).toHaveLength(1);
    expect([...host.tokens.keys()].filter((token) => !old.has(token))).toHaveLength(1);
  });

  test("what was granted while a token is exchanged is used, and stays", async () => {
    host.tokenSeconds = 1;
    const person = aPerson({ repos: [{ name: "shop" }] });
    const tab = await signedIn(person);
    await relink(tab, person);
    host.tokenSeconds = 3600;
    host.beforeRefreshed = async () => {
      const late = [...host.tokens.keys()].at(-1) ?? "";
      await relink(tab, person);
      host.tokens.delete(late);
    };
    for (const _ of [1, 2])
      expect((await api.call("GET", "/githost/repos", await sessionOf(tab))).body.repos).toHaveLength(1);
  });

  test("a token that was taken back has to be renewed by connecting again", async () => {
    const person = aPerson({ repos: [{ name: "shop" }] });
    const tab = await signedIn(person);
    host.tokens.clear();
    expect(codeOf(await api.call("GET", "/githost/repos", await sessionOf(tab)))).toEqual([
      400,
      "GITHOST_TOKEN_INVALID",
    ]);
    await relink(tab, person);
    expect((await api.call("GET", "/githost/repos", await sessionOf(tab))).status).toBe(200);
  });

  test.each([
    { what: "fails", broken: { status: 500 } },
    { what: "says something else", broken: { status: 200, body: "<html>" } },
    { what: "sends us elsewhere", broken: { status: 302, headers: { location: "http://169.254.169.254/" } } },
    { what: "has had enough", broken: { status: 403, headers: { "x-ratelimit-remaining": "0" } } },
    { what: "breaks off", broken: { status: 200, body: `[${"1,".repeat(5_000_000)}` } },
  ])("a Git host that $what is away for now", async ({ broken }) => {
    const tab = await signedIn(aPerson());
    host.broken = { path: "/user/repos", ...broken };
    const answer = await api.call("GET", "/githost/repos", await sessionOf(tab));
    expect(codeOf(answer)).toEqual([503, "UNAVAILABLE"]);
    expect(answer.headers.get("retry-after")).toBe("30");
  });

  test("who is banned is told so, and gets no session", async () => {
    const person = aPerson();
    await signedIn(person);
    await sql`update auth."user" set banned = true`.execute(api.db);
    const tab = browser(api);
    const page = await go(tab, person);
    expect([page.status, page.text.includes("This account is blocked.")]).toEqual([403, true]);
    expect((await api.call("GET", "/me", { cookie: tab.cookie() })).status).toBe(401);
  });
});

/** Connects once more, with all that connecting asks for. */
async function relink(tab: ReturnType<typeof browser>, person: GithostPerson): Promise<void> {
  const away = await api.request("POST", "/account/githost", {
    cookie: tab.cookie(),
    body: "",
    headers: { origin: api.url, "content-type": "application/x-www-form-urlencoded" },
  });
  for (const cookie of away.headers.getSetCookie()) {
    const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(cookie) ?? [];
    tab.plant(name, value);
  }
  await tab.open(host.letIn(away.headers.get("location") ?? "", person));
}

function refused({ searchParams }: URL, error: string): void {
  searchParams.delete("code");
  searchParams.set("error", error);
}

describe("the way there and back", () => {
  beforeAll(() => begin("github"));

  async function onTheWay(tab: ReturnType<typeof browser>, person = aPerson()) {
    const away = await tab.submit(await tab.open("/sign-in"), {}, "/sign-in/githost");
    return host.letIn(away.leadsAway ?? "", person);
  }

  test("browsers may send the form there, and nowhere else", async () => {
    const page = await browser(api).open("/sign-in");
    expect(page.headers.get("content-security-policy")).toContain(`form-action 'self' ${host.config.url};`);
    expect((await browser(api).open("/forgot-password")).headers.get("content-security-policy")).toContain(
      "form-action 'self';",
    );
  });

  test("an answer is worth nothing in another browser, nor a second time", async () => {
    const tab = browser(api);
    const back = await onTheWay(tab);
    const elsewhere = await browser(api).open(back);
    expect([elsewhere.status, elsewhere.path.split("?")[0]]).toEqual([403, "/sign-in"]);
    expect(elsewhere.text).toContain("began in another browser");
    expect((await tab.open(back)).text).toContain("Hello, ");
    expect((await browser(api).open(back)).status).toBe(403);
  });

  test.each([
    ["no state", (back: URL) => back.searchParams.delete("state")],
    ["another state", (back: URL) => back.searchParams.set("state", "a".repeat(32))],
    ["another code", (back: URL) => back.searchParams.set("code", "a".repeat(40))],
    ["no code", (back: URL) => back.searchParams.delete("code")],
    ["a refusal", (back: URL) => refused(back, "access_denied")],
    ["markup for a refusal", (back: URL) => refused(back, "<b>x")],
  ])("with %s nobody is signed in", async (_, change) => {
    const tab = browser(api);
    const back = new URL(await onTheWay(tab), api.url);
    change(back);
    const page = await tab.open(back.pathname + back.search);
    expect([page.status, page.path.split("?")[0]]).toEqual([403, "/sign-in"]);
    expect(page.text).not.toContain("<b>x");
    expect((await api.call("GET", "/me", { cookie: tab.cookie() })).status).toBe(401);
  });

  test("whoever was signed out on the way connects nothing", async () => {
    const email = newEmail();
    await api.request("POST", "/api/auth/sign-up/email", { body: { name: "Ada", email, password } });
    const tab = browser(api);
    await tab.submit(await tab.open("/sign-in"), { email, password }, "/sign-in");
    const away = await tab.submit(await tab.open("/"), {}, "/account/githost");
    const back = host.letIn(away.leadsAway ?? "", aPerson());
    await sql`delete from auth."session"`.execute(api.db);
    await tab.open(back);
    expect(await linked()).toEqual([]);
    expect((await api.mails()).filter(({ to, subject }) => to === email && subject.includes("connected"))).toEqual([]);
  });

  test("after it the command line's login goes on", async () => {
    const device = await api.request("POST", "/api/auth/device/code", { body: { client_id: "svc-cli" } });
    const next = `/device?user_code=${device.body.user_code}`;
    const page = await go(browser(api), aPerson(), `/sign-in?next=${encodeURIComponent(next)}`);
    expect(page.path).toBe(next);
    expect(page.text).toContain("Let this command line in?");
  });

  test("it begins on our own pages only", async () => {
    for (const headers of [{ origin: "https://evil.test" }, {}])
      for (const path of ["/sign-in/githost", "/account/githost", "/account/githost/disconnect"]) {
        const answer = await api.request("POST", path, {
          body: "",
          headers: { ...headers, "content-type": "application/x-www-form-urlencoded" },
        });
        expect(answer.status).toBe(403);
      }
    for (const path of ["/sign-in/social", "/link-social", "/unlink-account", "/get-access-token"])
      expect((await api.request("POST", `/api/auth${path}`, { body: { provider: "githost" } })).status).toBe(404);
  });

  test("a Git host that does not say who it was signs nobody in", async () => {
    for (const path of ["/login/oauth/access_token", "/user", "/user/emails"]) {
      const tab = browser(api);
      const back = await onTheWay(tab);
      host.broken = { path, status: 500 };
      const page = await tab.open(back);
      host.broken = null;
      expect([page.status, page.path.split("?")[0]], path).toEqual([403, "/sign-in"]);
    }
  });

  test("a Git host that says nothing is given up", async () => {
    const client = createGithostClient(systemClock, host.config, 200);
    host.broken = { path: "/user", status: 200, hang: true };
    const start = performance.now();
    await expect(client.user("token")).rejects.toMatchObject({ name: "GithostError", trouble: "away" });
    expect(performance.now() - start).toBeLessThan(3_000);
  });

  test("an account of another Git host with the same number is somebody else", async () => {
    const person = aPerson();
    await signedIn(person);
    await sql`update auth.account set "accountId" = 'other.test/' || ${`${person.id}`} where "providerId" = 'githost'`.execute(
      api.db,
    );
    const page = await go(browser(api), person);
    expect(page.text).toContain("There is an account here with the address");
    const [user] = await usersCalled(person.email);
    const session = "s".repeat(32);
    await sql`insert into auth."session" (token, "userId", "expiresAt", "updatedAt")
      values (${session}, ${user?.id}, now() + interval '1 day', now())`.execute(api.db);
    expect(codeOf(await api.call("GET", "/githost/repos", { session }))).toEqual([400, "GITHOST_NOT_CONNECTED"]);
  });

  test("the connection can be given up when there is a password", async () => {
    const person = aPerson();
    const tab = await signedIn(person);
    const kept = await tab.submit(await tab.open("/"), {}, "/account/githost/disconnect");
    expect(kept.text).toContain("Set a password first");
    const set = await api.call("POST", "/account/set-password", {
      cookie: tab.cookie(),
      headers: { origin: api.url },
      body: { newPassword: password },
    });
    expect(set.status).toBe(200);
    const gone = await tab.submit(await tab.open("/"), {}, "/account/githost/disconnect");
    expect(gone.text).toContain("Connect your account");
    expect(await linked()).toEqual([]);
  });
});

describe("GET /githost/repos", () => {
  test("on an installation without a Git host nothing is connected", async () => {
    api = stack.use(await testApi());
    const { session } = await api.newUser();
    expect(codeOf(await api.call("GET", "/githost/repos", { session }))).toEqual([400, "GITHOST_NOT_CONNECTED"]);
    const page = await browser(api).open("/sign-in");
    expect(page.text).not.toContain("Continue with");
    expect((await api.request("POST", "/sign-in/githost", { body: "" })).status).toBe(404);
    expect((await api.request("GET", "/api/auth/callback/githost?code=x&state=y")).headers.get("location")).toContain(
      "/sign-in?error=",
    );
  });
});

describe("sign-up modes hold for the Git host too", () => {
  const invite = async (admin: TestUser, email: string) =>
    (await api.call("POST", "/admin/invites", { session: admin.session, body: { email } })).body.inviteCode as string;

  test("closed: only who has an account comes in", async () => {
    await begin("github", { signup: "closed" });
    const person = aPerson();
    const page = await go(browser(api), person);
    expect([page.status, page.text.includes("nobody can sign up by themselves")]).toEqual([403, true]);
    expect(await usersCalled(person.email)).toEqual([]);
  });

  test("invite: only who was invited, with that address, once", async () => {
    await begin("gitea", { signup: "invite" });
    const admin = await api.newUser({ admin: true });
    const person = aPerson();
    const uninvited = await go(browser(api), person);
    expect([uninvited.status, uninvited.text.includes("needs an invitation")]).toEqual([403, true]);

    const code = await invite(admin, person.email);
    const other = aPerson();
    expect((await go(browser(api), other, `/sign-up?invite=${code}`)).status).toBe(403);
    expect(await usersCalled(other.email)).toEqual([]);

    const link = linkIn(await mailTo(api, person.email));
    const home = await go(browser(api), person, link.pathname + link.search);
    expect(home.text).toContain("Hello, ");
    expect(await usersCalled(person.email)).toMatchObject([{ emailVerified: true }]);
    await sql`delete from auth."user" where email = ${person.email}`.execute(api.db);
    expect((await go(browser(api), person, link.pathname + link.search)).status).toBe(403);
  });
});
