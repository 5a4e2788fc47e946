import { randomBytes } from "node:crypto";
import { systemClock } from "@svc/runtime/system";
import { sql } from "kysely";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type Answer, type TestApi, testApi } from "../../http/testing.ts";
import type { Db } from "../../stores/db/pool.ts";
import { lockWaits } from "../../stores/db/testing.ts";
import { browser, linkIn, mailTo } from "../pages/testing.ts";
import { createAdmin } from "./admin.ts";
import { type Auth, createAuth } from "./auth.ts";
import { lockAccess, signOutEverywhere } from "./put-out.ts";

let api: TestApi;
let own: Auth;
beforeAll(async () => {
  api = await testApi();
  own = createAuth({ clock: systemClock, config: api.context.config, db: api.db, log: api.context.log, mailer: null });
});
afterAll(async () => {
  await own[Symbol.asyncDispose]();
  await api[Symbol.asyncDispose]();
});
beforeEach(async () => {
  await sql`delete from auth."rateLimit"`.execute(api.db);
  await sql`delete from attempt_bucket`.execute(api.db);
});

const password = "correct horse battery";
const chosen = "another good phrase";
const auth = (path: string, body: object, session?: string): Promise<Answer> =>
  api.request("POST", `/api/auth${path}`, { body, ...(session !== undefined && { session }) });
const signIn = (email: string, tried = password) => auth("/sign-in/email", { email, password: tried });
const me = async (by: { session: string } | { key: string }) => (await api.call("GET", "/me", by)).status;

/** An account that somebody made with an address of theirs, or of somebody else. */
async function account() {
  const email = `${randomBytes(6).toString("hex")}@svc.test`;
  await auth("/sign-up/email", { name: "Ada", email, password });
  const { body } = await signIn(email);
  // The mail that asks to confirm the address goes out after the answer.
  await mailTo(api, email);
  return { email, id: body.user.id as string, session: body.token as string };
}
type Account = Awaited<ReturnType<typeof account>>;
const verify = ({ id }: Account) =>
  api.db.updateTable("auth.user").set({ emailVerified: true }).where("id", "=", id).execute();
const keyOf = async ({ session }: { session: string }) =>
  (await api.call("POST", "/tokens", { session, body: { name: "laptop" } })).body.token.key as string;
const link = ({ id }: { id: string }) =>
  sql`insert into auth."account" ("accountId", "providerId", "userId", "updatedAt")
    values (${randomBytes(8).toString("hex")}, 'githost', ${id}, now())`.execute(api.db);
const providersOf = async ({ id }: { id: string }) =>
  (await api.db.selectFrom("auth.account").select("providerId").where("userId", "=", id).execute())
    .map(({ providerId }) => providerId)
    .sort();

/** A device code that the owner of the session approved, and that its command line has not fetched yet. */
async function approvedCode({ session }: { session: string }): Promise<string> {
  const { body: code } = await auth("/device/code", { client_id: "svc-cli" });
  await api.request("GET", `/api/auth/device?user_code=${code.user_code}`, { session });
  expect((await auth("/device/approve", { userCode: code.user_code }, session)).status).toBe(200);
  return code.device_code;
}
const redeem = (deviceCode: string) => {
  const grant = "urn:ietf:params:oauth:grant-type:device_code";
  return auth("/device/token", { grant_type: grant, device_code: deviceCode, client_id: "svc-cli" });
};
const isWorthNothing = async (deviceCode: string) => {
  const answer = await redeem(deviceCode);
  return answer.status === 400 && answer.body.access_token === undefined;
};

/** The token of a link that is asked for now. */
async function resetToken(email: string): Promise<string> {
  const count = (await api.mails()).filter(({ to }) => to === email).length;
  await auth("/request-password-reset", { email });
  return linkIn(await mailTo(api, email, count + 1)).searchParams.get("token") ?? "";
}
const reset = async (email: string) => auth("/reset-password", { token: await resetToken(email), newPassword: chosen });

/**
 * Starts `call` while a transaction holds what `hold` locked, lets `act` happen in it once the call waits for that, and
 * returns what the call answers.
 */
async function meanwhile(
  hold: (tx: Db) => Promise<unknown>,
  call: () => Promise<Answer>,
  act: (tx: Db) => Promise<unknown>,
): Promise<Answer> {
  const answer = await api.db.transaction().execute(async (tx) => {
    await hold(tx);
    const under = call();
    await expect.poll(() => lockWaits(api.db)).toBeGreaterThan(0);
    await act(tx);
    return { under };
  });
  return answer.under;
}

describe("a stranger who signed up with the address of the operator", () => {
  test("has nothing left that opens it once it is made the administrator's", async () => {
    const stranger = await account();
    const key = await keyOf(stranger);
    const code = await approvedCode(stranger);
    await link(stranger);
    expect(await createAdmin({ db: api.db, auth: own }, { email: stranger.email, password: chosen })).toBe(stranger.id);
    expect(await me(stranger)).toBe(401);
    expect(await me({ key })).toBe(401);
    expect(await isWorthNothing(code)).toBe(true);
    expect(await providersOf(stranger)).toEqual(["credential"]);
    expect((await signIn(stranger.email)).status).toBe(401);
    const { token } = (await signIn(stranger.email, chosen)).body;
    expect((await api.call("GET", "/admin/nodes", { session: token })).status).toBe(200);
  });

  test("gains nothing by having chosen the operator's password, or by a confirmed address", async () => {
    const stranger = await account();
    await verify(stranger);
    const key = await keyOf(stranger);
    await createAdmin({ db: api.db, auth: own }, { email: stranger.email, password });
    expect([await me(stranger), await me({ key })]).toEqual([401, 401]);
  });

  test("an administrator of that password goes on undisturbed when it is said again", async () => {
    const admin = { email: `${randomBytes(6).toString("hex")}@svc.test`, password };
    const id = await createAdmin({ db: api.db, auth: own }, admin);
    const session = (await signIn(admin.email)).body.token as string;
    const key = await keyOf({ session });
    await link({ id });
    expect(await createAdmin({ db: api.db, auth: own }, { ...admin, email: admin.email.toUpperCase() })).toBe(id);
    expect([await me({ session }), await me({ key }), await providersOf({ id })]).toEqual([
      200,
      200,
      ["credential", "githost"],
    ]);
  });
});

describe("a new password puts out whoever knew the old one", () => {
  test.each([true, false])("by mail (address confirmed before: %s)", async (confirmed) => {
    const user = await account();
    if (confirmed) await verify(user);
    await link(user);
    const key = await keyOf(user);
    const code = await approvedCode(user);
    const older = await resetToken(user.email);
    const answer = await reset(user.email);
    expect([answer.status, answer.body]).toEqual([200, { status: true }]);
    expect(await me(user)).toBe(401);
    expect(await isWorthNothing(code)).toBe(true);
    // A way in that somebody had set up who was not the owner of the mailbox, or may not have been.
    expect(await me({ key })).toBe(confirmed ? 200 : 401);
    expect(await providersOf(user)).toEqual(confirmed ? ["credential", "githost"] : ["credential"]);
    // Nor does a link that was mailed before set yet another one.
    expect((await auth("/reset-password", { token: older, newPassword: "a third good phrase" })).status).toBe(400);
    const owner = (await signIn(user.email, chosen)).body.token as string;
    expect((await api.call("GET", "/account", { session: owner })).body.emailVerified).toBe(true);
  });

  test("by the old one", async () => {
    const [user, thief] = [await account(), { session: "" }];
    thief.session = (await signIn(user.email)).body.token;
    const code = await approvedCode(thief);
    const change = { currentPassword: password, newPassword: chosen };
    expect((await auth("/change-password", { ...change, currentPassword: "not right" }, user.session)).status).toBe(
      400,
    );
    expect(await me(thief)).toBe(200);
    const changed = await auth("/change-password", change, user.session);
    expect([changed.status, changed.body.user.email]).toEqual([200, user.email]);
    expect([await me({ session: changed.body.token }), await me(user), await me(thief)]).toEqual([200, 401, 401]);
    expect(await isWorthNothing(code)).toBe(true);
    expect((await signIn(user.email, chosen)).status).toBe(200);
  });

  test("as the first one", async () => {
    const user = await api.newUser();
    const code = await approvedCode(user);
    const answer = await api.call("POST", "/account/set-password", {
      session: user.session,
      body: { newPassword: chosen },
    });
    expect([answer.status, await me(user)]).toEqual([200, 200]);
    expect(await isWorthNothing(code)).toBe(true);
  });
});

describe("what was under way while everybody is signed out comes to nothing", () => {
  const locked = (user: { id: string }) => (tx: Db) => lockAccess(tx, user.id);
  const signOut = (user: { id: string }) => (tx: Db) => signOutEverywhere(tx, user.id, null);

  test("a new API key", async () => {
    const user = await account();
    const create = () => api.call("POST", "/tokens", { session: user.session, body: { name: "back again" } });
    const answer = await meanwhile(locked(user), create, signOut(user));
    expect([answer.status, answer.body.error.code]).toEqual([401, "UNAUTHORIZED"]);
    const keys = await api.db.selectFrom("api_token").select("id").where("user_id", "=", user.id).execute();
    expect(keys).toEqual([]);
  });

  test("a session that has run out makes none either", async () => {
    const user = await account();
    const create = () => api.call("POST", "/tokens", { session: user.session, body: { name: "too late" } });
    const answer = await meanwhile(locked(user), create, (tx) =>
      tx.updateTable("auth.session").set({ expiresAt: new Date() }).where("userId", "=", user.id).execute(),
    );
    expect(answer.status).toBe(401);
  });

  test("a first password that is set with a key which is revoked meanwhile", async () => {
    const user = await api.newUser();
    const { key } = await api.newKey(user);
    const set = () =>
      api.call("POST", "/account/set-password", { key, body: { newPassword: "the thief's own phrase" } });
    const revoke = () => api.db.deleteFrom("api_token").where("user_id", "=", user.id).execute();
    expect((await meanwhile(locked(user), set, revoke)).status).toBe(401);
    expect((await api.call("GET", "/account", { session: user.session })).body.hasPassword).toBe(false);
  });

  test("a change of the password", async () => {
    const user = await account();
    const change = () =>
      auth("/change-password", { currentPassword: password, newPassword: "the thief's own phrase" }, user.session);
    const answer = await meanwhile(locked(user), change, signOut(user));
    expect(answer.status).toBe(401);
    expect(answer.headers.getSetCookie()).toEqual([]);
    expect((await signIn(user.email, "the thief's own phrase")).status).toBe(401);
    expect((await signIn(user.email)).status).toBe(200);
  });

  const noNewSessions = (tx: Db) => sql`lock table auth."session" in share row exclusive mode`.execute(tx);

  test("a sign-in", async () => {
    const user = await account();
    const answer = await meanwhile(noNewSessions, () => signIn(user.email), signOut(user));
    expect([answer.status, answer.body.code]).toEqual([401, "SIGNED_OUT"]);
    const left = await api.db.selectFrom("auth.session").select("id").where("userId", "=", user.id).execute();
    expect(left).toEqual([]);
    expect((await signIn(user.email)).status).toBe(200);
  });

  test("a login of a command line that fetches its session", async () => {
    const user = await account();
    const code = await approvedCode(user);
    const answer = await meanwhile(noNewSessions, () => redeem(code), signOut(user));
    expect([answer.status, answer.body.access_token]).toEqual([401, undefined]);
    const left = await api.db.selectFrom("auth.session").select("id").where("userId", "=", user.id).execute();
    expect(left).toEqual([]);
  });

  test("a login of a command line that is being approved", async () => {
    const user = await account();
    const { body: code } = await auth("/device/code", { client_id: "svc-cli" });
    await api.request("GET", `/api/auth/device?user_code=${code.user_code}`, { session: user.session });
    await meanwhile(
      (tx) => sql`select 1 from auth."deviceCode" where "userId" = ${user.id} for update`.execute(tx),
      () => auth("/device/approve", { userCode: code.user_code }, user.session),
      (tx) => tx.deleteFrom("auth.session").where("userId", "=", user.id).execute(),
    );
    expect(await isWorthNothing(code.device_code)).toBe(true);
  });
});

describe("the link that confirms an address", () => {
  const confirmation = async (email: string) => {
    const { pathname, search, searchParams } = linkIn(await mailTo(api, email));
    return { path: pathname + search, token: searchParams.get("token") ?? "" };
  };
  const isConfirmed = async ({ id }: Account) =>
    (await api.db.selectFrom("auth.user").select("emailVerified").where("id", "=", id).executeTakeFirstOrThrow())
      .emailVerified;

  test("does not arm an account that a stranger made with somebody's address; a new password takes it over", async () => {
    const stranger = await account();
    const key = await keyOf(stranger);
    const { path, token } = await confirmation(stranger.email);
    const bare = await api.request("GET", `/api/auth/verify-email?token=${token}`);
    expect([bare.status, bare.body.code]).toEqual([401, "SIGN_IN_FIRST"]);
    const victim = browser(api);
    const page = await victim.open(path);
    expect(page.text).toContain("Sign in to the account first");
    expect(page.text).not.toContain("Confirm the address");
    const forced = await api.request("POST", "/verify-email", {
      body: new URLSearchParams({ token }).toString(),
      headers: { origin: api.url, "content-type": "application/x-www-form-urlencoded" },
    });
    expect(forced.status).toBe(401);
    expect(await isConfirmed(stranger)).toBe(false);

    expect((await reset(stranger.email)).status).toBe(200);
    expect([await me(stranger), await me({ key }), (await signIn(stranger.email)).status]).toEqual([401, 401, 401]);
    expect(await isConfirmed(stranger)).toBe(true);
  });

  test("works for whoever signs in to the account, who keeps what they made", async () => {
    const user = await account();
    const key = await keyOf(user);
    const { path } = await confirmation(user.email);
    const tab = browser(api);
    const asked = await tab.open(path);
    const to = /href="(\/sign-in\?next=[^"]+)"/.exec(asked.text)?.[1]?.replaceAll("&amp;", "&") ?? "";
    const form = await tab.open(to);
    expect(form.text).toContain("Sign in to confirm your email address.");
    const back = await tab.submit(form, { email: user.email, password });
    expect(back.path).toBe(path);
    expect((await tab.submit(back, {}, "/verify-email")).text).toContain("Address confirmed");
    expect(await isConfirmed(user)).toBe(true);
    expect([await me(user), await me({ key })]).toEqual([200, 200]);
  });

  test("does nothing for somebody who is signed in to another account", async () => {
    const [stranger, victim] = [await account(), await account()];
    const { path } = await confirmation(stranger.email);
    const tab = browser(api);
    await tab.submit(await tab.open("/sign-in"), { email: victim.email, password });
    const page = await tab.submit(await tab.open(path), {}, "/verify-email");
    expect([page.status, page.text.includes("The link is for another account than")]).toEqual([403, true]);
    expect([await isConfirmed(stranger), await isConfirmed(victim)]).toEqual([false, false]);
  });
});

describe("more sign-ins than there is time to hash passwords for", () => {
  test("are told to come back, others are answered meanwhile, and nobody's guesses are used up", async () => {
    const user = await account();
    const flood = Array.from({ length: 150 }, (_, at) =>
      api.request("POST", "/api/auth/sign-in/email", {
        body: { email: `nobody-${at}@svc.test`, password },
        headers: { "x-forwarded-for": `198.51.100.${at}` },
      }),
    );
    expect(await me(user)).toBe(200);
    const answers = await Promise.all(flood);
    const busy = answers.filter(({ status }) => status === 503);
    expect(answers.filter(({ status }) => status === 401).length).toBeGreaterThanOrEqual(34);
    expect(busy.length).toBeGreaterThan(0);
    expect(answers.length - busy.length).toBe(answers.filter(({ status }) => status === 401).length);
    expect(busy[0]?.body).toMatchObject({ code: "UNAVAILABLE", message: expect.stringContaining("Try again") });
    expect(busy[0]?.headers.get("retry-after")).toBe("5");
    const { rows } = await sql<{ used: number }>`
      select count(*)::int as used from attempt_bucket where key like 'sign-in-account:%' and tokens < 39.5`.execute(
      api.db,
    );
    expect(rows[0]?.used).toBe(answers.length - busy.length);
  });
});
