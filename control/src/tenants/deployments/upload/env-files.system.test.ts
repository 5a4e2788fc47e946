import { Writable } from "node:stream";
import { limits } from "@svc/proto";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { RawEntry } from "../../../../../proto/src/testing/tar.ts";
import { type RegistryProcess, startDockerRegistry } from "../../../../../registry/src/testing/docker-registry.ts";
import { envAad, fileEnvAad } from "../../../fleet/tasks/environment.ts";
import { type TestApi, type TestUser, testApi } from "../../../http/testing.ts";
import { createLog } from "../../../log.ts";
import type { Project } from "../../../stores/db/tables.ts";
import { aSource, codeOf, formOf, manifestOf, storedSources, type Upload } from "../testing/source.ts";

const canary = "hunter2-canary";
let registry: RegistryProcess;
let api: TestApi;
let user: TestUser;

beforeAll(async () => {
  registry = await startDockerRegistry();
  api = await testApi({ registryUrl: registry.url });
  user = await api.newUser({ plan: { max_env_vars: 5, max_deploys_per_hour: 1000 } });
});
afterAll(async () => {
  await api[Symbol.asyncDispose]();
  await registry[Symbol.asyncDispose]();
});
afterEach(() => api.db.deleteFrom("deployment").execute());

const deploy = (project: Pick<Project, "id">, upload: Upload) =>
  api.call("POST", `/projects/${project.id}/deployments`, { session: user.session, body: formOf(upload) });

/** An upload whose manifest names `files`, with `entries` in its archive. */
const withEnv = (files: string[], entries: RawEntry[], more: object = {}): Upload => ({
  manifest: manifestOf("ssr", { env: { files }, ...more }),
  source: aSource({ name: "server.js", content: "x" }, ...entries),
});

async function envOf(deploymentId: string) {
  const row = await api.db
    .selectFrom("deployment")
    .selectAll()
    .where("id", "=", deploymentId)
    .executeTakeFirstOrThrow();
  const open = (sealed: Buffer | null, aad: string): unknown =>
    JSON.parse(api.context.secrets.open(sealed ?? Buffer.alloc(0), aad).toString());
  return { env: open(row.env, envAad(row.id)), fileEnv: open(row.file_env, fileEnvAad(row.id)), row };
}

const setEnv = (project: Pick<Project, "id">, vars: Record<string, string>) =>
  api.call("PUT", `/projects/${project.id}/env`, { session: user.session, body: { vars } });

test("variables come along with the source, and the project's own go over them", async () => {
  const project = await api.newProject(user);
  await setEnv(project, { B: "of the project", C: "3" });
  const upload = withEnv(
    [".env", "./config//.env.production"],
    [
      { name: "./apps/web/.env", content: `A='${canary}'\nB=of the file\n` },
      { name: "./apps/web/config/.env.production", content: `D=later\nA=${canary}` },
      // Of the same name, and not in the directory that is built.
      { name: ".env", content: "A=elsewhere\nE=1\n" },
    ],
    { source: { rootDirectory: "apps/web" } },
  );
  const { status, body } = await deploy(project, upload);
  expect(status).toBe(202);
  const { env, fileEnv, row } = await envOf(body.deploymentId);
  expect(fileEnv).toEqual({ A: canary, B: "of the file", D: "later" });
  expect(env).toEqual({ A: canary, B: "of the project", C: "3", D: "later" });
  // Sealed, and nowhere in the clear.
  expect(JSON.stringify({ ...row, env: String(row.env), file_env: String(row.file_env) })).not.toContain(canary);
  const detail = await api.call("GET", `/deployments/${body.deploymentId}`, { session: user.session });
  expect(detail.text).not.toContain(canary);
  expect(detail.text).not.toContain(".env");
});

test("a file named twice, an empty one, and one in a nested manifest's directory", async () => {
  const project = await api.newProject(user);
  const upload = withEnv(
    [".env", ".env", "empty"],
    [
      { name: "web/.env", content: "A=1\n" },
      { name: "web/empty", content: "" },
    ],
    { source: { manifestPath: "web/svc.yml" } },
  );
  const { status, body } = await deploy(project, upload);
  expect(status).toBe(202);
  expect((await envOf(body.deploymentId)).fileEnv).toEqual({ A: "1" });
});

describe("is refused, by name and without its content,", () => {
  const env = (content: string | Uint8Array): RawEntry => ({ name: ".env", content });
  test.each<{ what: string; entries: RawEntry[]; says: string }>([
    { what: "a file that is missing", entries: [], says: "env.files names .env, which is not in the archive" },
    {
      what: "a link",
      entries: [{ name: ".env", type: "2", linkname: "server.js" }],
      says: "env.files names .env, which is not a plain file",
    },
    {
      what: "a second name of a file",
      entries: [{ name: ".env", type: "1", linkname: "server.js" }],
      says: "not a plain file",
    },
    { what: "a directory", entries: [{ name: ".env/", type: "5" }], says: "not a plain file" },
    {
      what: "a file that is too large",
      entries: [env(`A=${canary}\n`.padEnd(limits.envFileBytesMax + 1, "#"))],
      says: "env.files names .env, which has more than 64 KiB",
    },
    {
      what: "a line that is no assignment",
      entries: [env(`A=1\n${canary}\n`)],
      says: ".env has no NAME=value in line 2",
    },
    { what: "a name of the platform", entries: [env(`SVC_CHANNEL=${canary}\n`)], says: ".env, line 1" },
    { what: "a name that is none", entries: [env(`A-B=${canary}\n`)], says: ".env, line 1" },
    { what: "bytes that are no text", entries: [env(Buffer.of(0x41, 0x3d, 0xff))], says: ".env is not text in UTF-8" },
  ])("$what", async ({ entries, says }) => {
    const project = await api.newProject(user);
    const answer = await deploy(project, withEnv([".env"], entries));
    expect(codeOf(answer)).toEqual([422, "VALIDATION"]);
    expect(answer.body.error.message).toContain(says);
    expect(answer.text).not.toContain(canary);
    expect(await storedSources(registry, project.id)).toEqual([]);
    expect(await api.db.selectFrom("deployment").select("id").execute()).toEqual([]);
  });
});

test("a file of the largest size is read", async () => {
  const project = await api.newProject(user);
  const content = `A=${canary}\n`.padEnd(limits.envFileBytesMax, "#");
  const { status, body } = await deploy(project, withEnv([".env"], [{ name: ".env", content }]));
  expect(status).toBe(202);
  expect((await envOf(body.deploymentId)).fileEnv).toEqual({ A: canary });
});

test("the manifest has to come before the source when it names files, and otherwise need not", async () => {
  const project = await api.newProject(user);
  const order = ["source", "manifest"] as const;
  const upload = withEnv([".env"], [{ name: ".env", content: "A=1\n" }]);
  const answer = await deploy(project, { ...upload, order });
  expect(codeOf(answer)).toEqual([422, "VALIDATION"]);
  expect(answer.body.error.message).toContain("manifest comes before source");
  expect(await storedSources(registry, project.id)).toEqual([]);
  expect((await deploy(project, { ...withEnv([], []), order })).status).toBe(202);
});

test("the plan counts names in files and in the project together, a shared one once", async () => {
  const project = await api.newProject(user);
  await setEnv(project, { A: "1", B: "2", C: "3" });
  const upload = (...names: string[]) =>
    deploy(project, withEnv([".env"], [{ name: ".env", content: names.map((name) => `${name}=x\n`).join("") }]));
  expect((await upload("C", "D", "E")).status).toBe(202);
  await api.db.deleteFrom("deployment").execute();
  const over = await upload("D", "E", "F");
  expect(codeOf(over)).toEqual([422, "QUOTA_EXCEEDED"]);
  expect(over.body.error.message).toContain("allows 5 variables");
  expect(await api.db.selectFrom("deployment").select("id").execute()).toEqual([]);
});

test("nothing of a file is ever logged", async () => {
  const lines: string[] = [];
  const sink = new Writable({
    write(chunk, _encoding, done) {
      lines.push(String(chunk));
      done();
    },
  });
  await using loud = await testApi({ registryUrl: registry.url, log: createLog("trace", "control", sink) });
  const owner = await loud.newUser();
  const project = await loud.newProject(owner);
  for (const content of [`A=${canary}\n`, `${canary}\n`, `A='${canary}\n`, `A-B=${canary}`, `A=${canary}\u0000`]) {
    await loud.call("POST", `/projects/${project.id}/deployments`, {
      session: owner.session,
      body: formOf(withEnv([".env"], [{ name: ".env", content }])),
    });
  }
  expect(lines.join("")).toContain("/projects/:id/deployments");
  expect(lines.join("")).not.toContain(canary);
  expect(lines.join("")).not.toContain(owner.session);
});
