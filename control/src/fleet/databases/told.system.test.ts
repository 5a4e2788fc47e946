import { randomUUID } from "node:crypto";
import { databaseStatuses } from "@svc/proto";
import { systemClock } from "@svc/runtime/system";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type TestApi, testApi } from "../../http/testing.ts";
import type { Channel, Deployment, Project, ProjectType } from "../../stores/db/tables.ts";
import { beginRotation } from "../../tenants/databases/store.ts";
import { newBranch } from "../../tenants/databases/testing/branch.ts";
import { manifestOf } from "../../tenants/deployments/testing/source.ts";
import { createPlacementLoader, loadRun } from "../tasks/assignment.ts";
import { envAad } from "../tasks/environment.ts";
import { openTenantPassword } from "./secrets.ts";

let api: TestApi;
let project: Project;
beforeAll(async () => {
  api = await testApi();
});
afterAll(() => api?.[Symbol.asyncDispose]());
const begin = async (type: ProjectType = "ssr") => {
  project = await api.newProject(await api.newUser(), { type });
};
beforeEach(() => begin());

const digest = `sha256:${"0".repeat(64)}`;
const specs = {
  serve: {
    ...{ kind: "serve", repository: "svc/shop/app", digest, registryHost: null, command: [], port: 8080 },
    ...{ health: { path: "/", timeoutSeconds: 60 }, maxImageMb: 100 },
  },
  build: {
    ...{ kind: "build", sourceRepository: "svc/shop/source", sourceDigest: digest, rootDirectory: "" },
    ...{ targetRepository: "svc/shop/app", recipe: { static: { command: "npm run build", output: "out" } } },
    ...{ timeoutSeconds: 60, maxImageMb: 1, maxUnpackedMb: 1, cacheNamespace: "" },
  },
} as const;

/** A deployment whose project sets the variable itself. */
async function aDeployment(channel: Channel): Promise<Deployment> {
  const deployment = await api.newDeployment(project, {
    ...{ channel, status: "running", artifact_repository: "svc/shop/app", artifact_digest: digest },
    manifest:
      project.type === "ociimage"
        ? { version: 2, name: "Shop", type: "ociimage", port: 8080, image: { reference: "registry.test/shop:1" } }
        : manifestOf("ssr", { release: { command: "npm run migrate" } }),
  });
  const own = { DATABASE_URL: "postgres://elsewhere.test/db", NAME: "shop" };
  const env = api.context.secrets.seal(Buffer.from(JSON.stringify(own)), envAad(deployment.id));
  await api.db.updateTable("deployment").set({ env }).where("id", "=", deployment.id).execute();
  return deployment;
}

const installation = {
  ...{
    registryHost: "registry.test",
    baseImage: "node:24-slim",
    builderImage: "node:24",
    buildCaBundle: "",
    gatePass: () => "",
  },
};

/** What a task or the release command of a deployment on the channel is told. */
async function told(what: "serve" | "build" | "release", channel: Channel = "production") {
  const { db, secrets } = api.context;
  const deployment = await aDeployment(channel);
  const deps = { db, secrets, ...installation };
  if (what === "release") {
    const run = await loadRun(deps, (await api.newRun(deployment, { number: 1, node_id: randomUUID() })).id);
    return { url: run?.env["DATABASE_URL"], databaseId: run?.databaseId, redact: run?.redact };
  }
  const { id } = await api.newTask(deployment, { kind: what });
  await db
    .updateTable("task")
    .set({ spec: JSON.stringify(specs[what]) })
    .where("id", "=", id)
    .execute();
  const { spec } = (await createPlacementLoader(systemClock, deps)(id)) ?? {};
  if (spec?.case === "serve") {
    const { env, databaseId, redact } = spec.value;
    return { url: env["DATABASE_URL"], databaseId, redact };
  }
  if (spec?.case !== "build") throw new Error("it is neither");
  return { url: spec.value.env["DATABASE_URL"], databaseId: "", redact: spec.value.redact };
}

const own = "postgres://elsewhere.test/db";
const passwordOf = async (id: string) => {
  const branch = await api.db.selectFrom("database").selectAll().where("id", "=", id).executeTakeFirstOrThrow();
  return openTenantPassword(api.context.secrets, branch);
};

describe("DATABASE_URL", () => {
  test.each([
    { what: "serve", type: "ssr" },
    { what: "serve", type: "ociimage" },
    { what: "release", type: "ssr" },
  ] as const)(
    "of a database that is ready is in $what of $type, over what the project says",
    async ({ what, type }) => {
      await begin(type);
      const id = await newBranch(api, project);
      const { url = "", databaseId, redact } = await told(what);
      expect(new URL(url)).toMatchObject({ protocol: "postgres:", password: await passwordOf(id) });
      expect(databaseId).toBe(id);
      expect(redact).toEqual(expect.arrayContaining([url, own, "shop"]));
    },
  );

  test("is never in a build: what is built may go to another channel", async () => {
    await newBranch(api, project);
    expect(await told("build")).toMatchObject({ url: own });
  });

  test.each(["serve", "release"] as const)("of another channel, or of another project, is in no %s", async (what) => {
    await newBranch(api, await api.newProject(await api.newUser()));
    const id = await newBranch(api, project, { channel: "dev" });
    for (const channel of ["production", "preview"] as const)
      expect(await told(what, channel)).toMatchObject({ url: own, databaseId: "" });
    expect(await told(what, "dev")).toMatchObject({ databaseId: id });
  });

  test.each(databaseStatuses.filter((status) => status !== "ready"))("is not told while it is %s", async (status) => {
    await newBranch(api, project, { status });
    for (const what of ["serve", "release"] as const)
      expect(await told(what)).toMatchObject({ url: own, databaseId: "" });
  });

  test("has the next password from the moment that it is asked for: the one before is about to be refused", async () => {
    const id = await newBranch(api, project);
    const before = (await told("serve")).url ?? "";
    await beginRotation(api.db, api.context.secrets, id);
    const after = (await told("serve")).url ?? "";
    expect(new URL(after).password).toBe(await passwordOf(id));
    expect(new URL(after).password).not.toBe(new URL(before).password);
  });
});
