import { expect, test } from "vitest";
import { aDeployment, aProject, aUser, ok, projectId, refusal, startApi } from "../testing/api.ts";
import { aDirectory, envelopeOf, svc } from "../testing/svc.ts";

const files = { "svc.yml": "version: 2\nslug: shop\napp: { name: Shop, type: ssr }\n" };
const routes = {
  "GET /healthz": ok({}),
  "GET /api/v1/me": ok({ user: aUser, scopes: null, projectIds: null }),
  "GET /api/v1/projects": ok({ projects: [aProject({ type: "ssr" })] }),
  [`GET /api/v1/projects/${projectId}`]: ok({ project: aProject({ type: "ssr" }), deployments: [aDeployment()] }),
  "GET /api/v1/account/usage": ok({ plan: { devSyncEnabled: true }, usage: {} }),
};
const token = "svc_very-secret-key";

test("on a project that is well everything is found, in order", async () => {
  await using api = await startApi({
    ...routes,
    [`GET /api/v1/projects/${projectId}/database`]: ok({ enabled: true, engine: "postgres", status: "ready" }),
  });
  await using directory = await aDirectory(files);
  const env = { SVC_API_URL: api.url, SVC_TOKEN: token };
  const ended = await svc(["doctor", "--json", "--channel", "preview"], { cwd: directory.path, env });
  expect(ended.status).toBe(0);
  expect(envelopeOf(ended)).toMatchObject({
    ok: true,
    operation: "doctor",
    channel: "preview",
    healthy: true,
    checks: [
      { name: "auth", status: "ok" },
      { name: "api", status: "ok" },
      { name: "manifest", status: "ok" },
      { name: "project", status: "ok" },
      { name: "dev-channel", status: "ok" },
      { name: "database", status: "ok" },
    ],
  });
  expect(api.seen.map(({ path }) => path)).toContain(`/api/v1/projects/${projectId}/database?channel=preview`);
  expect(ended.stdout + ended.stderr).not.toContain(token);
});

test("an app whose events would reach a part of its visitors is warned of, with what to do", async () => {
  await using api = await startApi({
    ...routes,
    [`GET /api/v1/projects/${projectId}/database`]: ok({ enabled: false, engine: null, status: null }),
  });
  await using directory = await aDirectory({
    "svc.yml":
      "version: 2\nslug: shop\napp: { name: Shop, type: ssr, replicas: 2 }\nsource: { rootDirectory: apps/web }\n",
    "apps/web/package.json": '{"dependencies":{"@svc/realtime":"file:x.tgz"}}',
  });
  const ended = await svc(["doctor"], { cwd: directory.path, env: { SVC_API_URL: api.url, SVC_TOKEN: token } });
  expect(ended.status).toBe(0);
  expect(ended.stdout).toMatch(/! database +The app uses @svc\/realtime in several replicas and has no database/);
  expect(ended.stdout).toMatch(/→ Write database: \{ enabled: true \} .*@svc\/realtime\/postgres/);
});

test("a refused key and a broken manifest are two findings, and nothing else is blamed", async () => {
  const refused = refusal(401, "UNAUTHORIZED", "Sign in.");
  await using api = await startApi({
    "GET /healthz": ok({}),
    "GET /api/v1/me": refused,
    "GET /api/v1/projects": refused,
  });
  await using directory = await aDirectory({ "svc.yml": "version: 3\n" });
  const ended = await svc(["doctor"], { cwd: directory.path, env: { SVC_API_URL: api.url, SVC_TOKEN: token } });
  expect(ended.status).toBe(1);
  expect(ended.stdout).toMatch(/✗ auth +UNAUTHORIZED: \S+ refused the key in SVC_TOKEN/);
  expect(ended.stdout).toMatch(/✓ api/);
  expect(ended.stdout).toMatch(/✗ manifest +svc.yml is not valid/);
  expect(ended.stdout).toContain("2 checks failed: that has to be mended");
});

test("no manifest at the usual place is a warning, and none at a path that was named a failure", async () => {
  await using api = await startApi(routes);
  await using directory = await aDirectory();
  const run = async (...more: string[]) => {
    const env = { SVC_API_URL: api.url, SVC_TOKEN: token };
    const ended = await svc(["doctor", "--json", ...more], { cwd: directory.path, env });
    return { status: ended.status, ...envelopeOf(ended) };
  };
  const manifest = (status: string) => expect.arrayContaining([expect.objectContaining({ name: "manifest", status })]);
  expect(await run()).toMatchObject({ status: 0, ok: true, healthy: true, checks: manifest("warning") });
  expect(await run("--manifest", "nope.yml")).toMatchObject({
    status: 1,
    ok: true,
    healthy: false,
    checks: manifest("failed"),
  });
  expect(await run("--manifest", "svc.yml")).toMatchObject({
    status: 1,
    ok: true,
    healthy: false,
    checks: manifest("failed"),
  });
});
