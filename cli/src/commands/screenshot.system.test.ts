import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { aDeployment, aProject, deploymentId, ok, projectId, type Routes, refusal, startApi } from "../testing/api.ts";
import { aDirectory, envelopeOf, svc } from "../testing/svc.ts";

const state = JSON.stringify({ project: { id: projectId, slug: "shop" } });
const picture = Buffer.from("\x89PNG\r\n\x1a\n and so on", "latin1");
const [before, after] = ["2030-01-01T00:00:00.000Z", "2030-01-01T00:05:00.000Z"];
const at = (screenshotCapturedAt: string | null, fields: object = {}) =>
  aDeployment({ screenshotCapturedAt, ...fields });

const project = `GET /api/v1/projects/${projectId}`;
const list = `GET /api/v1/projects/${projectId}/deployments`;
const look = `GET /api/v1/deployments/${deploymentId}`;
const ask = `POST /api/v1/deployments/${deploymentId}/screenshot`;
const read = `GET /api/v1/deployments/${deploymentId}/screenshot`;

const listed = (...deployments: object[]) => ok({ deployments, nextCursor: null });
const usual: Routes = {
  [project]: ok({ project: aProject(), deployments: [] }),
  [list]: listed(at(before)),
  [ask]: ok({ queued: true }, 202),
  [look]: [ok({ deployment: at(before) }), ok({ deployment: at(after) })],
  [read]: { headers: { "content-type": "image/png", "content-length": String(picture.length) }, body: picture },
};

async function run(args: string[], answers: Routes = {}) {
  await using api = await startApi({ ...usual, ...answers });
  await using directory = await aDirectory({ ".svc/state.json": state });
  const env = { SVC_TOKEN: "svc_key-secret", SVC_API_URL: api.url };
  const ended = await svc(["screenshot", ...args], { cwd: directory.path, env });
  const names = (await readdir(directory.path)).filter((name) => !name.startsWith("."));
  const left = await Promise.all(
    names.map(async (name) => [name, await readFile(join(directory.path, name))] as const),
  );
  return { ...ended, left: Object.fromEntries(left), calls: api.seen.map(({ method, path }) => `${method} ${path}`) };
}

describe.concurrent("svc screenshot", () => {
  test("asks for a picture of what runs on production, waits for it, and writes it", async () => {
    const ended = await run(["--json"]);
    expect(envelopeOf(ended)).toMatchObject({
      ok: true,
      operation: "screenshot",
      project: { slug: "shop" },
      deployment: { id: deploymentId, channel: "production" },
      capturedAt: after,
      path: expect.stringMatching(/\/shop-production\.png$/),
      sizeBytes: picture.length,
    });
    expect(ended.left).toEqual({ "shop-production.png": picture });
    expect(ended.calls).toContain(`${list}?channel=production&status=running&limit=100`);
  });

  test("--out names the file, an argument the deployment", async () => {
    const look = [at(null), at(null), at(after)].map((deployment) => ok({ deployment }));
    const ended = await run([deploymentId, "--out", "page.png"], { [`GET /api/v1/deployments/${deploymentId}`]: look });
    expect(ended).toMatchObject({ status: 0, left: { "page.png": picture } });
    expect(ended.stdout).toMatch(/✓ Wrote .*\/page\.png, \d+ B, taken /);
    expect(ended.calls.filter((call) => call.startsWith("POST"))).toEqual([ask]);
  });

  test("within ten minutes of the last one it is that one, which it says", async () => {
    const ended = await run(["--json"], { [ask]: refusal(429, "RATE_LIMITED") });
    expect(envelopeOf(ended)).toMatchObject({ capturedAt: before, warnings: [expect.stringContaining("ten minutes")] });
    expect(ended.left).toEqual({ "shop-production.png": picture });
  });

  test("one that is asked for already, and the first, is waited for", async () => {
    const ended = await run(["--json"], {
      [list]: listed(at(null)),
      [ask]: refusal(429, "RATE_LIMITED"),
      [look]: [ok({ deployment: at(null) }), ok({ deployment: at(after) })],
    });
    expect(envelopeOf(ended)).toMatchObject({ capturedAt: after, warnings: [] });
  });

  test.each([
    { args: [], answers: { [list]: listed() }, code: "CLOUD_NOT_FOUND", says: "Nothing runs on production" },
    {
      args: [],
      answers: { [ask]: refusal(409, "SCREENSHOT_UNAVAILABLE", "This installation takes no screenshots") },
      code: "CLOUD_REQUEST_FAILED",
      says: "takes no screenshots",
    },
    { args: [], answers: { [ask]: refusal(403, "FORBIDDEN_SCOPE") }, code: "CLOUD_FORBIDDEN_SCOPE", says: "SCOPE" },
    { args: [deploymentId, "--channel", "preview"], answers: {}, code: "CLI_INVALID_USAGE", says: "--channel" },
    { args: ["--out", "none/page.png"], answers: {}, code: "CLI_INVALID_USAGE", says: "There is no directory" },
    { args: ["--channel", "dev"], answers: {}, code: "CLI_INVALID_USAGE", says: "dev" },
  ])("$args, $code: $says", async ({ args, answers, code, says }) => {
    const ended = await run([...args, "--json"], answers);
    expect(envelopeOf(ended)).toMatchObject({ error: { code, message: expect.stringContaining(says) } });
    expect(ended.left).toEqual({});
    if (code === "CLI_INVALID_USAGE") expect(ended.calls.some((call) => call.startsWith("POST"))).toBe(false);
  });

  test("a download that is cut leaves no file", async () => {
    const cut = { headers: { "content-type": "image/png", "content-length": "9999" }, body: picture };
    const ended = await run([], { [read]: cut });
    expect([ended.status, ended.left]).toEqual([1, {}]);
  });
});
