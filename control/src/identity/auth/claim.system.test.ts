import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { spawnProgram, thisNode } from "@svc/runtime/programs";
import { sql } from "kysely";
import { afterEach, beforeEach, expect, test } from "vitest";
import { tokenKeySettings } from "../../fleet/registry-tokens/testing.ts";
import { type TestApi, testApi } from "../../http/testing.ts";
import { browser } from "../pages/testing.ts";
import { createClaimLink } from "./claim.ts";

let api: TestApi;
beforeEach(async () => {
  // The way in of the first administrator does not depend on who else may come in, nor on mail.
  api = await testApi({ config: { signup: "closed", mail: { from: "svc@svc.test" } } });
});
afterEach(() => api[Symbol.asyncDispose]());

const password = "correct horse battery";
const main = fileURLToPath(new URL("../../main.ts", import.meta.url));

/** `control claim-link`, as an operator runs it. */
async function claimLink(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  const env = {
    PATH: process.env["PATH"],
    NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"],
    ...tokenKeySettings,
    SVC_DATABASE_URL: api.context.config.databaseUrl,
    SVC_API_URL: api.url,
    SVC_MASTER_KEY: randomBytes(32).toString("base64"),
    SVC_AUTH_SECRET: randomBytes(32).toString("base64"),
  };
  const child = spawnProgram([thisNode, main, "claim-link", ...args], { env, stdio: ["ignore", "pipe", "pipe"] });
  const ended = once(child, "close");
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  await ended;
  return { code: child.exitCode ?? -1, stdout, stderr };
}
const link = async (seconds = 60) => `/claim?code=${await createClaimLink(api.db, seconds)}`;
const isClosed = async (path: string) => {
  const page = await browser(api).open(path);
  return page.status === 404 && page.text.includes("This link does not work");
};

test("the operator prints a link, and who opens it becomes the administrator", async () => {
  const printed = await claimLink();
  expect(printed).toMatchObject({ code: 0, stderr: "" });
  const url = new URL(printed.stdout.trim());
  expect(url.origin).toBe(api.url);
  const { rows } = await sql<{ text: string }>`select c::text as text from claim_link c`.execute(api.db);
  expect(rows).toHaveLength(1);
  expect(rows[0]?.text).not.toContain(url.searchParams.get("code"));

  const tab = browser(api);
  const form = await tab.open(url.pathname + url.search);
  const easy = await tab.submit(form, { email: "root@svc.test", password: "password123" });
  expect([easy.status, easy.text.includes("would try")]).toEqual([422, true]);
  expect(easy.text).toContain('value="root@svc.test"');
  const unaddressed = await tab.submit(form, { email: "root", password });
  expect([unaddressed.status, unaddressed.text.includes("not an email address")]).toEqual([422, true]);
  const home = await tab.submit(form, { email: "Root@svc.test", password });
  expect([home.path, home.text.includes("Hello, root")]).toEqual(["/", true]);
  const cookie = tab.cookie();
  expect((await api.call("GET", "/admin/nodes", { cookie })).status).toBe(200);
  expect((await api.call("GET", "/account", { cookie })).body).toMatchObject({
    emailVerified: true,
    hasPassword: true,
  });

  expect(await isClosed(url.pathname + url.search)).toBe(true);
  const late = await browser(api).submit(form, { email: "eve@svc.test", password });
  expect(late.status).toBe(404);
  const again = await claimLink();
  expect([again.code, again.stdout]).toEqual([2, ""]);
  expect(again.stderr).toContain("there already is an administrator");
  const lines = await api.db.selectFrom("audit").select(["action", "address"]).orderBy("id").execute();
  expect(lines).toEqual([
    { action: "account.claim", address: "127.0.0.1" },
    { action: "session.start", address: "127.0.0.1" },
  ]);
});

test("a newer link replaces the older, and one that has expired or was made up opens nothing", async () => {
  const older = await link();
  const newer = await link();
  expect(await isClosed(older)).toBe(true);
  expect((await browser(api).open(newer)).text).toContain("Claim this installation");
  for (const path of ["/claim", "/claim?code=", `/claim?code=${"A".repeat(32)}`, "/claim?code=x&code=y"])
    expect(await isClosed(path), path).toBe(true);
  await sql`update claim_link set expires_at = now()`.execute(api.db);
  expect(await isClosed(newer)).toBe(true);
});

test("of several who claim at once one becomes the administrator", async () => {
  const path = await link();
  const answers = await Promise.all(
    Array.from({ length: 4 }, async (_, at) => {
      const tab = browser(api);
      return tab.submit(await tab.open(path), { email: `claims-${at}@svc.test`, password });
    }),
  );
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
  const users = await api.db.selectFrom("auth.user").select("role").execute();
  expect(users).toEqual([{ role: "admin" }]);
});

test("while there is an administrator, from wherever, no link works", async () => {
  const path = await link();
  await api.newUser({ admin: true });
  expect(await isClosed(path)).toBe(true);
  expect(await createClaimLink(api.db, 60)).toBeNull();
});

test("it takes nobody's account over", async () => {
  const user = await api.newUser();
  const tab = browser(api);
  const form = await tab.open(await link());
  const page = await tab.submit(form, { email: user.email.toUpperCase(), password });
  expect([page.status, page.text.includes("There is an account with that address")]).toEqual([422, true]);
  expect((await tab.submit(form, { email: "root@svc.test", password })).path).toBe("/");
});

test("a form of another site claims nothing", async () => {
  const path = await link();
  const code = new URL(path, api.url).searchParams.get("code") ?? "";
  const answer = await api.request("POST", "/claim", {
    body: new URLSearchParams({ code, email: "eve@evil.test", password }).toString(),
    headers: { origin: "https://evil.test", "content-type": "application/x-www-form-urlencoded" },
  });
  expect(answer.status).toBe(403);
  expect(await isClosed(path)).toBe(false);
});

test.each(["0", "-1", "x", "1.5", "99999999"])("a time of %s is refused with a word on what is meant", async (ttl) => {
  const { code, stderr } = await claimLink(`--ttl=${ttl}`);
  expect([code, stderr.includes("--ttl is a number of seconds")]).toEqual([2, true]);
});
