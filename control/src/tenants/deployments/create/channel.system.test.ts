import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type RegistryProcess, startDockerRegistry } from "../../../../../registry/src/testing/docker-registry.ts";
import { type TestApi, testApi } from "../../../http/testing.ts";
import type { Plan, ProjectType } from "../../../stores/db/tables.ts";
import { formOf } from "../testing/source.ts";

/** Which channel a deployment goes to, by what its manifest forces, its project says, its type and its plan have. */

let registryProcess: RegistryProcess;
let api: TestApi;
beforeAll(async () => {
  registryProcess = await startDockerRegistry();
  api = await testApi({ registryUrl: registryProcess.url, resolve: async () => ["93.184.215.14"] });
});
afterAll(async () => {
  await api[Symbol.asyncDispose]();
  await registryProcess[Symbol.asyncDispose]();
});

function bodyOf(type: ProjectType, channel: string | null, prNumber: number | null): unknown {
  const forced = channel !== null && { channel };
  const metadata = { gitPrNumber: prNumber };
  if (type === "ociimage") {
    const image = { reference: "registry.example.test/shop:1" };
    return { manifest: { version: 2, name: "Shop", type, port: 80, image, ...forced }, metadata };
  }
  return formOf({ manifest: { version: 2, app: { name: "Shop", type }, ...forced }, metadata });
}

interface Situation {
  type: ProjectType;
  /** What the manifest forces; null: nothing. */
  forces: string | null;
  mode?: "auto" | "preview";
  pr?: number;
  plan?: Partial<Plan>;
  is: readonly unknown[];
}
const noPreviews = { previews_enabled: false };
const noDev = { dev_sync_enabled: false };

describe.each(["static", "ssr", "ociimage"] as const)("a project of type %s", (type) => {
  test.each<Omit<Situation, "type">>([
    { forces: null, is: [202, "production", ""] },
    { forces: null, mode: "preview", is: [202, "preview", "preview-"] },
    { forces: null, mode: "preview", pr: 7, is: [202, "preview", "preview-", "--7"] },
    { forces: null, mode: "preview", plan: noPreviews, is: [403, "PREVIEW_UNAVAILABLE"] },
    { forces: null, mode: "preview", pr: 7, plan: noPreviews, is: [403, "PREVIEW_UNAVAILABLE"] },
    { forces: "production", mode: "preview", plan: noPreviews, is: [202, "production", ""] },
    { forces: "production", pr: 7, is: [202, "production", ""] },
    { forces: "preview", is: [202, "preview", "preview-"] },
    { forces: "preview", pr: 7, is: [202, "preview", "preview-", "--7"] },
    { forces: "preview", plan: noPreviews, is: [403, "PREVIEW_UNAVAILABLE"] },
    { forces: "dev", is: type === "ssr" ? [202, "dev", "dev-"] : [422, "VALIDATION"] },
    { forces: "dev", pr: 7, is: type === "ssr" ? [202, "dev", "dev-"] : [422, "VALIDATION"] },
    { forces: "dev", mode: "preview", is: type === "ssr" ? [202, "dev", "dev-"] : [422, "VALIDATION"] },
    // What the type never has is said before what the plan does not have.
    { forces: "dev", plan: noDev, is: type === "ssr" ? [403, "PLAN_FEATURE_UNAVAILABLE"] : [422, "VALIDATION"] },
  ])("that forces $forces, in mode $mode, of pull request $pr, with the plan $plan: $is", async (situation) => {
    const { forces, mode = "auto", pr = null, plan = {}, is } = situation;
    const owner = await api.newUser({ plan });
    const project = await api.newProject(owner, { type });
    await api.db.updateTable("project").set({ deploy_mode: mode }).where("id", "=", project.id).execute();
    const { status, body } = await api.call("POST", `/projects/${project.id}/deployments`, {
      session: owner.session,
      body: bodyOf(type, forces, pr),
    });
    const [, code, prefix, suffix = ""] = is;
    if (status !== 202) expect([status, body.error.code]).toEqual(is);
    else
      expect([status, body.channel, body.url]).toEqual([
        202,
        code,
        `http://${String(prefix)}${project.slug}${String(suffix)}.svc.localhost:8080`,
      ]);
  });
});

test("a plan of no deployments per hour allows none", async () => {
  const owner = await api.newUser({ plan: { max_deploys_per_hour: 0 } });
  const project = await api.newProject(owner, { type: "ociimage" });
  const answer = await api.call("POST", `/projects/${project.id}/deployments`, {
    session: owner.session,
    body: bodyOf("ociimage", null, null),
  });
  expect([answer.status, answer.body.error.code]).toEqual([429, "RATE_LIMITED"]);
});

test("an image deployment keeps of an earlier one what it does not name", async () => {
  const owner = await api.newUser();
  const project = await api.newProject(owner, { type: "ociimage" });
  const deploy = async (manifest: object, from?: string) => {
    const { status, body } = await api.call("POST", `/projects/${project.id}/deployments`, {
      session: owner.session,
      body: {
        manifest: { version: 2, name: "Shop", type: "ociimage", ...manifest },
        ...(from !== undefined && { preserveManifestFromDeploymentId: from }),
      },
    });
    expect(status).toBe(202);
    return body;
  };
  const health = { path: "/ready", timeoutSeconds: 90 };
  const first = await deploy({ port: 80, image: { reference: "a.example.test/b:1" }, health, channel: "preview" });
  const image = { reference: "a.example.test/b:2" };
  const second = await deploy({ port: 81, image, health: { timeoutSeconds: 5 } }, first.deploymentId);
  expect(second.channel).toBe("production");
  const shown = await api.call("GET", `/deployments/${second.deploymentId}`, { session: owner.session });
  expect(shown.body.deployment.manifest).toEqual({
    version: 2,
    name: "Shop",
    type: "ociimage",
    port: 81,
    image,
    health: { path: "/ready", timeoutSeconds: 5 },
  });
  // Without the name of one it replaces everything.
  const third = await deploy({ port: 81, image });
  const plain = await api.call("GET", `/deployments/${third.deploymentId}`, { session: owner.session });
  expect(plain.body.deployment.manifest.health).toEqual({ path: "/", timeoutSeconds: 60 });
});
