import { manifestSchema } from "@svc/proto";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { insertEvent } from "../../fleet/tasks/deployment.ts";
import { type TestApi, type TestUser, testApi } from "../../http/testing.ts";

let api: TestApi;
let user: TestUser;
beforeAll(async () => {
  api = await testApi();
  user = await api.newUser();
});
afterAll(() => api[Symbol.asyncDispose]());

const marker = "canary-of-a-command";
const command = fc.string({ unit: "grapheme-ascii", maxLength: 20 }).map((text) => `${marker} ${text}`);
const envFile = fc.stringMatching(/^[a-z]{1,8}$/).map((name) => `${marker}-${name}`);
const job = fc.record(
  {
    name: fc.stringMatching(/^[a-z]{1,10}$/),
    schedule: fc.constantFrom("* * * * *", "0 3 * * mon"),
    timezone: fc.constantFrom("UTC", "Europe/Berlin"),
    command,
    timeoutSeconds: fc.integer({ min: 1, max: 900 }),
    retries: fc.integer({ min: 0, max: 10 }),
    overlap: fc.constantFrom("skip", "queue"),
    enabled: fc.boolean(),
  },
  { requiredKeys: ["name", "schedule", "command"] },
);
const manifest = fc.record(
  {
    version: fc.constant(2),
    app: fc.record({ name: fc.constant("Shop"), type: fc.constant("ssr") }),
    source: fc.record({ rootDirectory: fc.constantFrom(".", "apps/web") }),
    build: fc.record({ command }),
    start: fc.record({ command }),
    release: fc.record({ command, timeoutSeconds: fc.integer({ min: 1, max: 1800 }) }),
    env: fc.record({ files: fc.array(envFile, { maxLength: 3 }) }),
    jobs: fc.uniqueArray(job, { maxLength: 4, selector: ({ name }) => name }),
    dev: fc.record({ command }),
  },
  { requiredKeys: ["version", "app"] },
);

test("a deployment that a later version of control accepted is shown by this one", async () => {
  const project = await api.newProject(user);
  const normal = manifestSchema.parse({ version: 2, app: { name: "Shop", type: "ssr" } });
  const { id } = await api.newDeployment(project, { manifest: { ...normal, soon: 1, health: { path: "/", soon: 1 } } });
  const { status, body } = await api.call("GET", `/deployments/${id}`, { session: user.session });
  expect({ status, health: body.deployment?.manifest.health }).toEqual({
    status: 200,
    health: { path: "/", timeoutSeconds: expect.any(Number) },
  });
});

test("no reply about a deployment shows a command or an env file; what it runs when, and whether it releases, is shown", async () => {
  const project = await api.newProject(user);
  const get = (path: string) => api.call("GET", path, { session: user.session });
  await fc.assert(
    fc.asyncProperty(manifest, async (written) => {
      const normal = manifestSchema.parse(written);
      const { id } = await api.newDeployment(project, {
        manifest: normal,
        release_status: written.release === undefined ? "not_configured" : "pending",
      });
      await insertEvent(api.db, { deploymentId: id, phase: "queued", to: "queued" });
      const detail = await get(`/deployments/${id}`);
      const others = [
        await get(`/projects/${project.id}`),
        await get(`/projects/${project.id}/deployments`),
        await get(`/deployments/${id}/timeline`),
      ];
      for (const { status, text } of [detail, ...others]) {
        expect(status).toBe(200);
        expect(text).not.toContain(marker);
        expect(text).not.toMatch(/"(command|build|start|dev|env)":/);
      }
      const { manifest: shown, release } = detail.body.deployment;
      expect(release.configured).toBe(written.release !== undefined);
      expect(shown.release).toEqual({
        configured: written.release !== undefined,
        timeoutSeconds: written.release?.timeoutSeconds ?? null,
      });
      const jobs = "jobs" in normal ? normal.jobs : [];
      expect(shown.jobs).toEqual(jobs.map(({ command: _, ...metadata }) => metadata));
      expect(shown.source).toEqual("source" in normal ? normal.source : {});
    }),
    { numRuns: 40 },
  );
});
