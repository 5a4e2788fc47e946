import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import {
  aDeployment,
  aProject,
  aRelease,
  deploymentId,
  hangUp,
  ok,
  projectId,
  type Routes,
  refusal,
  startApi,
} from "../testing/api.ts";
import { aDirectory, envelopeOf, type SvcOptions, svc } from "../testing/svc.ts";
import { runAtTerminal } from "../testing/terminal.ts";

const state = JSON.stringify({ project: { id: projectId, slug: "shop" } });
const earlier = "55555555-5555-4555-8555-555555555555";
const detail = `GET /api/v1/projects/${projectId}`;
const list = `GET /api/v1/projects/${projectId}/deployments`;
const poll = `GET /api/v1/deployments/${deploymentId}`;
const named = `GET /api/v1/deployments/${earlier}`;
const at = "2030-01-01T00:00:00.000Z";
const running = ok({ deployment: aDeployment() });
const accepted = ok({ deploymentId, channel: "production", url: "http://shop.svc.localhost:8080" }, 202);
const superseded = aDeployment({ id: earlier, status: "superseded" });
const shown = (...deployments: object[]) => ok({ project: aProject(), deployments });
const listed = (...deployments: object[]) => ok({ deployments, nextCursor: null });

/** Runs svc in a linked directory with `files`, against a platform with these answers. */
async function run(
  args: string[],
  answers: Routes,
  files: Record<string, string> = {},
  more: Partial<SvcOptions> = {},
) {
  await using api = await startApi({
    [detail]: shown(aDeployment(), superseded),
    [poll]: running,
    [`GET /api/v1/deployments/${deploymentId}/logs`]: ok({ log: "", offset: 0 }),
    ...answers,
  });
  await using directory = await aDirectory({ ".svc/state.json": state, ...files });
  const env = { SVC_TOKEN: "svc_key-secret", SVC_API_URL: api.url, ...more.env };
  const ended = await svc(args, { cwd: directory.path, ...more, env });
  const calls = api.seen.map(({ method, path }) => `${method} ${path}`);
  const link = await readFile(join(directory.path, ".svc/state.json"), "utf8").catch(() => null);
  return { ...ended, seen: api.seen, calls, link: link === null ? null : JSON.parse(link) };
}

describe.concurrent("svc rollback", () => {
  const post = `POST /api/v1/deployments/${earlier}/rollback`;

  test("goes back to the last production deployment that was replaced, and waits until it runs", async () => {
    const ended = await run(["rollback", "--json"], {
      [post]: accepted,
      [poll]: [
        ok({ deployment: aDeployment({ status: "deploying" }) }),
        ok({ deployment: aDeployment({ release: { ...aRelease, configured: true, status: "skipped" } }) }),
      ],
    });
    expect(envelopeOf(ended)).toEqual({
      ok: true,
      operation: "rollback",
      warnings: [],
      url: "http://shop.svc.localhost:8080",
      project: { id: projectId, slug: "shop", type: "static", name: "Shop" },
      channel: "production",
      rolledBackTo: { id: earlier, finishedAt: at },
      rolledBackFrom: { id: deploymentId, finishedAt: at },
      deployment: { id: deploymentId, status: "running", release: expect.objectContaining({ status: "skipped" }) },
    });
    expect(ended.status).toBe(0);
  });

  test("finds it behind many that failed since", async () => {
    const ended = await run(["rollback", "--json"], {
      [detail]: shown(aDeployment({ status: "failed" })),
      [list]: listed(superseded),
      [post]: accepted,
    });
    expect(envelopeOf(ended)).toMatchObject({ ok: true, rolledBackTo: { id: earlier } });
    expect(ended.calls).toContain(`${list}?channel=production&status=superseded&limit=1`);
  });

  test("goes back to the one that is named, on its own channel", async () => {
    const dev = { channel: "dev", url: "http://dev-shop.svc.localhost:8080" };
    const ended = await run(
      ["rollback", earlier, "--json"],
      {
        [named]: ok({ deployment: { ...superseded, ...dev } }),
        [post]: ok({ deploymentId, ...dev }, 202),
        [poll]: ok({ deployment: aDeployment(dev) }),
      },
      { ".svc/state.json": "{}" },
    );
    expect(envelopeOf(ended)).toMatchObject({ ok: true, channel: "dev", url: dev.url, project: { slug: "shop" } });
  });

  test.each([
    {
      when: "there is nothing to go back to",
      answers: { [detail]: shown(), [list]: listed() },
      args: [],
      code: "CLOUD_REQUEST_FAILED",
      says: "ROLLBACK_UNAVAILABLE",
      exit: 1,
    },
    {
      when: "the artifact is gone",
      answers: { [post]: refusal(409, "ROLLBACK_UNAVAILABLE") },
      args: [],
      code: "CLOUD_REQUEST_FAILED",
      says: "ROLLBACK_UNAVAILABLE",
      exit: 1,
    },
    {
      when: "the project is suspended",
      answers: { [post]: refusal(403, "SUSPENDED") },
      args: [],
      code: "CLOUD_REQUEST_FAILED",
      says: "SUSPENDED",
      exit: 1,
    },
    {
      when: "it is of another project",
      answers: { [named]: ok({ deployment: superseded }) },
      args: [earlier, "--project", "other"],
      code: "CLOUD_NOT_FOUND",
      says: "other",
      exit: 1,
    },
    { when: "the id is none", answers: {}, args: ["12"], code: "CLI_INVALID_USAGE", says: "12", exit: 2 },
    {
      when: "the new one fails",
      answers: {
        [post]: accepted,
        [poll]: ok({ deployment: aDeployment({ status: "failed", error: "It did not start" }) }),
      },
      args: [],
      code: "DEPLOY_FAILED",
      says: "It did not start",
      exit: 4,
    },
  ])("fails when $when", async ({ answers, args, code, says, exit }) => {
    const ended = await run(["rollback", ...args, "--json"], answers);
    expect(envelopeOf(ended)).toMatchObject({
      error: { code, message: expect.stringContaining(says), hint: expect.any(String) },
    });
    expect(ended.status).toBe(exit);
  });

  test("says what goes and what comes", async () => {
    const gitSha = "0123456789abcdef";
    const answers = { [detail]: shown(aDeployment({ gitSha }), { ...superseded, gitSha: "fedcba9876543210" }) };
    const { stderr } = await run(["rollback"], { ...answers, [post]: accepted });
    expect(stderr).toMatch(new RegExp(`Goes: {2}${deploymentId}, commit 0123456, deployed `));
    expect(stderr).toMatch(new RegExp(`Comes: ${earlier}, commit fedcba9, deployed `));
  });

  describe("right after another one", () => {
    const oldest = earlier.replaceAll("5", "6");
    const staticPath = "svc/shop@sha256:1";
    const undone: Routes = {
      [post]: accepted,
      [detail]: shown(
        aDeployment({ trigger: "rollback", staticPath }),
        { ...superseded, staticPath: "svc/shop@sha256:2" },
        aDeployment({ id: earlier.replaceAll("5", "7"), status: "superseded", staticPath }),
        aDeployment({ id: oldest, status: "superseded", staticPath: "svc/shop@sha256:3" }),
      ),
    };

    test("says that it puts back what was left, and what is further back", async () => {
      const { warnings } = envelopeOf(await run(["rollback", "--json"], undone));
      expect(warnings).toEqual([expect.stringMatching(new RegExp(`^${earlier} was left by .*svc rollback ${oldest}`))]);
    });

    test.each([
      ["with --yes", ["--yes"]],
      ["of one that is named", [earlier]],
    ])("says nothing %s", async (_, args) => {
      const answers = { ...undone, [named]: ok({ deployment: superseded }) };
      expect(envelopeOf(await run(["rollback", "--json", ...args], answers))).toMatchObject({ ok: true, warnings: [] });
    });

    test.each([
      ["y", 0],
      ["\r", 6],
    ])("asks a person: %j", async (typed, status) => {
      await using api = await startApi({
        ...{ [poll]: running, [`GET /api/v1/deployments/${deploymentId}/logs`]: ok({ log: "", offset: 0 }) },
        ...undone,
      });
      await using directory = await aDirectory({ ".svc/state.json": state });
      const env = { SVC_TOKEN: "svc_key-secret", SVC_API_URL: api.url };
      const ended = await runAtTerminal(["rollback"], { cwd: directory.path, env, typed, asked: "Put it back?" });
      expect(ended.status).toBe(status);
      expect(api.seen.some(({ method }) => method === "POST")).toBe(status === 0);
    });
  });

  test("is asked for once, although the first answer is lost; --no-wait returns then", async () => {
    const ended = await run(["rollback", "--no-wait", "--json"], { [post]: [hangUp, accepted] });
    expect(envelopeOf(ended)).toMatchObject({
      ok: true,
      queued: true,
      rolledBackTo: { id: earlier, finishedAt: at },
      deployment: { id: deploymentId, status: "queued" },
    });
    const keys = ended.seen.filter(({ method }) => method === "POST").map(({ headers }) => headers["idempotency-key"]);
    expect(keys).toEqual([expect.any(String), keys[0]]);
    expect(ended.calls).not.toContain(`GET /api/v1/deployments/${deploymentId}`);
  });
});

describe.concurrent("svc promote", () => {
  const preview = { id: earlier, channel: "preview", status: "running" };
  const post = `POST /api/v1/deployments/${earlier}/promote`;

  test("puts the running preview into production", async () => {
    const ended = await run(["promote", "--json"], { [list]: listed(aDeployment(preview)), [post]: accepted });
    expect(envelopeOf(ended)).toMatchObject({
      ok: true,
      operation: "promote",
      url: "http://shop.svc.localhost:8080",
      project: { id: projectId, slug: "shop" },
      promotedFrom: { id: earlier },
      deployment: { id: deploymentId, status: "running" },
    });
  });

  test.each([
    [{ [list]: listed() }, "CLOUD_REQUEST_FAILED", "PROMOTE_UNAVAILABLE", 1],
    [
      {
        [list]: listed(
          aDeployment({ ...preview, gitPrNumber: 7 }),
          aDeployment({ ...preview, gitPrNumber: 8, id: deploymentId }),
        ),
      },
      "CLI_INVALID_USAGE",
      "preview #8",
      2,
    ],
    [
      { [list]: listed(aDeployment(preview)), [post]: refusal(409, "DATABASE_NOT_READY", "No database.") },
      "DATABASE_NOT_READY",
      "No database.",
      1,
    ],
  ])("says what stands against it: %#", async (answers, code, says, exit) => {
    const ended = await run(["promote", "--json"], answers);
    expect(envelopeOf(ended)).toMatchObject({ error: { code, message: expect.stringContaining(says) } });
    expect(ended.status).toBe(exit);
  });
});

describe.concurrent("svc cancel", () => {
  const post = `POST /api/v1/deployments/${deploymentId}/cancel`;
  const asked = ok({ deploymentId, queued: true }, 202);
  const inState = (status: string) => ok({ deployment: aDeployment({ status }) });

  test("ends the deployment that is on its way", async () => {
    const ended = await run(["cancel", "--json"], {
      [list]: listed(aDeployment({ status: "building" }), superseded),
      [post]: asked,
      [poll]: [inState("building"), inState("canceled")],
    });
    expect(envelopeOf(ended)).toMatchObject({
      ok: true,
      operation: "cancel",
      deployment: { id: deploymentId, status: "canceled", channel: "production" },
    });
  });

  test("needs no project when the deployment is named", async () => {
    const ended = await run(["cancel", deploymentId, "--no-wait", "--json"], { [post]: asked });
    expect(envelopeOf(ended)).toMatchObject({ ok: true, queued: true });
    expect(ended.calls).toEqual([post]);
  });

  test("says when it came too late", async () => {
    const ended = await run(["cancel", deploymentId, "--json"], { [post]: asked, [poll]: inState("running") });
    expect(envelopeOf(ended)).toMatchObject({
      error: { code: "CLOUD_REQUEST_FAILED", hint: expect.stringContaining("svc rollback") },
    });
    expect((await run(["cancel"], { [list]: listed(superseded) })).stderr).toContain("CANCEL_UNAVAILABLE");
  });
});

describe.concurrent("svc previews delete", () => {
  const remove = `DELETE /api/v1/deployments/${earlier}`;
  const preview = aDeployment({ id: earlier, channel: "preview", gitPrNumber: 7, url: "http://preview-shop--7.test" });
  const gone = refusal(404, "NOT_FOUND");
  const removed = ok({ deploymentId: earlier, queued: true }, 202);

  test("removes the preview of a pull request, and waits until it is gone", async () => {
    const ended = await run(["previews", "rm", "7", "--yes", "--json"], {
      [list]: listed(preview),
      [remove]: removed,
      [named]: [ok({ deployment: preview }), gone],
    });
    expect(envelopeOf(ended)).toMatchObject({
      ok: true,
      operation: "previews.delete",
      url: "http://preview-shop--7.test",
      deployment: { id: earlier, channel: "preview" },
      deleted: true,
    });
  });

  test.each([
    { args: ["7"], code: "DESTRUCTIVE_CONFIRMATION_REQUIRED", exit: 6 },
    { args: ["seven", "--yes"], code: "CLI_INVALID_USAGE", exit: 2 },
    { args: ["8", "--yes"], code: "CLOUD_NOT_FOUND", exit: 1 },
    { args: [deploymentId, "--yes"], code: "CLI_INVALID_USAGE", exit: 2 },
  ])("$args: removes nothing", async ({ args, code, exit }) => {
    const ended = await run(["previews", "delete", ...args, "--json"], { [list]: listed(preview) });
    expect(envelopeOf(ended)).toMatchObject({ error: { code, hint: expect.stringMatching(/svc |--yes/) } });
    expect(ended.status).toBe(exit);
    expect(ended.calls.some((call) => call.startsWith("DELETE"))).toBe(false);
  });
});

describe.concurrent("svc projects rename", () => {
  const put = `PUT /api/v1/projects/${projectId}`;
  const renamed = ok({ project: aProject({ slug: "store", url: "http://store.svc.localhost:8080" }), deployments: [] });

  test("waits until the project has its new slug, and links this directory anew", async () => {
    const ended = await run(
      ["projects", "rename", "store", "--json"],
      { [put]: ok({ queued: true, newSlug: "store" }, 202), [detail]: [shown(), shown(), renamed] },
      { "svc.yml": "version: 2\nslug: shop\napp: { name: Shop, type: static }\n" },
    );
    expect(envelopeOf(ended)).toEqual({
      ok: true,
      operation: "projects.rename",
      warnings: [expect.stringContaining("slug: store")],
      url: "http://store.svc.localhost:8080",
      project: { id: projectId, slug: "store", type: "static", name: "Shop" },
      oldSlug: "shop",
      newSlug: "store",
    });
    expect(ended.seen.find(({ method }) => method === "PUT")?.body.toString()).toBe('{"slug":"store"}');
    expect(ended.link).toMatchObject({ project: { id: projectId, slug: "store" } });
  });

  test("that takes more than a minute is told as that", async () => {
    const ended = await run(
      ["projects", "rename", "store", "--json"],
      { [put]: ok({ queued: true, newSlug: "store" }, 202) },
      {},
      {
        env: {
          NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(
            "const now=performance.now.bind(performance);performance.now=()=>now()*100",
          )}`,
        },
      },
    );
    expect(envelopeOf(ended)).toMatchObject({
      error: { code: "CLOUD_REQUEST_FAILED", hint: expect.stringContaining("svc projects list") },
    });
    expect(ended.link).toMatchObject({ project: { slug: "shop" } });
  });

  test.each([
    [409, "SLUG_CONFLICT"],
    [422, "VALIDATION"],
    [403, "SUSPENDED"],
  ])("is answered %i %s", async (status, code) => {
    const ended = await run(["projects", "rename", "store", "--json"], { [put]: refusal(status, code) });
    expect(envelopeOf(ended)).toMatchObject({
      error: { code: "CLOUD_REQUEST_FAILED", message: expect.stringContaining(code) },
    });
    expect(ended.status).toBe(1);
  });
});

describe.concurrent("svc registry", () => {
  const path = `/api/v1/projects/${projectId}/registry-credentials`;
  const credential = { host: "ghcr.io", configured: true, createdAt: at, updatedAt: at };
  const image = { [detail]: ok({ project: aProject({ type: "ociimage" }), deployments: [] }) };
  const project = { id: projectId, slug: "shop", type: "ociimage", name: "Shop" };

  test("list shows hosts and when they were stored", async () => {
    const ended = await run(["registry", "list", "--json"], {
      ...image,
      [`GET ${path}`]: ok({ credentials: [credential] }),
    });
    expect(envelopeOf(ended)).toEqual({
      ok: true,
      operation: "registry.list",
      warnings: [],
      project,
      credentials: [credential],
    });
  });

  const login = {
    ...{ host: "images.svc.test", prefix: "accounts/u1/", username: "u1", password: "svcr_only-for-docker" },
    expiresAt: at,
  };
  const reference = "images.svc.test/accounts/u1/<name>:<tag>";

  test("login gives docker a password, and shows it to nobody else", async () => {
    await using bin = await aDirectory({});
    // Stands in for docker: keeps what it was told.
    const said = join(bin.path, "said");
    const script = `#!/bin/sh\nprintf '%s\\n' "$@" > ${said}\ncat >> ${said}\n`;
    await writeFile(join(bin.path, "docker"), script, { mode: 0o755 });
    const env = { PATH: `${bin.path}:${process.env["PATH"]}` };
    const answers = { "POST /api/v1/registry/login": ok({ login }) };
    const ended = await run(["registry", "login", "--json", "--verbose"], answers, {}, { env });
    expect(envelopeOf(ended)).toEqual({
      ok: true,
      operation: "registry.login",
      warnings: [],
      ...{ registry: login.host, prefix: login.prefix, username: "u1", expiresAt: at, docker: true, reference },
    });
    const told = ["login", login.host, "--username", "u1", "--password-stdin", login.password];
    expect(await readFile(said, "utf8")).toBe(told.join("\n"));
    expect(ended.stdout + ended.stderr).not.toContain(login.password);
    const shown = await run(["registry", "login"], answers, {}, { env });
    expect(shown.stdout).toContain(`docker push ${reference}`);
  });

  test("login says what else there is where docker is missing, and what docker said where it failed", async () => {
    await using bin = await aDirectory({});
    const answers = { "POST /api/v1/registry/login": ok({ login }) };
    const without = await run(["registry", "login", "--json"], answers, {}, { env: { PATH: bin.path } });
    expect(envelopeOf(without)).toMatchObject({ docker: false, warnings: [expect.stringMatching(/API key/)] });
    const script = '#!/bin/sh\nread -r password\necho "unauthorized: no $password" >&2\nexit 1\n';
    await writeFile(join(bin.path, "docker"), script, { mode: 0o755 });
    const refused = await run(["registry", "login", "--json"], answers, {}, { env: { PATH: bin.path } });
    expect(envelopeOf(refused)).toMatchObject({ error: { message: expect.stringContaining("unauthorized: no") } });
    expect(refused.stdout + refused.stderr).not.toContain(login.password);
    const closed = { "POST /api/v1/registry/login": refusal(404, "NOT_FOUND", "Images cannot be pushed here.") };
    const nowhere = await run(["registry", "login", "--json"], closed);
    expect(envelopeOf(nowhere)).toMatchObject({ error: { message: "Images cannot be pushed here." } });
  });

  test("set reads the secret from stdin, and shows it to nobody but the platform", async () => {
    const ended = await run(
      ["registry", "set", "GHCR.io", "--username", "ada", "--json", "--verbose"],
      { ...image, [`PUT ${path}`]: ok({ credential, rotated: true }) },
      {},
      { stdin: "hunter22-hunter22\n" },
    );
    expect(envelopeOf(ended)).toMatchObject({ ok: true, project, credential, rotated: true });
    expect(JSON.parse(String(ended.seen.at(-1)?.body))).toEqual({
      host: "ghcr.io",
      username: "ada",
      secret: "hunter22-hunter22",
    });
    expect(ended.stdout + ended.stderr).not.toContain("hunter22");
  });

  test.each([
    { what: "nothing on stdin", args: ["ghcr.io", "--username", "ada"], stdin: "" },
    { what: "too much on stdin", args: ["ghcr.io", "--username", "ada"], stdin: "x".repeat(100_000) },
    { what: "no user name", args: ["ghcr.io"], stdin: "s" },
    { what: "a path for a host", args: ["ghcr.io/ada/shop", "--username", "ada"], stdin: "s" },
  ])("set with $what sends nothing", async ({ args, stdin }) => {
    const ended = await run(["registry", "set", ...args, "--json"], image, {}, { stdin });
    expect(envelopeOf(ended)).toMatchObject({
      error: { code: "CLI_INVALID_USAGE", hint: expect.stringContaining("svc registry set ghcr.io") },
    });
    expect(ended.status).toBe(2);
    expect(ended.calls.some((call) => call.startsWith("PUT"))).toBe(false);
  });

  test("set has no use for a project that pulls no images", async () => {
    const ended = await run(["registry", "set", "ghcr.io", "--username", "ada", "--json"], {}, {}, { stdin: "s" });
    expect(envelopeOf(ended)).toMatchObject({
      error: { code: "CLI_INVALID_USAGE", message: expect.stringContaining("static") },
    });
  });

  test("remove needs a yes, and tells the platform so", async () => {
    const answers = { ...image, [`DELETE ${path}`]: ok({ host: "ghcr.io" }) };
    const refused = await run(["registry", "rm", "ghcr.io", "--json"], answers);
    expect(envelopeOf(refused)).toMatchObject({ error: { code: "DESTRUCTIVE_CONFIRMATION_REQUIRED" } });
    expect({ status: refused.status, calls: refused.calls }).toEqual({ status: 6, calls: [] });
    const ended = await run(["registry", "remove", "ghcr.io", "--yes", "--json"], answers);
    expect(envelopeOf(ended)).toMatchObject({ ok: true, operation: "registry.remove", project, host: "ghcr.io" });
    expect(JSON.parse(String(ended.seen.at(-1)?.body))).toEqual({ host: "ghcr.io", confirm: true });
  });
});
