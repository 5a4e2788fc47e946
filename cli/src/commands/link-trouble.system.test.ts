import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import {
  aDeployment,
  anAccepted,
  aProject,
  aUser,
  deploymentId,
  ok,
  projectId,
  type Routes,
  refusal,
  startApi,
} from "../testing/api.ts";
import { aDirectory, envelopeOf, svc } from "../testing/svc.ts";
import { runAtTerminal } from "../testing/terminal.ts";

const link = JSON.stringify({ project: { id: projectId, slug: "shop" } });
const manifest = "version: 2\nslug: shop\napp: { name: Shop, type: static }\n";
const detail = `GET /api/v1/projects/${projectId}`;
const list = `GET /api/v1/projects/${projectId}/deployments`;
const remove = `DELETE /api/v1/projects/${projectId}`;
const another = "33333333-3333-4333-8333-333333333333";

/** Runs svc in a linked directory, at a terminal where somebody types `typed`, or without one. */
async function run(
  line: string,
  { answers = {}, files = {}, typed }: { answers?: Routes; files?: Record<string, string>; typed?: string } = {},
) {
  await using api = await startApi(answers);
  await using directory = await aDirectory({
    ".svc/state.json": link,
    "svc.yml": manifest,
    "index.html": "<h1>",
    ".env": "A=1",
    ...files,
  });
  const where = { cwd: directory.path, env: { SVC_TOKEN: "svc_key-secret", SVC_API_URL: api.url } };
  const argv = line.split(" ");
  const ended =
    typed === undefined ? await svc(argv, where) : await runAtTerminal(argv, { ...where, typed, asked: "?" });
  const state = await readFile(join(directory.path, ".svc/state.json"), "utf8").catch(() => null);
  const calls = api.seen.map(({ method, path }) => `${method} ${path.split("?")[0]}`);
  return { ...ended, calls, linked: state === null ? null : JSON.parse(state).project.id };
}

describe.concurrent("a link to a project that is gone", () => {
  test.each([
    "status",
    "logs",
    "logs --runtime",
    "open",
    "verify",
    "stop",
    "start",
    "rollback",
    "promote",
    "cancel",
    "env pull",
    "env push --yes",
    "previews delete 4 --yes",
    "projects rename corner-shop",
    "registry list",
    "deploy",
    "deploy --dry-run",
  ])("svc %s says how to be rid of it", async (line) => {
    const ended = await run(`${line} --json`);
    expect(envelopeOf(ended)).toMatchObject({
      error: {
        code: "CLOUD_NOT_FOUND",
        message: expect.stringMatching(/^The project shop, .* is gone/),
        hint: expect.stringContaining("`svc unlink`"),
      },
    });
    expect(ended.status).toBe(1);
    expect(ended.linked).toBe(projectId);
  });

  test("svc doctor says so, too", async () => {
    const me = { "GET /api/v1/me": ok({ user: aUser, scopes: null, projectIds: null }) };
    const { checks } = envelopeOf(await run("doctor --json", { answers: { "GET /healthz": ok({}), ...me } }));
    expect(checks).toContainEqual(
      expect.objectContaining({ name: "project", status: "failed", hint: expect.stringContaining("`svc unlink`") }),
    );
  });

  test("is no excuse for a project that was named", async () => {
    const ended = await run(`status --project ${another}`);
    expect(ended.stderr).not.toContain("unlink");
  });

  test("is not blamed for something else that is missing", async () => {
    const answers = { [detail]: ok({ project: aProject(), deployments: [] }) };
    expect((await run("env pull", { answers })).stderr).not.toContain("unlink");
  });
});

describe.concurrent("svc unlink", () => {
  test("forgets the link, and asks nobody", async () => {
    const ended = await run("unlink --json");
    expect(envelopeOf(ended)).toMatchObject({ ok: true, unlinked: true, project: { id: projectId, slug: "shop" } });
    expect(ended).toMatchObject({ linked: null, calls: [] });
  });

  test("forgets one that cannot be read", async () => {
    const files = { ".svc/state.json": "{" };
    await using directory = await aDirectory(files);
    const env = { SVC_TOKEN: "svc_key-secret", SVC_API_URL: "http://127.0.0.1:1" };
    expect((await svc(["status"], { cwd: directory.path, env })).stderr).toContain("`svc unlink`");
    const ended = await svc(["unlink", "--json"], { cwd: directory.path });
    expect(envelopeOf(ended)).toMatchObject({ unlinked: true, project: null });
    expect(envelopeOf(await svc(["unlink", "--json"], { cwd: directory.path }))).toMatchObject({ unlinked: false });
  });
});

/** A platform on which the project of the link is not, and another can be made. */
const makesAnother: Routes = {
  "GET /api/v1/projects": ok({ projects: [] }),
  "POST /api/v1/projects": ok({ project: aProject({ id: another }) }, 201),
  [`POST /api/v1/projects/${another}/deployments`]: ok(anAccepted(), 202),
  [`GET /api/v1/deployments/${deploymentId}`]: ok({ deployment: aDeployment() }),
  [`GET /api/v1/deployments/${deploymentId}/logs`]: ok({ log: "", offset: 0 }),
};

describe.concurrent("a deploy at a terminal", () => {
  test("goes on without a link to what is gone, if the person likes", async () => {
    const ended = await run("deploy", { answers: makesAnother, typed: "\r" });
    expect(ended).toMatchObject({ status: 0, linked: another });
  });

  test("stops if not", async () => {
    const ended = await run("deploy", { answers: makesAnother, typed: "n" });
    expect(ended).toMatchObject({ status: 1, linked: projectId });
    expect(ended.calls).not.toContain("POST /api/v1/projects");
  });

  test("makes a project of the right type of one that nothing of has run", async () => {
    const answers = { ...makesAnother, ...wrongType([aDeployment({ status: "failed" })]) };
    const ended = await run("deploy", { answers, typed: "y" });
    expect(ended).toMatchObject({ status: 0, linked: another });
    expect(ended.calls).toContain(remove);
  });
});

/** A project of the wrong type, with these deployments. */
const wrongType = (deployments: object[], others: object[] = []): Routes => ({
  [detail]: ok({ project: aProject({ type: "ssr" }), deployments }),
  [list]: ok({ deployments: [...deployments, ...others], nextCursor: null }),
  [remove]: ok({ id: projectId }),
});

describe.concurrent("svc init --force over a project of another type", () => {
  const failed = wrongType([aDeployment({ status: "failed" })]);

  test.each([
    ["y", null],
    ["\r", projectId],
  ])("asks whether to make it anew: %j", async (typed, linked) => {
    const ended = await run("init --force", { answers: failed, typed });
    expect(ended).toMatchObject({ status: 0, linked });
    expect(ended.calls.includes(remove)).toBe(linked === null);
    expect(ended.stderr.includes("`svc projects delete shop --yes`")).toBe(linked !== null);
  });

  test("says the command where nobody can be asked", async () => {
    const ended = await run("init --force --json", { answers: failed });
    expect(envelopeOf(ended)).toMatchObject({
      ok: true,
      warnings: [expect.stringContaining("`svc projects delete shop --yes`")],
    });
    expect(ended.calls).not.toContain(remove);
  });

  test.each([
    ["serves", wrongType([aDeployment()])],
    ["has a preview", wrongType([], [aDeployment({ channel: "preview" })])],
    ["is about to serve", wrongType([aDeployment({ status: "building" })])],
    ["may have more than can be seen", { ...failed, [list]: refusal(404, "NOT_FOUND") }],
  ])("deletes nothing that %s", async (_, answers) => {
    const ended = await run("init --force", { answers, typed: "y" });
    expect(ended).toMatchObject({ status: 0, linked: projectId });
    expect(ended.stderr).toContain("`svc unlink`");
    expect(ended.calls).not.toContain(remove);
  });

  test.each([
    ["of the same type", { [detail]: ok({ project: aProject(), deployments: [] }) }],
    ["that cannot be asked for", { [detail]: refusal(401, "UNAUTHORIZED") }],
  ])("has nothing to say of one %s", async (_, answers) => {
    const ended = await run("init --force --json", { answers });
    expect(envelopeOf(ended)).toMatchObject({ ok: true, warnings: [] });
  });
});
