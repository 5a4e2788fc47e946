import { systemClock } from "@svc/runtime/system";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { type TestApi, type TestUser, testApi } from "../../http/testing.ts";
import type { Deployment, Project } from "../../stores/db/tables.ts";
import { createPlacementLoader } from "./assignment.ts";
import { envAad } from "./environment.ts";

const digestOf = (letter: string) => `sha256:${letter.repeat(64)}`;

let api: TestApi;
let user: TestUser;
let project: Project;
beforeAll(async () => {
  api = await testApi();
  user = await api.newUser();
});
afterAll(() => api?.[Symbol.asyncDispose]());
beforeEach(async () => {
  project = await api.newProject(user, { type: "ssr" });
});

const source = (of: Project) => ({
  source_repository: `svc/${of.id}/source`,
  source_digest: digestOf("0"),
});
const built = (of: Project, letter: string, values: Partial<Deployment> = {}) =>
  api.newDeployment(of, {
    ...{ status: "superseded", ...source(of), build_key: letter.repeat(64), artifact_kind: "image" },
    ...{ artifact_repository: `svc/${of.id}/app`, artifact_digest: digestOf(letter), artifact_size: 7 },
    ...{ artifact_os: "linux", artifact_architecture: "amd64" },
    ...values,
  });

/** What a node is told that is to build another deployment of the same source. */
async function specOf(of: Project, env: Record<string, string> = {}, values: Partial<Deployment> = {}) {
  const { db, secrets } = api.context;
  const deployment = await api.newDeployment(of, { status: "building", ...source(of), ...values });
  const sealed = secrets.seal(Buffer.from(JSON.stringify(env)), envAad(deployment.id));
  await db.updateTable("deployment").set({ env: sealed }).where("id", "=", deployment.id).execute();
  const spec = {
    ...{ kind: "build", sourceRepository: `svc/${of.id}/source`, sourceDigest: digestOf("0"), rootDirectory: "." },
    ...{ targetRepository: `svc/${of.id}/app`, timeoutSeconds: 60, maxImageMb: 100, maxUnpackedMb: 100 },
    recipe: { image: { dockerfile: "", buildCommand: "", startCommand: "", port: 3000 } },
    cacheNamespace: of.id,
  };
  const task = await api.newTask(deployment, { kind: "build", spec: JSON.stringify(spec) });
  const images = { baseImage: "node:24-slim", builderImage: "node:24" };
  const load = createPlacementLoader(systemClock, {
    db,
    secrets,
    registryHost: "registry.test",
    ...images,
    buildCaBundle: "",
    gatePass: () => "",
  });
  const placement = await load(task.id);
  if (placement?.spec.case !== "build") throw new Error("no build");
  return placement.spec.value;
}

test("a build is told of those of the same source whose results are there, the newest first", async () => {
  const [first, second] = [await built(project, "a"), await built(project, "b")];
  await built(project, "c", { source_digest: digestOf("1") });
  await built(project, "d", { artifact_removed_at: new Date() });
  await built(project, "e", { build_key: null });
  await built(project, "f", { artifact_repository: `svc/${project.id}/bundle`, artifact_kind: "bundle" });
  const { priorBuilds, noCache } = await specOf(project);
  expect(priorBuilds).toMatchObject([
    { deploymentId: second.id, key: "b".repeat(64), digest: digestOf("b"), sizeBytes: 7n },
    { deploymentId: first.id, key: "a".repeat(64), digest: digestOf("a") },
  ]);
  expect(priorBuilds[0]?.platform).toMatchObject({ os: "linux", architecture: "amd64" });
  expect(noCache).toBe(false);
});

test("what another project built of the same source is nobody's business", async () => {
  await built(await api.newProject(user, { type: "ssr" }), "a");
  expect((await specOf(project)).priorBuilds).toEqual([]);
});

test("one that is to be built in any case is told of none", async () => {
  await built(project, "a");
  expect(await specOf(project, {}, { force_build: true })).toMatchObject({ priorBuilds: [], noCache: true });
});

test("variables are told apart by what says nothing of them", async () => {
  const { envDigest } = await specOf(project, { A: "1", B: "2" });
  expect(envDigest).toMatch(/^[0-9a-f]{64}$/);
  expect((await specOf(project, { B: "2", A: "1" })).envDigest).toBe(envDigest);
  expect((await specOf(project, { A: "1", B: "3" })).envDigest).not.toBe(envDigest);
  expect((await specOf(await api.newProject(user, { type: "ssr" }), { A: "1", B: "2" })).envDigest).not.toBe(envDigest);
});
