import { randomBytes } from "node:crypto";
import { sql } from "kysely";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type TestApi, testApi } from "../../http/testing.ts";
import { linkIn, mailTo } from "../pages/testing.ts";

let api: TestApi;
beforeAll(async () => {
  api = await testApi();
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
const auth = (path: string, body: object, headers: Record<string, string> = {}) =>
  api.request("POST", `/api/auth${path}`, { body, headers });
/** The reverse proxy on this machine is believed about where a request comes from. */
const from = (address: string) => ({ "x-forwarded-for": address });
const signIn = (email: string, tried: string, headers: Record<string, string> = {}) =>
  auth("/sign-in/email", { email, password: tried }, headers);

async function account(email = newEmail()) {
  await auth("/sign-up/email", { name: "Ada", email, password }, from("203.0.113.1"));
  return email;
}

/** Cookies of an answer, as a browser sends them back. */
const cookiesOf = (headers: Headers) =>
  headers
    .getSetCookie()
    .map((cookie) => cookie.split(";", 1)[0])
    .join("; ");

/** Wrong guesses at `email`, each from another address of one network; the statuses. */
async function guesses(email: string, count: number, network = "198.51.100") {
  const statuses: number[] = [];
  for (let at = 0; at < count; at++)
    statuses.push((await signIn(email, `wrong guess ${at}`, from(`${network}.${at}`))).status);
  return statuses;
}

/** As many wrong guesses at `email` as strangers have, but for the time that they take. */
async function exhaust(email: string): Promise<void> {
  await guesses(email, 1);
  await sql`update attempt_bucket set tokens = 0, at = clock_timestamp() where key like 'sign-in-account:%'`.execute(
    api.db,
  );
  expect(await guesses(email, 1)).toEqual([429]);
}

/** As if so many attempts more had been counted of this kind. */
const spend = (what: string, count: number) =>
  sql`update attempt_bucket set tokens = tokens - ${count} where key like ${`${what}:%`}`.execute(api.db);

describe("guessing a password", () => {
  test("is held back per account and network, and alike for an address without account", async () => {
    const known = await guesses(await account(), 12);
    const unknown = await guesses(newEmail(), 12);
    expect(known).toEqual([...Array(10).fill(401), 429, 429]);
    expect(unknown).toEqual(known);
  });

  test("in one network holds nobody back who is in another", async () => {
    const email = await account();
    expect((await guesses(email, 14)).at(-1)).toBe(429);
    // Nor does what is held back use up the guesses of all.
    const { rows } = await sql<{ tokens: number }>`
      select tokens from attempt_bucket where key like 'sign-in-account:%'`.execute(api.db);
    expect(rows[0]?.tokens).toBeCloseTo(30, 0);
    expect((await signIn(email, password, from("192.0.2.1"))).status).toBe(200);
  });

  test("is held back per account from however many networks", async () => {
    for (const email of [await account(), newEmail()]) {
      expect(await guesses(email, 1)).toEqual([401]);
      await spend("sign-in-account", 36);
      const statuses: number[] = [];
      for (let network = 0; network < 5; network++) statuses.push(...(await guesses(email, 1, `203.0.${network}`)));
      expect(statuses).toEqual([401, 401, 401, 429, 429]);
      await sql`delete from attempt_bucket`.execute(api.db);
    }
  });

  test("is held back for an account, too, whose address nobody could sign up with by now", async () => {
    const email = await account();
    const former = email.replace("@svc.test", "@svc.invalid");
    await api.db.updateTable("auth.user").set({ email: former }).where("email", "=", email).execute();
    expect((await guesses(former, 12)).slice(-2)).toEqual([429, 429]);
    await sql`delete from attempt_bucket`.execute(api.db);
    expect((await signIn(former, password)).status).toBe(200);
  });

  test("at once gets no more tries than one after the other", async () => {
    const email = await account();
    const answers = await Promise.all(
      Array.from({ length: 14 }, (_, at) => signIn(email, `wrong guess ${at}`, from(`198.51.100.${at}`))),
    );
    expect(answers.filter(({ status }) => status === 401)).toHaveLength(10);
  });

  test("gives no answer to the right password once too many were wrong, and a while later it does", async () => {
    const email = await account();
    await exhaust(email);
    const refused = await signIn(email, password, from("192.0.2.1"));
    expect([refused.status, refused.body.code]).toEqual([429, "RATE_LIMITED"]);
    expect([refused.body.ok, refused.body.error.code]).toEqual([false, "RATE_LIMITED"]);
    expect(refused.body.error.message).toBe(refused.body.message);
    const wait = Number(refused.headers.get("retry-after"));
    expect(wait).toBeGreaterThan(0);
    expect(wait).toBeLessThanOrEqual(300);
    await sql`update attempt_bucket set at = at - ${wait} * interval '1 second'`.execute(api.db);
    expect((await signIn(email, password, from("192.0.2.1"))).status).toBe(200);
  });

  test("leaves the right password a way in by mail, and tells who asks nothing", async () => {
    const [email, other, unknown] = [await account(), await account(), newEmail()];
    for (const each of [email, other, unknown]) await exhaust(each);
    const right = await signIn(email, password, from("192.0.2.1"));
    const wrong = await signIn(other, "a wrong password", from("192.0.2.1"));
    const nobody = await signIn(unknown, password, from("192.0.2.1"));
    const shapes = [right, wrong, nobody].map(({ status, text, headers }) => [
      status,
      text.replace(/\d+ seconds/g, "N seconds"),
      [...headers.keys()].sort(),
    ]);
    expect(shapes).toEqual([shapes[0], shapes[0], shapes[0]]);
    expect(right.status).toBe(429);
    expect(right.headers.getSetCookie()).toEqual([]);

    const url = linkIn(await mailTo(api, email, 2));
    expect(url.pathname).toBe("/sign-in");
    const link = url.searchParams.get("link") ?? "";
    await exhaust(email);
    // It is no password, and of no use at another account.
    const byLink = (to: string, tried: string) =>
      auth("/sign-in/email", { email: to, password: tried, link }, from("192.0.2.3"));
    expect((await byLink(email, "a wrong password")).status).toBe(401);
    expect((await byLink(other, password)).status).toBe(429);
    const inside = await byLink(email, password);
    expect(inside.status).toBe(200);
    // From then on this browser is known.
    const own = { ...from("192.0.2.3"), cookie: cookiesOf(inside.headers), origin: api.url };
    expect((await signIn(email, password, own)).status).toBe(200);
    // The wrong password sent nothing; the right one that came with the link of another account did.
    await mailTo(api, other, 2);
    const subjects = (await api.mails())
      .filter(({ to }) => [other, unknown].includes(to))
      .map(({ subject }) => subject);
    expect(subjects.filter((subject) => subject.startsWith("Sign in"))).toHaveLength(1);
  });

  test("gets no more guesses by a mailed link than from a known browser, and no flood of mails", async () => {
    const email = await account();
    await exhaust(email);
    for (let at = 0; at < 5; at++) await signIn(email, password, from("192.0.2.1"));
    const link = linkIn(await mailTo(api, email, 4)).searchParams.get("link");
    await mailTo(api, await account());
    expect((await api.mails()).filter(({ to }) => to === email)).toHaveLength(4);
    const guess = (at: number) =>
      auth("/sign-in/email", { email, password: `wrong guess ${at}`, link }, from(`203.0.${at}.1`));
    expect((await guess(0)).status).toBe(401);
    await spend("sign-in-device", 17);
    const statuses = [await guess(1), await guess(2), await guess(3)].map(({ status }) => status);
    expect(statuses).toEqual([401, 401, 429]);
  });

  test("of one client does not cost anything but a refusal once it has tried too often", async () => {
    const email = await account();
    await exhaust(email);
    await sql`update attempt_bucket set tokens = 0, at = clock_timestamp() where key like 'sign-in-address:%'`.execute(
      api.db,
    );
    const refused = await signIn(email, password, from("198.51.100.0"));
    expect([refused.status, refused.body.mailsLink]).toEqual([429, false]);
    await mailTo(api, await account());
    expect((await api.mails()).filter(({ to }) => to === email)).toHaveLength(1);
  });

  test("does not lock the owner out of a browser that has signed in before", async () => {
    const email = await account();
    const cookie = cookiesOf((await signIn(email, password, from("192.0.2.1"))).headers);
    await exhaust(email);
    const own = { ...from("192.0.2.2"), cookie, origin: api.url };
    expect((await signIn(email, password, own)).status).toBe(200);
    // Nor is the mark worth anything at another account.
    const other = await account();
    await exhaust(other);
    expect((await signIn(other, password, own)).status).toBe(429);
  });

  test("is not had again by what was made under an earlier password", async () => {
    const email = await account();
    const [own, other] = [await signIn(email, password), await signIn(email, password)];
    const changed = await api.request("POST", "/api/auth/change-password", {
      session: own.body.token,
      body: { currentPassword: password, newPassword: "another good one" },
    });
    expect(changed.status).toBe(200);
    await exhaust(email);
    const from3 = (cookie: string) => ({ ...from("192.0.2.3"), cookie, origin: api.url });
    for (const { headers } of [own, other])
      expect((await signIn(email, "another good one", from3(cookiesOf(headers)))).status).toBe(429);
    expect((await signIn(email, "another good one", from3(cookiesOf(changed.headers)))).status).toBe(200);
  });

  test("of somebody who is signed in is held back, too", async () => {
    const email = await account();
    const session = (await signIn(email, password)).body.token as string;
    const change = async (currentPassword: string) => {
      await sql`delete from auth."rateLimit"`.execute(api.db);
      const body = { currentPassword, newPassword: "another good one" };
      const {
        status,
        body: answer,
        headers,
      } = await api.request("POST", "/api/auth/change-password", { session, body });
      return { told: [status, answer.code], wait: Number(headers.get("retry-after")) };
    };
    expect((await change("a wrong one")).told).toEqual([400, "INVALID_PASSWORD"]);
    await spend("password-check", 9);
    const { told, wait } = await change(password);
    expect(told).toEqual([429, "RATE_LIMITED"]);
    expect(wait).toBeGreaterThan(0);
    await sql`update attempt_bucket set at = at - ${wait} * interval '1 second'`.execute(api.db);
    expect((await change(password)).told[0]).toBe(200);
  });

  test("nor out of the account for good: a reset by mail lets them in at once", async () => {
    const email = await account();
    await exhaust(email);
    await auth("/request-password-reset", { email });
    const token = linkIn(await mailTo(api, email, 2)).searchParams.get("token");
    const reset = await auth("/reset-password", { token, newPassword: "another good one" });
    expect(reset.status).toBe(200);
    expect((await signIn(email, "another good one", from("192.0.2.1"))).status).toBe(200);
    // In the browser of the reset also while others go on.
    await exhaust(email);
    expect((await signIn(email, "another good one", from("192.0.2.1"))).status).toBe(429);
    const own = { ...from("192.0.2.1"), cookie: cookiesOf(reset.headers), origin: api.url };
    expect((await signIn(email, "another good one", own)).status).toBe(200);
  });

  test("does not keep the owner out at home either, once a reset by mail was made elsewhere", async () => {
    const email = await account();
    expect((await guesses(email, 11)).at(-1)).toBe(429);
    const other = await account();
    expect((await guesses(other, 11)).at(-1)).toBe(429);
    await auth("/request-password-reset", { email }, from("192.0.2.1"));
    const token = linkIn(await mailTo(api, email, 2)).searchParams.get("token");
    const reset = await auth("/reset-password", { token, newPassword: "another good one" }, from("192.0.2.1"));
    expect(reset.status).toBe(200);
    expect((await signIn(email, "another good one", from("198.51.100.200"))).status).toBe(200);
    // What was guessed at anybody else stays counted.
    expect((await signIn(other, password, from("198.51.100.200"))).status).toBe(429);
  });

  test("one client cannot try one password at everybody", async () => {
    const spray = async (count: number) => {
      const statuses: number[] = [];
      for (let at = 0; at < count; at++)
        statuses.push((await signIn(newEmail(), "summer rain 2026", from(`2001:db8:1:2::${at + 1}`))).status);
      return statuses;
    };
    expect(await spray(2)).toEqual([401, 401]);
    await spend("sign-in-address", 57);
    expect(await spray(3)).toEqual([401, 429, 429]);
    expect((await signIn(newEmail(), "summer rain 2026", from("2001:db8:1:3::1"))).status).toBe(401);
  });

  test("signing in as oneself in between gives no further guesses", async () => {
    const [victim, own] = [await account(), await account()];
    const statuses: number[] = [];
    for (let at = 0; at < 3; at++) {
      await signIn(own, password, from("192.0.2.9"));
      statuses.push((await signIn(victim, `wrong guess ${at}`, from("192.0.2.9"))).status);
    }
    expect(statuses).toEqual([401, 401, 401]);
    const { rows } = await sql<{ tokens: number }>`
      select tokens from attempt_bucket where key like 'sign-in-address:%'`.execute(api.db);
    expect(rows[0]?.tokens).toBeCloseTo(57, 0);
  });

  test("leaves lines in the audit that name the account and neither address nor password, a bounded number of them", async () => {
    const email = await account();
    const { id } = await api.db
      .selectFrom("auth.user")
      .select("id")
      .where("email", "=", email)
      .executeTakeFirstOrThrow();
    await guesses(email, 3);
    await guesses(newEmail(), 3);
    const refused = () =>
      api.db.selectFrom("audit").selectAll().where("action", "=", "session.refuse").orderBy("id").execute();
    const lines = await refused();
    expect(lines.filter(({ target }) => target === id)).toHaveLength(3);
    expect(lines.filter(({ target }) => target === null).length).toBeGreaterThanOrEqual(3);
    expect(lines.at(-1)?.address).toBe("198.51.100.2");
    expect(JSON.stringify(lines)).not.toMatch(/guess|svc\.test/);

    // None comes back until then, however long the guesses take.
    const nothingLeft = sql`tokens = 0, at = clock_timestamp() + interval '1 hour'`;
    await sql`update attempt_bucket set ${nothingLeft} where key like 'audit:%'`.execute(api.db);
    await guesses(newEmail(), 2);
    expect(await refused()).toHaveLength(lines.length);
    // Junk hides no guess at an account that there is, whose lines have a bound of their own.
    await guesses(email, 2);
    expect((await refused()).filter(({ target }) => target === id)).toHaveLength(5);
    await sql`update attempt_bucket set ${nothingLeft} where key like 'audit-target:%'`.execute(api.db);
    await guesses(email, 2);
    expect((await refused()).filter(({ target }) => target === id)).toHaveLength(5);
    const other = await account();
    await guesses(other, 1);
    expect((await refused()).filter(({ target }) => target !== id && target !== null)).not.toEqual([]);
  });
});

describe("nobody learns who has an account", () => {
  /** The shape of an answer, without what is made up anew each time. */
  const shape = ({ status, text }: { status: number; text: string }, email: string) => [
    status,
    text
      .replaceAll(email, "EMAIL")
      .replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/g, "ID")
      .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "TIME"),
  ];
  /** How the quickest of several calls compares to the quickest of others, made in turn: load makes calls slow, never quick. */
  async function quickness(one: () => Promise<unknown>, other: () => Promise<unknown>): Promise<number> {
    const quickest = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
    for (let round = 0; round < 4; round++)
      for (const [at, call] of [one, other].entries()) {
        const start = performance.now();
        await call();
        quickest[at] = Math.min(quickest[at] ?? 0, performance.now() - start);
      }
    return (quickest[0] ?? 0) / (quickest[1] ?? 1);
  }

  test("signing up", async () => {
    const [taken, fresh] = [await account(), newEmail()];
    const body = (email: string) => ({ name: "Ada", email, password: "a different password" });
    const known = await auth("/sign-up/email", body(taken));
    const unknown = await auth("/sign-up/email", body(fresh));
    expect(shape(known, taken)).toEqual(shape(unknown, fresh));
    expect(known.headers.getSetCookie()).toEqual([]);
    expect(unknown.headers.getSetCookie()).toEqual([]);
    // The account that there was is untouched.
    expect((await signIn(taken, password)).status).toBe(200);
    const ratio = await quickness(
      () => auth("/sign-up/email", body(taken), from("192.0.2.50")),
      () => auth("/sign-up/email", body(newEmail()), from("192.0.2.51")),
    );
    expect(ratio).toBeGreaterThan(0.3);
  });

  test("signing in, with a ban or without", async () => {
    const [known, banned, unknown] = [await account(), await account(), newEmail()];
    await api.db.updateTable("auth.user").set({ banned: true }).where("email", "=", banned).execute();
    const answers = await Promise.all([known, banned, unknown].map((email) => signIn(email, "a wrong password")));
    expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
    expect(answers[0]?.status).toBe(401);
    const right = await signIn(banned, password);
    expect([right.status, right.body.code]).toEqual([403, "BANNED_USER"]);
    const ratio = await quickness(
      () => signIn(newEmail(), "a wrong password", from("192.0.2.60")),
      () => signIn(known, "a wrong password", from("192.0.2.61")),
    );
    expect(ratio).toBeGreaterThan(0.3);
    expect(ratio).toBeLessThan(3);
  });

  test("a ban that has run out lets its user in again", async () => {
    const email = await account();
    const banExpires = new Date(Date.now() - 1000);
    await api.db.updateTable("auth.user").set({ banned: true, banExpires }).where("email", "=", email).execute();
    expect((await signIn(email, password)).status).toBe(200);
  });

  test.each(["/request-password-reset", "/send-verification-email"])("%s", async (path) => {
    const [known, verified, unknown] = [await account(), await account(), newEmail()];
    await api.db.updateTable("auth.user").set({ emailVerified: true }).where("email", "=", verified).execute();
    const answers = await Promise.all([known, verified, unknown].map((email) => auth(path, { email })));
    expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
    expect(answers[0]?.status).toBe(200);
    await mailTo(api, known, 2);
    expect((await api.mails()).filter(({ to }) => to === unknown)).toEqual([]);
  });
});

test("nobody's mailbox can be flooded", async () => {
  const email = await account();
  for (let at = 0; at < 8; at++) await auth("/request-password-reset", { email }, from(`198.51.100.${at}`));
  await mailTo(api, email, 5);
  // A mail to somebody else goes out behind those.
  await mailTo(api, await account());
  expect((await api.mails()).filter(({ to }) => to === email)).toHaveLength(5);
});

describe("sessions", () => {
  test("each sign-in has a token of its own, whatever the browser brought along", async () => {
    const [victim, attacker] = [await account(), await account()];
    const attackers = (await signIn(attacker, password)).body.token as string;
    for (const planted of ["a".repeat(32), `${"a".repeat(32)}.${"b".repeat(43)}=`, attackers]) {
      const answer = await signIn(victim, password, { cookie: `svc.session_token=${planted}`, origin: api.url });
      expect(answer.status).toBe(200);
      expect(answer.body.token).not.toBe(planted.split(".")[0]);
      expect(decodeURIComponent(cookiesOf(answer.headers))).not.toContain(planted);
      const me = await api.call("GET", "/me", { cookie: `svc.session_token=${planted}` });
      expect(me.status).toBe(401);
    }
    const me = await api.call("GET", "/me", { session: attackers });
    expect(me.body.user.email).toBe(attacker);
    const tokens = await Promise.all([1, 2].map(async () => (await signIn(victim, password)).body.token));
    expect(new Set(tokens).size).toBe(2);
  });

  test("a changed password ends the others, and the one that changed it goes on under a new token", async () => {
    const email = await account();
    const [own, other] = [
      (await signIn(email, password)).body.token as string,
      (await signIn(email, password)).body.token as string,
    ];
    const change = (newPassword: string) =>
      api.request("POST", "/api/auth/change-password", {
        session: own,
        body: { currentPassword: password, newPassword, revokeOtherSessions: false },
      });
    const easy = await change(email);
    expect([easy.status, easy.body.code]).toEqual([400, "PASSWORD_TOO_EASY"]);
    expect((await api.call("GET", "/me", { session: other })).status).toBe(200);
    const changed = await change("another good one");
    expect(changed.status).toBe(200);
    expect((await api.call("GET", "/me", { session: changed.body.token })).status).toBe(200);
    expect((await api.call("GET", "/me", { session: own })).status).toBe(401);
    expect((await api.call("GET", "/me", { session: other })).status).toBe(401);
  });

  test("what happened is in the audit, with who, from where, and by which way", async () => {
    const email = await account();
    const session = (await signIn(email, password, from("192.0.2.77"))).body.token as string;
    const changed = await api.request("POST", "/api/auth/change-password", {
      session,
      body: { currentPassword: password, newPassword: "another good one" },
    });
    await api.request("POST", "/api/auth/sign-out", { session: changed.body.token, body: {} });
    await auth("/request-password-reset", { email });
    const token = linkIn(await mailTo(api, email, 2)).searchParams.get("token");
    await auth("/reset-password", { token, newPassword: "a third good one" });
    const { id } = await api.db
      .selectFrom("auth.user")
      .select("id")
      .where("email", "=", email)
      .executeTakeFirstOrThrow();
    const lines = await api.db
      .selectFrom("audit")
      .select(["action", "address", "detail", "target"])
      .where("user_id", "=", id)
      .orderBy("id")
      .execute();
    expect(lines.map(({ action, detail }) => [action, detail])).toEqual([
      ["account.create", { via: "password" }],
      ["session.start", { via: "password" }],
      ["account.change-password", {}],
      ["session.end", {}],
      ["account.reset-password", {}],
    ]);
    expect(lines[1]).toMatchObject({ address: "192.0.2.77", target: id });
    expect(lines.every(({ address }) => address !== "")).toBe(true);
  });

  test("a reset of an account whose address was never proven takes it from whoever made it", async () => {
    const email = await account();
    const session = (await signIn(email, password)).body.token as string;
    const { id } = await api.db
      .selectFrom("auth.user")
      .select("id")
      .where("email", "=", email)
      .executeTakeFirstOrThrow();
    const { key } = await api.newKey({ id, email, session });
    expect((await api.call("GET", "/me", { key })).status).toBe(200);
    await auth("/request-password-reset", { email });
    const token = linkIn(await mailTo(api, email, 2)).searchParams.get("token");
    await auth("/reset-password", { token, newPassword: "another good one" });
    expect((await api.call("GET", "/me", { key })).status).toBe(401);
    const owner = (await signIn(email, "another good one")).body.token as string;
    expect((await api.call("GET", "/account", { session: owner })).body.emailVerified).toBe(true);
  });
});

describe("a password that is tried first by everybody", () => {
  test("is refused at sign-up and at a reset", async () => {
    const email = newEmail();
    const local = email.slice(0, email.indexOf("@"));
    for (const easy of ["password123", email, local, "12345678"]) {
      const answer = await auth("/sign-up/email", { name: "Ada", email, password: easy }, from("192.0.2.90"));
      expect([answer.status, answer.body.code], easy).toEqual([400, "PASSWORD_TOO_EASY"]);
    }
    await account(email);
    await auth("/request-password-reset", { email });
    const token = linkIn(await mailTo(api, email, 2)).searchParams.get("token");
    for (const easy of ["qwertyuiop", email])
      expect((await auth("/reset-password", { token, newPassword: easy })).body.code).toBe("PASSWORD_TOO_EASY");
    expect((await auth("/reset-password", { token, newPassword: "short" })).body.code).toBe("PASSWORD_TOO_SHORT");
    // The link is not used up by that.
    expect((await auth("/reset-password", { token, newPassword: "another good one" })).status).toBe(200);
  });
});

test("links to reset a password are not in the database", async () => {
  const email = await account();
  await auth("/request-password-reset", { email });
  const token = linkIn(await mailTo(api, email, 2)).searchParams.get("token") ?? "";
  const { rows } = await sql<{ text: string }>`select v::text as text from auth."verification" v`.execute(api.db);
  expect(rows.length).toBeGreaterThan(0);
  expect(rows.filter(({ text }) => text.includes(token))).toEqual([]);
});
