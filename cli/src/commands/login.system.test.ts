import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { aUser, ok, projectId, type Routes, refusal, startApi } from "../testing/api.ts";
import { aDirectory, envelopeOf, svc } from "../testing/svc.ts";

const key = "svc_minted-secret-key";
const session = "session-secret-token";

const pending = { status: 400, body: { error: "authorization_pending" } };
const slower = { status: 400, body: { error: "slow_down" } };
const granted = { body: { access_token: session, token_type: "Bearer", expires_in: 600 } };

const code = (fields: object = {}) => ({
  body: {
    device_code: "device-secret-code",
    user_code: "ABCD1234",
    verification_uri: "/device",
    verification_uri_complete: "/device?user_code=ABCD1234",
    interval: 0.05,
    expires_in: 60,
    ...fields,
  },
});

const aToken = {
  id: projectId,
  name: "cli @ here",
  start: "svc_mint",
  key,
  scopes: null,
  projectIds: null,
  expiresAt: null,
  createdAt: "2030-01-01T00:00:00.000Z",
};

const routes: Routes = {
  "POST /api/auth/device/code": code(),
  "POST /api/auth/device/token": [pending, pending, granted],
  "POST /api/auth/sign-out": { body: { success: true } },
  "POST /api/v1/tokens": ok({ token: aToken }, 201),
  "GET /api/v1/me": ok({ user: aUser, scopes: null, projectIds: null }),
  "DELETE /api/v1/tokens/self": ok({ id: projectId }),
};

test("a login is confirmed in the browser, makes a key, stores it, and ends its session", async () => {
  await using api = await startApi(routes);
  await using directory = await aDirectory();
  const { path: cwd } = directory;
  const ended = await svc(["login", "--api-url", api.url, "--json"], { cwd });
  expect(envelopeOf(ended)).toEqual({
    ok: true,
    operation: "login",
    warnings: [],
    message: `Logged in to ${api.url} as ada@example.test`,
    apiUrl: api.url,
    tokenRef: "[redacted]",
    user: aUser,
  });
  expect(ended.stderr).toContain(`Open ${api.url}/device?user_code=ABCD1234\n`);
  expect(ended.stderr).toContain("ABCD-1234");
  expect(ended.stdout + ended.stderr).not.toMatch(/secret/);

  const calls = api.seen.map(({ method, path }) => `${method} ${path}`);
  expect(calls).toEqual([
    "POST /api/auth/device/code",
    "POST /api/auth/device/token",
    "POST /api/auth/device/token",
    "POST /api/auth/device/token",
    "POST /api/v1/tokens",
    "GET /api/v1/me",
    "POST /api/auth/sign-out",
  ]);
  expect(JSON.parse(String(api.seen[0]?.body))).toMatchObject({ client_id: "svc-cli" });
  expect(JSON.parse(String(api.seen[1]?.body))).toEqual({
    grant_type: "urn:ietf:params:oauth:grant-type:device_code",
    device_code: "device-secret-code",
    client_id: "svc-cli",
  });
  expect(api.seen[4]?.headers.authorization).toBe(`Bearer ${session}`);
  expect(JSON.parse(String(api.seen[4]?.body)).name).toMatch(/^cli @ \S/);
  expect(api.seen[5]?.headers["x-api-key"]).toBe(key);
  expect(api.seen[6]?.headers.authorization).toBe(`Bearer ${session}`);

  const path = join(cwd, ".home/.config/svc/config.json");
  expect(JSON.parse(await readFile(path, "utf8"))).toEqual({
    apiUrl: api.url,
    tokenRef: `literal:${key}`,
    user: aUser,
  });
  expect((await stat(path)).mode & 0o777).toBe(0o600);

  const who = await svc(["whoami", "--json"], { cwd });
  expect(envelopeOf(who)).toMatchObject({ ok: true, source: "config", apiUrl: api.url, user: aUser });
  expect(api.seen.at(-1)?.headers["x-api-key"]).toBe(key);

  const out = await svc(["logout", "--json"], { cwd });
  expect(envelopeOf(out)).toMatchObject({ ok: true, operation: "logout", apiUrl: api.url, revoked: true });
  expect(api.seen.at(-1)).toMatchObject({ method: "DELETE", path: "/api/v1/tokens/self" });
  await expect(readFile(path)).rejects.toThrow();
  expect(envelopeOf(await svc(["whoami", "--json"], { cwd }))).toMatchObject({
    error: { code: "CLOUD_NOT_LOGGED_IN" },
  });
});

/** A login over one that `config` stores, and how the platform answers to that one's key being taken back. */
async function logInAgain(config: (url: string) => object, answers: Routes = {}) {
  await using api = await startApi({ ...routes, ...answers });
  await using directory = await aDirectory({ ".home/.config/svc/config.json": JSON.stringify(config(api.url)) });
  const ended = await svc(["login", "--api-url", api.url, "--json"], { cwd: directory.path });
  const stored = JSON.parse(await readFile(join(directory.path, ".home/.config/svc/config.json"), "utf8"));
  expect([ended.status, stored.tokenRef]).toEqual([0, `literal:${key}`]);
  expect(ended.stdout + ended.stderr).not.toMatch(/secret/);
  const taken = api.seen.filter(({ method }) => method === "DELETE");
  return { warnings: envelopeOf(ended)["warnings"], taken: taken.map(({ headers }) => headers["x-api-key"]) };
}

const literal = (apiUrl: string) => ({ apiUrl, tokenRef: "literal:svc_old-secret", user: aUser });
const old = ["svc_old-secret"];

test.each<
  [what: string, config: (url: string) => object, answer: ReturnType<typeof ok>, taken: string[], warned: RegExp[]]
>([
  ["its key is taken back", literal, ok({ id: projectId }), old, []],
  ["a key that opens nothing any more is no trouble", literal, refusal(401, "UNAUTHORIZED"), old, []],
  ["a key that stays is told of", literal, refusal(500, "INTERNAL", "Oh."), old, [/Oh\..*svc tokens revoke/]],
  ["somebody else's key stays", (apiUrl) => ({ apiUrl, tokenRef: "env:OTHER" }), ok({ id: projectId }), [], []],
  ["another platform's key stays", () => literal("https://other.test"), ok({ id: projectId }), [], []],
  ["a damaged file is no trouble", () => ["?"], ok({ id: projectId }), [], []],
])("logged in over another login, %s", async (_what, config, answer, taken, warned) => {
  const again = await logInAgain(config, { "DELETE /api/v1/tokens/self": answer });
  expect(again).toEqual({ taken, warnings: warned.map((text) => expect.stringMatching(text)) });
});

test("a key that only deploys is told so by whoami", async () => {
  await using api = await startApi({ "GET /api/v1/me": refusal(403, "FORBIDDEN_SCOPE", "Only deployments.") });
  await using directory = await aDirectory();
  const env = { SVC_API_URL: api.url, SVC_TOKEN: "svc_ci" };
  const ended = await svc(["whoami", "--json"], { cwd: directory.path, env });
  expect(envelopeOf(ended)).toMatchObject({
    error: { code: "CLOUD_FORBIDDEN_SCOPE", hint: expect.stringMatching(/only deploys/) },
  });
});

test.each([
  {
    when: "it is denied",
    answers: [pending, { status: 400, body: { error: "access_denied" } }],
    error: "CLOUD_LOGIN_DENIED",
  },
  {
    when: "it expires",
    answers: [pending, { status: 400, body: { error: "expired_token" } }],
    error: "CLOUD_LOGIN_EXPIRED",
  },
  { when: "it is refused", answers: [{ status: 400, body: { error: "invalid_client" } }], error: "CLOUD_LOGIN_FAILED" },
])("when $when, nothing is stored", async ({ answers, error }) => {
  await using api = await startApi({ ...routes, "POST /api/auth/device/token": answers });
  await using directory = await aDirectory();
  const ended = await svc(["login", "--api-url", api.url, "--json"], { cwd: directory.path });
  expect(envelopeOf(ended)).toMatchObject({ ok: false, error: { code: error } });
  expect(ended.status).toBe(1);
  await expect(stat(join(directory.path, ".home/.config"))).rejects.toThrow();
});

test("a code that nobody confirms expires here too", async () => {
  const answers = { "POST /api/auth/device/code": code({ expires_in: 0.3 }), "POST /api/auth/device/token": pending };
  await using api = await startApi({ ...routes, ...answers });
  await using directory = await aDirectory();
  const ended = await svc(["login", "--api-url", api.url, "--json"], { cwd: directory.path });
  expect(envelopeOf(ended)).toMatchObject({ error: { code: "CLOUD_LOGIN_EXPIRED" } });
});

test("who is asked to poll slower does", async () => {
  const answers = {
    "POST /api/auth/device/code": code({ expires_in: 2 }),
    "POST /api/auth/device/token": [slower, granted],
  };
  await using api = await startApi({ ...routes, ...answers });
  await using directory = await aDirectory();
  const ended = await svc(["login", "--api-url", api.url, "--json"], { cwd: directory.path });
  // Five seconds more than the code has to live.
  expect(envelopeOf(ended)).toMatchObject({ error: { code: "CLOUD_LOGIN_EXPIRED" } });
});

test("a key that cannot be used is taken back", async () => {
  await using api = await startApi({ ...routes, "GET /api/v1/me": refusal(500, "INTERNAL") });
  await using directory = await aDirectory();
  const ended = await svc(["login", "--api-url", api.url, "--json"], { cwd: directory.path });
  expect(envelopeOf(ended)).toMatchObject({ error: { code: "CLOUD_UNAVAILABLE" } });
  expect(ended.stderr).not.toContain("Warning");
  expect(api.seen.some(({ method, path }) => method === "DELETE" && path === "/api/v1/tokens/self")).toBe(true);
});

test("a login page that is no web address is not shown, and a place without logins says so", async () => {
  await using api = await startApi({
    ...routes,
    "POST /api/auth/device/code": code({ verification_uri: "file:///etc/passwd" }),
  });
  await using none = await startApi({});
  await using directory = await aDirectory();
  const { path: cwd } = directory;
  const bad = await svc(["login", "--api-url", api.url, "--json"], { cwd });
  expect(envelopeOf(bad)).toMatchObject({ error: { code: "CLOUD_LOGIN_FAILED" } });
  expect(envelopeOf(await svc(["login", "--api-url", none.url, "--json"], { cwd }))).toMatchObject({
    error: { code: "CLOUD_LOGIN_FAILED" },
  });
});

test("Ctrl-C during a login exits 130 and leaves one envelope", async () => {
  await using api = await startApi({ ...routes, "POST /api/auth/device/token": pending });
  await using directory = await aDirectory();
  const ended = await svc(["login", "--api-url", api.url, "--json"], {
    cwd: directory.path,
    onStderr: (text, kill) => {
      if (text.includes("ABCD-1234")) kill("SIGINT");
    },
  });
  expect(ended.status).toBe(130);
  expect(envelopeOf(ended)).toMatchObject({ ok: false, operation: "login" });
});

test("a logout goes through although the platform is gone or the file is damaged", async () => {
  const config = { apiUrl: "http://127.0.0.1:9", tokenRef: "literal:svc_x-secret", user: aUser };
  await using directory = await aDirectory({ ".home/.config/svc/config.json": JSON.stringify(config) });
  const ended = await svc(["logout", "--json"], { cwd: directory.path });
  expect(envelopeOf(ended)).toMatchObject({
    ok: true,
    revoked: false,
    warnings: [expect.stringMatching(/could not be revoked.*svc tokens revoke/)],
  });
  await using damaged = await aDirectory({ ".home/.config/svc/config.json": "{" });
  expect(envelopeOf(await svc(["logout", "--json"], { cwd: damaged.path }))).toMatchObject({
    ok: true,
    revoked: false,
  });
  await expect(stat(join(damaged.path, ".home/.config/svc/config.json"))).rejects.toThrow();
});
