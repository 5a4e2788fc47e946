import { manifestSchema } from "@svc/proto";
import { systemClock } from "@svc/runtime/system";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type TestApi, testApi } from "../../http/testing.ts";
import { buildEffects } from "./build.ts";
import type { DeploymentFacts } from "./facts.ts";
import type { StoredDeploy } from "./rows.ts";

let api: TestApi;
beforeAll(async () => {
  api = await testApi();
});
afterAll(() => api?.[Symbol.asyncDispose]());

test("what an image takes is measured by the plan that its owner has once it is copied", async () => {
  const user = await api.newUser({ plan: { storage_mb: 10 } });
  const project = await api.newProject(user, { type: "ociimage" });
  const deployment = await api.newDeployment(project, { status: "building" });
  const failed: string[] = [];
  const effects = buildEffects(
    {
      ...{ clock: systemClock, db: api.db, registry: { getManifest: () => Promise.reject(new Error("not asked")) } },
      // It takes as long as its registry does.
      async resolveImage() {
        const ofOwner = api.db.selectFrom("account").select("plan_id").where("user_id", "=", user.id);
        await api.db.updateTable("plan").set({ storage_mb: 1 }).where("id", "=", ofOwner).execute();
        const size = { sizeBytes: 5 * 2 ** 20, os: "linux", architecture: "amd64" };
        return { repository: `svc/${project.id}/app`, digest: `sha256:${"a".repeat(64)}`, ...size };
      },
    },
    async (_, code, message) => void failed.push(`${code}: ${message}`),
  );
  const at = { of: { deployment, project } } as unknown as DeploymentFacts<StoredDeploy>;
  await effects.resolveImage({ do: "resolveImage" }, at, new AbortController().signal);
  expect(failed).toEqual([expect.stringMatching(/^OCI_IMAGE_TOO_LARGE: .* the plan allows 1 MiB/)]);
});

test("nothing is built for a project that is being deleted", async () => {
  const project = await api.newProject(await api.newUser(), { type: "ssr" });
  const manifest = manifestSchema.parse({
    version: 2,
    app: { name: "Shop", type: "ssr" },
    start: { command: "node ." },
  });
  const source = { source_repository: `svc/${project.id}/source`, source_digest: `sha256:${"0".repeat(64)}` };
  const deployment = await api.newDeployment(project, { status: "building", manifest, ...source });
  const unasked = () => Promise.reject(new Error("not asked"));
  const effects = buildEffects(
    { clock: systemClock, db: api.db, registry: { getManifest: unasked }, resolveImage: unasked },
    unasked,
  );
  const at = { of: { deployment, project, manifest } } as unknown as DeploymentFacts<StoredDeploy>;
  const create = async () => {
    await effects.createBuild({ do: "createBuild" }, at, new AbortController().signal);
    return api.db.selectFrom("task").select("kind").where("owner_id", "=", deployment.id).execute();
  };
  await api.db.updateTable("project").set({ deleting_at: new Date() }).where("id", "=", project.id).execute();
  expect(await create()).toEqual([]);
  await api.db.updateTable("project").set({ deleting_at: null }).where("id", "=", project.id).execute();
  expect(await create()).toEqual([{ kind: "build" }]);
});
