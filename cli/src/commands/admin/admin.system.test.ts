import { expect, test } from "vitest";
import { aProject, ok, projectId, startApi } from "../../testing/api.ts";
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
const shop = aProject({ ownerEmail: eve.email, requests30d: 7 });
const user = `/api/v1/admin/users/${userId}`;
const project = `/api/v1/admin/projects/${projectId}`;
const routes = {
  "GET /api/v1/admin/users": ok({ users: [eve] }),
  "GET /api/v1/admin/projects": ok({ projects: [shop] }),
  [`POST ${user}/ban`]: ok({ id: userId, banned: true }),
  [`POST ${user}/unban`]: ok({ id: userId, banned: false }),
  [`POST ${user}/role`]: ok({ id: userId, role: "admin" }),
  [`POST ${user}/plan`]: ok({ id: userId, plan: "large" }),
  [`DELETE ${user}`]: ok({ id: userId }),
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
  ["users unban eve@svc.test", [`POST ${user}/unban`, null], { user: facts, banned: false }],
  ["users role eve@svc.test admin", [`POST ${user}/role`, { role: "admin" }], { user: facts, role: "admin" }],
  ["users plan eve@svc.test large", [`POST ${user}/plan`, { plan: "large" }], { user: facts, plan: "large" }],
  ["users delete eve@svc.test --yes", [`DELETE ${user}`, null], { user: facts, deleted: true }],
  ["projects list", null, { projects: [shop] }],
  ["projects suspend shop", [`POST ${project}/suspend`, null], { project: shopFacts, queued: true, suspended: true }],
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
