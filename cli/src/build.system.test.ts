import { join } from "node:path";
import { expect, test } from "vitest";
import { aDeployment, anAccepted, aProject, deploymentId, ok, projectId, startApi } from "./testing/api.ts";
import { layBundle } from "./testing/bundle.ts";
import { aDirectory, svc } from "./testing/svc.ts";

test("the bundle is the whole program: it runs where nothing else is installed", { timeout: 120_000 }, async () => {
  await using place = await aDirectory({ "work/svc.yml": "version: 2\napp: { nam: Shop, type: static }\n" });
  const program = await layBundle(place.path);
  const cwd = join(place.path, "work");

  expect(await svc(["--version"], { cwd, program })).toMatchObject({ status: 0, stdout: expect.stringMatching(/^\d/) });
  expect(await svc(["--help"], { cwd, program })).toMatchObject({ stdout: expect.stringContaining("projects delete") });
  // Messages of the schemas are made by code that a bundler could take for unused.
  const invalid = await svc(["manifest", "validate"], { cwd, program });
  expect(invalid.stderr).toMatch(/app\.name is missing[\s\S]*did you mean name\?/);

  await using api = await startApi({
    "GET /api/v1/projects": ok({ projects: [aProject()] }),
    [`POST /api/v1/projects/${projectId}/deployments`]: ok(anAccepted(), 202),
    [`GET /api/v1/deployments/${deploymentId}`]: ok({ deployment: aDeployment() }),
    [`GET /api/v1/deployments/${deploymentId}/logs`]: ok({ log: "", offset: 0 }),
  });
  const env = { SVC_TOKEN: "svc_key-secret", SVC_API_URL: api.url };
  await using site = await aDirectory({
    "svc.yml": "version: 2\nslug: shop\napp: { name: Shop, type: static }\n",
    "index.html": "",
  });
  expect(await svc(["deploy"], { cwd: site.path, env, program })).toMatchObject({ status: 0 });
});
