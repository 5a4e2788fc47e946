import { mkdir, readFile, symlink } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import {
  aDeployment,
  anAccepted,
  aProject,
  aRelease,
  aUser,
  deploymentId,
  ok,
  projectId,
  type Routes,
  refusal,
  startApi,
} from "./testing/api.ts";
import { aDirectory, envelopeOf, svc } from "./testing/svc.ts";
import { runAtTerminal } from "./testing/terminal.ts";

const manifest = "version: 2\nslug: shop\napp: { name: Shop, type: static }\n";
const nodeId = "44444444-4444-4444-8444-444444444444";
const aNode = {
  id: nodeId,
  name: "node-1",
  role: "node",
  status: "ready",
  lastSeenAt: null,
  version: "0.1.0",
  link: { state: "connected", since: "2030-01-01T00:00:00.000Z" },
  capacity: { memoryMb: 1024, cpuMillicores: 2000, pids: 4096, diskMb: 10_000 },
  allocated: { memoryMb: 0, cpuMillicores: 0, pids: 0 },
  diskFull: false,
  engineStalled: false,
  dockerfileProblem: null,
  refusal: null,
  runningPlacements: 0,
  labels: {},
  zone: null,
  drain: { state: "none", startedAt: null, deadline: null, remaining: 0 },
  reason: null,
};

/** A platform on which everything goes well. */
const routes: Routes = {
  "GET /api/v1/me": ok({ user: aUser, scopes: null, projectIds: null }),
  "GET /api/v1/projects": ok({ projects: [aProject()] }),
  [`GET /api/v1/projects/${projectId}`]: ok({ project: aProject(), deployments: [aDeployment()] }),
  [`DELETE /api/v1/projects/${projectId}`]: ok({ id: projectId }),
  [`POST /api/v1/projects/${projectId}/deployments`]: ok(anAccepted(), 202),
  [`GET /api/v1/projects/${projectId}/deployments`]: ok({ deployments: [aDeployment()], nextCursor: null }),
  [`GET /api/v1/deployments/${deploymentId}`]: ok({ deployment: aDeployment() }),
  [`GET /api/v1/deployments/${deploymentId}/logs`]: ({ path }) =>
    path.endsWith("after=0") ? ok({ log: "one\ntwo\n", offset: 8 }) : ok({ log: "", offset: 8 }),
  [`GET /api/v1/projects/${projectId}/runtime-logs`]: ok({ log: "hello\n", lines: 1 }),
  [`POST /api/v1/projects/${projectId}/stop`]: ok({ queued: true, deploymentId, jobId: "j1" }, 202),
  [`POST /api/v1/projects/${projectId}/start`]: ok({ queued: true, deploymentId }, 202),
  [`GET /api/v1/projects/${projectId}/env`]: ok({ vars: { B: "two words", A: "topsecret" } }),
  [`PUT /api/v1/projects/${projectId}/env`]: ok({ keys: ["A"] }),
  "GET /api/v1/admin/nodes": ok({ nodes: [aNode] }),
  [`GET /api/v1/admin/nodes/${nodeId}`]: ok({
    node: {
      ...aNode,
      platform: null,
      schedulable: true,
      operatorLabels: {},
      drain: { ...aNode.drain, blockers: [] },
      placements: [],
      events: [],
      createdAt: "2030-01-01T00:00:00.000Z",
      certificateExpiresAt: null,
      actions: ["cordon"],
    },
  }),
  "POST /api/v1/admin/nodes/bootstrap-tokens": ok(
    { bootstrapToken: { id: "b1", token: "svcn1.topsecret", expiresAt: "2030-01-01T00:00:00.000Z" } },
    201,
  ),
};

const token = "svc_very-secret-key";
const project = { id: projectId, slug: "shop", type: "static", name: "Shop" };
const deployment = { id: deploymentId, status: "running", release: aRelease };

describe.concurrent("with --json, stdout is one envelope", () => {
  test.each([
    { line: "whoami", fields: { source: "env", user: aUser, message: expect.any(String), apiUrl: expect.any(String) } },
    {
      line: "status",
      fields: {
        url: expect.any(String),
        project,
        deployments: [{ id: deploymentId, status: "running", channel: "production", error: null }],
      },
    },
    {
      line: "projects list",
      fields: { projects: [{ id: projectId, slug: "shop", passwordProtected: false, status: "running" }] },
    },
    { line: "projects delete shop --yes", fields: { deleted: true, project: { id: projectId, slug: "shop" } } },
    {
      line: "deploy",
      fields: {
        url: aProject().url,
        channel: "production",
        slug: "shop",
        project: { id: projectId },
        deployment,
        source: { files: 3, bytes: expect.any(Number) },
      },
    },
    { line: "deploy --no-wait", fields: { queued: true, deployment: { id: deploymentId, status: "queued" } } },
    {
      line: "deploy --dry-run",
      fields: { dryRun: true, channel: "production", paths: [".in.env", "index.html", "svc.yml"] },
    },
    { line: "logs", fields: { deploymentId, status: "running", log: "one\ntwo\n" } },
    { line: `logs ${deploymentId} --grep w`, fields: { log: "two\n" } },
    { line: "logs --lines 1", fields: { log: "two\n" } },
    { line: "logs --runtime", fields: { projectId, runtime: true, lines: ["hello"] } },
    { line: "open", fields: { url: aProject().url, project: { slug: "shop" } } },
    { line: "stop --no-wait", fields: { queued: true, jobId: "j1", project } },
    { line: "start", fields: { deployment: { id: deploymentId, status: "running" }, project } },
    {
      line: "env pull --file out.env",
      fields: { file: "out.env", keys: ["A", "B"], project: { id: projectId, slug: "shop" } },
    },
    { line: "env push --file .in.env", fields: { keys: ["A"], project: { id: projectId, slug: "shop" } } },
    { line: "init --manifest new.yml", fields: { manifest: "new.yml" } },
    {
      line: "manifest validate",
      fields: {
        manifest: "svc.yml",
        app: "Shop",
        type: "static",
        slug: "shop",
        release: { configured: false, timeoutSeconds: null },
      },
    },
    { line: "admin nodes list", fields: { nodes: [{ id: nodeId, status: "ready" }] } },
    { line: "admin nodes show node-1", fields: { node: { id: nodeId, actions: ["cordon"] } } },
    { line: "admin nodes bootstrap-token create --file t.token", fields: { id: "b1", file: "t.token", role: "node" } },
    { line: "logout", fields: { revoked: false, message: expect.any(String), apiUrl: expect.any(String) } },
  ])("svc $line", async ({ line, fields }) => {
    await using api = await startApi(routes);
    await using directory = await aDirectory({ "svc.yml": manifest, "index.html": "", ".in.env": "A=1\n" });
    const env = { SVC_TOKEN: token, SVC_API_URL: api.url };
    const words = line.split(" ");
    const ended = await svc([...words, "--json"], { cwd: directory.path, env });
    const envelope = envelopeOf(ended);
    expect(envelope).toMatchObject({ ok: true, operation: expect.any(String), warnings: expect.any(Array), ...fields });
    expect(line.startsWith(String(envelope["operation"]).replaceAll(".", " "))).toBe(true);
    expect(ended.status).toBe(0);
    expect(ended.stdout + ended.stderr).not.toMatch(/topsecret|very-secret/);
    for (const { headers } of api.seen) expect(headers["x-api-key"]).toBe(token);
  });

  test.each([
    { line: "nonsense", code: "CLI_INVALID_USAGE", exit: 2, operation: "svc" },
    { line: "status --nonsense", code: "CLI_INVALID_USAGE", exit: 2, operation: "status" },
    { line: "logs --follow", code: "CLI_INVALID_USAGE", exit: 2, operation: "logs" },
    { line: "logs --since yesterday", code: "CLI_INVALID_USAGE", exit: 2, operation: "logs" },
    { line: "logs --grep (", code: "CLI_INVALID_USAGE", exit: 2, operation: "logs" },
    { line: "logs --lines many", code: "CLI_INVALID_USAGE", exit: 2, operation: "logs" },
    { line: "logs not-an-id", code: "CLI_INVALID_USAGE", exit: 2, operation: "logs" },
    { line: "deploy --prod --preview", code: "CLI_INVALID_USAGE", exit: 2, operation: "deploy" },
    { line: "deploy --manifest none.yml", code: "MANIFEST_NOT_FOUND", exit: 2, operation: "deploy" },
    { line: "manifest validate --manifest bad.yml", code: "MANIFEST_INVALID", exit: 2, operation: "manifest.validate" },
    { line: "init", code: "MANIFEST_INVALID", exit: 2, operation: "init" },
    { line: "init --template realtime", code: "CLI_INVALID_USAGE", exit: 2, operation: "init" },
    { line: "login --api-url http://svc.example.test", code: "CLI_INVALID_USAGE", exit: 2, operation: "login" },
    { line: "env push --file none.env", code: "ENV_FILE_NOT_FOUND", exit: 2, operation: "env.push" },
    { line: "env push --file notes.md", code: "CLI_INVALID_USAGE", exit: 2, operation: "env.push" },
    { line: "projects delete shop", code: "DESTRUCTIVE_CONFIRMATION_REQUIRED", exit: 6, operation: "projects.delete" },
    {
      line: "admin nodes bootstrap-token create",
      code: "CLI_INVALID_USAGE",
      exit: 2,
      operation: "admin.nodes.bootstrap-token.create",
    },
    {
      line: "admin nodes bootstrap-token create --file svc.yml",
      code: "CLI_INVALID_USAGE",
      exit: 2,
      operation: "admin.nodes.bootstrap-token.create",
    },
  ])("svc $line fails before anything is called", async ({ line, code, exit, operation }) => {
    await using api = await startApi({});
    await using directory = await aDirectory({
      "svc.yml": "version: 2\napp: { name: Shop, type: static }\n",
      "bad.yml": "version: 3\n",
      "notes.md": "Dear diary\n",
    });
    const env = { SVC_TOKEN: token, SVC_API_URL: api.url };
    const ended = await svc([...line.split(" "), "--json"], { cwd: directory.path, env });
    const error = { code, message: expect.any(String), hint: expect.any(String) };
    expect(envelopeOf(ended)).toEqual({ ok: false, operation, error });
    expect(ended.status).toBe(exit);
    expect(api.seen).toEqual([]);
  });

  test.each([
    { line: "status", answer: refusal(401, "UNAUTHORIZED"), code: "CLOUD_UNAUTHORIZED", exit: 1 },
    { line: "status", answer: refusal(403, "FORBIDDEN_SCOPE"), code: "CLOUD_FORBIDDEN_SCOPE", exit: 1 },
    { line: "status", answer: refusal(404, "NOT_FOUND"), code: "CLOUD_NOT_FOUND", exit: 1 },
    {
      line: "status",
      answer: { status: 502, headers: { "content-type": "text/html" }, body: "<h1>Bad gateway</h1>" },
      code: "CLOUD_UNAVAILABLE",
      exit: 1,
    },
    {
      line: "status",
      answer: { status: 200, body: "<h1>Welcome to the hotel</h1>" },
      code: "CLOUD_UNAVAILABLE",
      exit: 1,
    },
    { line: "status", answer: { status: 200, body: { ok: true, surprise: 1 } }, code: "UNEXPECTED", exit: 1 },
    {
      line: "status --project 33333333-3333-4333-8333-333333333333",
      answer: refusal(404, "NOT_FOUND"),
      code: "CLOUD_NOT_FOUND",
      exit: 1,
    },
  ])("svc $line, answered with $answer.status", async ({ line, answer, code, exit }) => {
    await using api = await startApi({ "GET /api/v1/projects": answer });
    await using directory = await aDirectory({ "svc.yml": manifest, "index.html": "" });
    const env = { SVC_TOKEN: token, SVC_API_URL: api.url };
    const ended = await svc([...line.split(" "), "--json"], { cwd: directory.path, env });
    expect(envelopeOf(ended)).toMatchObject({ ok: false, error: { code } });
    expect(ended.status).toBe(exit);
  });

  test("without a login, and with nobody listening", async () => {
    await using directory = await aDirectory({ "svc.yml": manifest, "index.html": "" });
    const { path: cwd } = directory;
    expect(envelopeOf(await svc(["status", "--json"], { cwd }))).toMatchObject({
      error: { code: "CLOUD_NOT_LOGGED_IN", hint: expect.stringContaining("svc login") },
    });
    const env = { SVC_TOKEN: token, SVC_API_URL: "http://127.0.0.1:9" };
    const ended = await svc(["status", "--json"], { cwd, env });
    expect(envelopeOf(ended)).toMatchObject({ error: { code: "CLOUD_UNAVAILABLE" } });
    expect(ended.status).toBe(1);
  });

  test.each(["--version", "--help", "deploy --help", ""])("svc %s", async (line) => {
    await using directory = await aDirectory();
    const words = line.split(" ").filter((word) => word !== "");
    const ended = await svc([...words, "--json"], { cwd: directory.path });
    expect(envelopeOf(ended)).toMatchObject({ ok: true });
    expect({ status: ended.status, stderr: ended.stderr }).toEqual({ status: 0, stderr: "" });
  });
});

test.each(["--foo", "-x", "--foo --help"])("svc %s is no request for help", async (line) => {
  await using directory = await aDirectory();
  const ended = await svc([...line.split(" "), "--json"], { cwd: directory.path });
  expect(envelopeOf(ended)).toMatchObject({ ok: false, error: { code: "CLI_INVALID_USAGE" } });
  expect(ended.status).toBe(2);
});

test("a proxy of the environment that is none ends a command with a word of it", async () => {
  await using directory = await aDirectory();
  const env = { HTTPS_PROXY: "ftp://proxy.test", SVC_TOKEN: "svc_abcdefgh", SVC_API_URL: "https://svc.example.test" };
  const ended = await svc(["whoami", "--json"], { cwd: directory.path, env });
  expect(envelopeOf(ended)).toMatchObject({ error: { code: "CLI_INVALID_USAGE" } });
  expect({ status: ended.status, stderr: ended.stderr }).toEqual({ status: 2, stderr: "" });
});

test.each([["--version"], ["-V"], ["-v"], ["version"]])("svc %s says which version it is", async (word) => {
  await using directory = await aDirectory();
  expect((await svc([word], { cwd: directory.path })).stdout).toMatch(/^\d+\.\d+\.\d+\S*\n$/);
  const json = envelopeOf(await svc([word, "--json"], { cwd: directory.path }));
  expect(json).toMatchObject({ ok: true, operation: "version", version: expect.any(String) });
});

test("svc deploy takes the directory that it deploys anyway, and says how to deploy another", async () => {
  await using api = await startApi(routes);
  await using directory = await aDirectory({ "svc.yml": manifest, "index.html": "", "site/index.html": "" });
  const options = { cwd: directory.path, env: { SVC_TOKEN: token, SVC_API_URL: api.url } };
  expect(envelopeOf(await svc(["deploy", ".", "--dry-run", "--json"], options))).toMatchObject({ ok: true });
  const other = await svc(["deploy", "site", "--dry-run", "--json"], options);
  expect(envelopeOf(other)).toMatchObject({
    error: { code: "CLI_INVALID_USAGE", hint: expect.stringContaining("svc deploy --manifest site/svc.yml") },
  });
  expect(other.status).toBe(2);
});

test("on a narrow terminal lists and help stand below one another", async () => {
  const projects = [aProject({ url: "http://a-shop-with-a-long-name.svc.localhost:8080" })];
  await using api = await startApi({ "GET /api/v1/projects": ok({ projects }) });
  await using directory = await aDirectory();
  const at = { cwd: directory.path, env: { SVC_TOKEN: token, SVC_API_URL: api.url, NO_COLOR: "1" }, typed: "" };
  const list = async (columns: number) => (await runAtTerminal(["projects", "list"], { ...at, columns })).stdout;
  expect(await list(120)).toMatch(/^SLUG {2}NAME {2}TYPE/);
  expect(await list(60)).toMatch(/^shop\n {2}name {4}Shop\n {2}type {4}static\n/);
  const help = await runAtTerminal(["help"], { ...at, columns: 50 });
  expect(help.stdout).toContain("  projects list\n      List your projects, newest first\n");
});

describe.concurrent("for a person", () => {
  test("the result goes to stdout, everything else to stderr", async () => {
    await using api = await startApi(routes);
    await using directory = await aDirectory({ "svc.yml": manifest, "index.html": "" });
    const env = { SVC_TOKEN: token, SVC_API_URL: api.url };
    const { stdout, stderr } = await svc(["deploy"], { cwd: directory.path, env });
    expect(stdout).toMatch(/^✓ Deployed shop to production in .*\n {2}http:\/\/shop\.svc\.localhost:8080\n$/);
    expect(stderr).toContain("Packed 2 files");
    expect(stderr).toContain("one\ntwo\n");
    const quiet = await svc(["deploy", "--quiet"], { cwd: directory.path, env });
    expect(quiet).toEqual({ status: 0, stdout: "", stderr: "" });
  });

  test("an error says what is wrong, its code, and what to type", async () => {
    await using directory = await aDirectory();
    const { status, stdout, stderr } = await svc(["deploy"], { cwd: directory.path });
    expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
    expect(stderr).toMatch(/^Error: There is no manifest at .* \(MANIFEST_NOT_FOUND\)\n→ Create one with `svc init`/);
  });

  test("nothing a server or a tenant wrote drives the terminal or the pipeline", async () => {
    const evil = "\u001b]52;c;ZXZpbA==\u0007\u009b2J";
    const named = aProject({ name: `Shop${evil}`, url: `http://shop.svc.localhost:8080/${evil}` });
    await using api = await startApi({
      ...routes,
      "GET /api/v1/projects": ok({ projects: [named] }),
      [`GET /api/v1/deployments/${deploymentId}`]: ok({
        deployment: aDeployment({ status: "failed", error: `bad${evil}\n::set-env name=x::y ##[command]z` }),
      }),
      [`GET /api/v1/deployments/${deploymentId}/logs`]: ok({ log: `::add-mask::x\n${evil}##[command]y\n`, offset: 40 }),
    });
    await using directory = await aDirectory({ "svc.yml": manifest, "index.html": "" });
    const env = { SVC_TOKEN: token, SVC_API_URL: api.url, GITHUB_ACTIONS: "true" };
    for (const line of [
      "projects list",
      "status",
      "deploy",
      "deploy --json",
      "logs",
      `logs ${deploymentId} --follow`,
    ]) {
      const { stdout, stderr } = await svc(line.split(" "), { cwd: directory.path, env });
      expect(stdout + stderr).not.toMatch(/[^\P{Cc}\n\t]/u);
      expect(stdout + stderr).not.toMatch(/^\s*::|##\[/m);
    }
  });

  test("no browser is opened where nobody sits", async () => {
    await using api = await startApi(routes);
    await using directory = await aDirectory({ "svc.yml": manifest, "index.html": "" });
    const bin = join(directory.path, "bin");
    await mkdir(bin);
    // Would leave a file behind if it were started.
    await symlink("/usr/bin/touch", join(bin, "xdg-open"));
    const env = { SVC_TOKEN: token, SVC_API_URL: api.url, PATH: `${bin}:${process.env["PATH"]}` };
    expect((await svc(["open"], { cwd: directory.path, env })).stdout).toBe("http://shop.svc.localhost:8080\n");
    await expect(readFile(join(directory.path, "http:"))).rejects.toThrow();
  });
});
