import { expect, test } from "vitest";
import { aProject, ok, projectId, type Routes, refusal, startApi } from "../../testing/api.ts";
import { aDirectory, envelopeOf, svc } from "../../testing/svc.ts";

const userId = "55555555-5555-4555-8555-555555555555";
const eve = {
  id: userId,
  email: "eve@svc.test",
  name: "Eve",
  role: "user",
  plan: "standard",
  emailVerified: true,
  banned: false,
  banReason: null,
  banExpiresAt: null,
  projects: 2,
  suspendedProjects: 0,
  requests30d: 12,
  diskBytes: 4096,
  createdAt: "2030-01-01T00:00:00.000Z",
};
const shop = aProject({ ownerId: userId, ownerEmail: eve.email, requests30d: 7 });
const user = `/api/v1/admin/users/${userId}`;
const project = `/api/v1/admin/projects/${projectId}`;
const invite = {
  id: projectId,
  email: "ada@svc.test",
  status: "open",
  createdAt: eve.createdAt,
  expiresAt: eve.createdAt,
  usedAt: null,
};
const line = {
  id: "1",
  at: eve.createdAt,
  userId,
  userEmail: eve.email,
  credential: "key",
  tokenId: null,
  action: "project.delete",
  target: projectId,
  address: "127.0.0.1",
  requestId: null,
  detail: {},
};

const authority = { sha256: "ab".repeat(32), expiresAt: eve.createdAt, rotation: null, rotatedAt: null };
const replaced = {
  ...authority,
  rotation: {
    startedAt: eve.createdAt,
    previousSha256: "cd".repeat(32),
    moved: 2,
    waitingFor: [
      { id: projectId, name: "node-3", role: "node", lastSeenAt: null, certificateExpiresAt: eve.createdAt },
    ],
    waitingForCount: 1,
  },
};

const routes: Routes = {
  "GET /api/v1/admin/ca": ok({ ca: replaced }),
  "POST /api/v1/admin/ca/rotate": ok({ ca: replaced }, 202),
  "GET /api/v1/admin/users": ok({ users: [eve], nextCursor: null }),
  "GET /api/v1/admin/projects": ok({ projects: [shop], nextCursor: null }),
  [`POST ${user}/ban`]: ok({ id: userId, banned: true }),
  [`POST ${user}/unban`]: ok({ id: userId, banned: false }),
  [`POST ${user}/role`]: ok({ id: userId, role: "admin" }),
  [`POST ${user}/plan`]: ok({ id: userId, plan: "large" }),
  [`DELETE ${user}`]: ok({ id: userId }),
  "GET /api/v1/admin/invites": ok({ invites: [invite] }),
  "POST /api/v1/admin/invites": ok({
    inviteCode: "a-code",
    id: projectId,
    expiresAt: eve.createdAt,
    mailed: false,
    note: "No mail is sent.",
  }),
  [`DELETE /api/v1/admin/invites/${projectId}`]: ok({ id: projectId }),
  "GET /api/v1/admin/audit": (seen: { path: string }) =>
    ok({ entries: seen.path.includes("?action=project&limit=5") ? [line] : [], nextCursor: null }),
  [`POST ${project}/suspend`]: ok({ id: projectId, queued: true, suspended: true }, 202),
  [`POST ${project}/resume`]: ok({ id: projectId, queued: true }, 202),
};

const facts = { id: userId, email: eve.email };
const shopFacts = { id: projectId, slug: "shop" };

test.each([
  ["users list", null, { users: [eve] }],
  [
    `users ban EVE@svc.test --reason spam --for 7d`,
    [`POST ${user}/ban`, { reason: "spam", expiresInSeconds: 604_800 }],
    { user: facts, banned: true },
  ],
  [`users ban ${userId}`, [`POST ${user}/ban`, {}], { user: facts, banned: true }],
  ["users ban eve@svc.test --for 30s", [`POST ${user}/ban`, { expiresInSeconds: 30 }], { user: facts, banned: true }],
  ["users unban eve@svc.test", [`POST ${user}/unban`, null], { user: facts, banned: false }],
  ["users role eve@svc.test admin", [`POST ${user}/role`, { role: "admin" }], { user: facts, role: "admin" }],
  ["users plan eve@svc.test large", [`POST ${user}/plan`, { plan: "large" }], { user: facts, plan: "large" }],
  ["users delete eve@svc.test --yes", [`DELETE ${user}`, null], { user: facts, deleted: true }],
  ["projects list", null, { projects: [shop] }],
  ["projects suspend shop", [`POST ${project}/suspend`, null], { project: shopFacts, queued: true, suspended: true }],
  [
    "invites create ada@svc.test",
    ["POST /api/v1/admin/invites", { email: "ada@svc.test" }],
    { email: "ada@svc.test", inviteCode: "a-code", mailed: false, warnings: ["No mail is sent."] },
  ],
  [
    `invites delete ${projectId}`,
    [`DELETE /api/v1/admin/invites/${projectId}`, null],
    { id: projectId, deleted: true },
  ],
  ["invites list", null, { invites: [invite] }],
  ["ca show", null, { ca: replaced }],
  ["ca rotate --yes", ["POST /api/v1/admin/ca/rotate", null], { ca: replaced }],
  [
    `projects suspend ${projectId}`,
    [`POST ${project}/suspend`, null],
    { project: { id: projectId }, queued: true, suspended: true },
  ],
  ["projects resume shop", [`POST ${project}/resume`, null], { project: shopFacts, queued: true }],
])("svc admin %s", async (line, called, payload) => {
  await using api = await startApi(routes);
  await using directory = await aDirectory();
  const env = { SVC_API_URL: api.url, SVC_TOKEN: "svc_key" };
  const ended = await svc(["admin", ...line.split(" "), "--json"], { cwd: directory.path, env });
  expect(envelopeOf(ended)).toMatchObject({
    ok: true,
    operation: `admin.${line.split(" ").slice(0, 2).join(".")}`,
    ...payload,
  });
  const changes = api.seen.filter(({ method }) => method !== "GET");
  expect(
    changes.map(({ method, path, body }) => [`${method} ${path}`, body.length === 0 ? null : JSON.parse(String(body))]),
  ).toEqual(called === null ? [] : [called]);
});

test.each([
  ["users delete eve@svc.test", 6, "DESTRUCTIVE_CONFIRMATION_REQUIRED"],
  ["users ban eve@svc.test --for soon", 2, "CLI_INVALID_USAGE"],
  ["users ban eve@svc.test --for 900ms", 2, "CLI_INVALID_USAGE"],
  ["users ban eve@svc.test --for 1500ms", 2, "CLI_INVALID_USAGE"],
  ["users role eve@svc.test root", 2, "CLI_INVALID_USAGE"],
  ["users ban nobody@svc.test", 1, "CLOUD_NOT_FOUND"],
  ["projects suspend nothing", 1, "CLOUD_NOT_FOUND"],
])("svc admin %s ends with %i and changes nothing", async (line, status, code) => {
  await using api = await startApi(routes);
  await using directory = await aDirectory();
  const env = { SVC_API_URL: api.url, SVC_TOKEN: "svc_key" };
  const ended = await svc(["admin", ...line.split(" "), "--json"], { cwd: directory.path, env });
  expect([ended.status, envelopeOf(ended)["error"]]).toMatchObject([status, { code }]);
  expect(api.seen.filter(({ method }) => method !== "GET")).toEqual([]);
});

test("svc admin audit asks for what was named, and tells who did what", async () => {
  await using api = await startApi(routes);
  await using directory = await aDirectory();
  const options = { cwd: directory.path, env: { SVC_API_URL: api.url, SVC_TOKEN: "svc_key" } };
  const ended = await svc(["admin", "audit", "--action", "project", "--limit", "5"], options);
  expect(ended.stdout).toMatch(/eve@svc\.test \(key\) +project\.delete +11111111/);
  const wrong = await svc(["admin", "audit", "--since", "soon", "--json"], options);
  expect([wrong.status, envelopeOf(wrong)["error"]]).toMatchObject([2, { code: "CLI_INVALID_USAGE" }]);
});

test("svc admin audit says how to read on, and does", async () => {
  await using api = await startApi({
    ...routes,
    "GET /api/v1/admin/audit": paged("entries", () => line, line),
  });
  await using directory = await aDirectory();
  const options = { cwd: directory.path, env: { SVC_API_URL: api.url, SVC_TOKEN: "svc_key" } };
  const first = await svc(["admin", "audit", "--limit", "2"], options);
  expect(first.stdout).toContain("Older ones: --cursor 2");
  const last = await svc(["admin", "audit", "--limit", "2", "--cursor", "1198"], options);
  expect(last.stdout).toContain("project.delete");
  expect(last.stdout).not.toContain("Older ones");
});

/** A platform with more accounts and projects than one page has, the last ones being eve's; searches find all. */
const manyRoutes: Routes = {
  ...routes,
  "GET /api/v1/admin/users": paged("users", (n) => ({ ...eve, id: idOf(n), email: `user${n}@svc.test` }), eve),
  "GET /api/v1/admin/projects": paged("projects", (n) => ({ ...shop, id: idOf(n), slug: `shop${n}` }), shop),
};

function idOf(n: number): string {
  return `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`;
}

function paged(name: string, row: (n: number) => object, last: object) {
  return ({ path }: { path: string }) => {
    const query = new URL(path, "http://svc.test").searchParams;
    const limit = Number(query.get("limit") ?? "10000");
    const from = Number(query.get("cursor") ?? "0");
    const rows = Array.from({ length: 1200 }, (_, n) => (n === 1199 ? last : row(n))).slice(from, from + limit);
    return ok({ [name]: rows, nextCursor: from + limit < 1200 ? String(from + limit) : null });
  };
}

test.each([
  [`users ban ${userId}`, `POST ${user}/ban`],
  ["users ban eve@svc.test", `POST ${user}/ban`],
  ["projects suspend shop", `POST ${project}/suspend`],
  [`projects suspend ${projectId}`, `POST ${project}/suspend`],
])("svc admin %s finds what is on a later page", async (line, called) => {
  await using api = await startApi(manyRoutes);
  await using directory = await aDirectory();
  const env = { SVC_API_URL: api.url, SVC_TOKEN: "svc_key" };
  const ended = await svc(["admin", ...line.split(" "), "--json"], { cwd: directory.path, env });
  expect(envelopeOf(ended)).toMatchObject({ ok: true });
  expect(api.seen.filter(({ method }) => method === "POST").map(({ method, path }) => `${method} ${path}`)).toEqual([
    called,
  ]);
});

test.each(["users", "projects"])("svc admin %s list asks page by page, and lists all", async (name) => {
  await using api = await startApi(manyRoutes);
  await using directory = await aDirectory();
  const env = { SVC_API_URL: api.url, SVC_TOKEN: "svc_key" };
  const ended = await svc(["admin", name, "list", "--json"], { cwd: directory.path, env });
  const envelope = envelopeOf(ended);
  expect(envelope).toMatchObject({ ok: true, warnings: [] });
  expect(envelope[name]).toHaveLength(1200);
  expect(api.seen.map(({ path }) => path)).toEqual(
    ["", "&cursor=500", "&cursor=1000"].map((cursor) => `/api/v1/admin/${name}?limit=500${cursor}`),
  );
});

test("svc admin projects suspend of an id that there is not points to everybody's projects", async () => {
  await using api = await startApi(routes);
  await using directory = await aDirectory();
  const env = { SVC_API_URL: api.url, SVC_TOKEN: "svc_key" };
  const ended = await svc(["admin", "projects", "suspend", idOf(1), "--json"], { cwd: directory.path, env });
  expect(envelopeOf(ended)).toMatchObject({
    error: { code: "CLOUD_NOT_FOUND", hint: expect.stringContaining("svc admin projects list") },
  });
});

test("svc admin ca rotate says what it costs and asks, and one that is under way is looked at", async () => {
  const path = "POST /api/v1/admin/ca/rotate";
  await using api = await startApi({ ...routes, [path]: refusal(409, "CA_ROTATION_UNDER_WAY", "It is under way.") });
  await using directory = await aDirectory();
  const env = { SVC_API_URL: api.url, SVC_TOKEN: "svc_key" };
  const rotate = (...more: string[]) => svc(["admin", "ca", "rotate", "--json", ...more], { cwd: directory.path, env });
  const unasked = await rotate();
  expect([unasked.status, envelopeOf(unasked)["error"]]).toMatchObject([
    6,
    { message: expect.stringContaining("bootstrap tokens that were not used yet become void") },
  ]);
  expect(api.seen.map(({ method }) => method)).not.toContain("POST");
  expect(envelopeOf(await rotate("--yes"))["error"]).toMatchObject({
    hint: expect.stringContaining("svc admin ca show"),
  });
});

test("svc admin ca show names the machines that a replacement waits for", async () => {
  await using api = await startApi(routes);
  await using directory = await aDirectory();
  const env = { SVC_API_URL: api.url, SVC_TOKEN: "svc_key" };
  const { stdout } = await svc(["admin", "ca", "show"], { cwd: directory.path, env });
  expect(stdout).toContain("2 machines moved, 1 to go");
  expect(stdout).toMatch(/node-3 +node/);
});
