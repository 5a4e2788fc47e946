import { afterAll, beforeAll, expect, test } from "vitest";
import { type RegistryProcess, startDockerRegistry } from "../../../../registry/src/testing/docker-registry.ts";
import { type TestApi, type TestUser, testApi } from "../../http/testing.ts";
import { aSource, formOf, manifestOf, type Upload } from "./testing/source.ts";

let registry: RegistryProcess;
let api: TestApi;
let user: TestUser;
beforeAll(async () => {
  registry = await startDockerRegistry();
  api = await testApi({ registryUrl: registry.url });
  user = await api.newUser();
});
afterAll(async () => {
  await api[Symbol.asyncDispose]();
  await registry[Symbol.asyncDispose]();
});

/** What the reply to an upload of these files warns of, and what the deployment does. */
async function warningsOf(type: "static" | "ssr", paths: string[], upload: Upload & { build?: object } = {}) {
  const project = await api.newProject(user, { type });
  const { build = {}, ...rest } = upload;
  const manifest = manifestOf(type, { build });
  const body = formOf({ manifest, source: aSource(...paths.map((name) => ({ name, content: "x" }))), ...rest });
  const answer = await api.call("POST", `/projects/${project.id}/deployments`, { session: user.session, body });
  expect(answer.status).toBe(202);
  const path = `/deployments/${answer.body.deploymentId}`;
  const deployment = await api.call("GET", path, { session: user.session });
  const timeline = await api.call("GET", `${path}/timeline`, { session: user.session });
  const lines = timeline.body.timeline as { phase: string; from: null; to: null; detail: string }[];
  return {
    reply: answer.body.warnings ?? [],
    deployment: deployment.body.deployment.warnings,
    timeline: lines.filter(({ phase }) => phase === "warning").map(({ detail }) => detail),
  };
}

const all = (warnings: unknown[]) => ({ reply: warnings, deployment: warnings, timeline: warnings });

test.each([
  { when: "it has no first page", paths: ["a.css"], says: [/^There is no index\.html/] },
  {
    when: "the manifest comes after it",
    paths: ["a.css", "b.pem"],
    order: ["source", "manifest"] as const,
    says: [/^There is no index\.html/, /^b\.pem may hold secrets/],
  },
  {
    when: "a directory of a project is served",
    paths: ["package.json", "out/id_rsa", "out/index.html"],
    build: { output: "out" },
    says: [/^id_rsa may hold secrets/],
  },
])("a site is taken and doubted when $when", async ({ paths, build, order, says }) => {
  const warnings = says.map((pattern) => expect.stringMatching(pattern));
  expect(await warningsOf("static", paths, { ...(build && { build }), ...(order && { order }) })).toEqual(
    all(warnings),
  );
});

test.each([
  { when: "it is a site", type: "static" as const, paths: ["index.html"] },
  { when: "it is a server", type: "ssr" as const, paths: ["server.js", "id_rsa"] },
  { when: "a command makes it", type: "static" as const, paths: ["build.js"], build: { command: "node build.js" } },
  { when: "its packages may make it", type: "static" as const, paths: ["package.json", "src/main.ts"] },
  { when: "it is meant", type: "static" as const, paths: ["a.css"], build: { allowUnusual: true } },
])("nothing is said when $when", async ({ type, paths, build }) => {
  expect(await warningsOf(type, paths, { ...(build && { build }) })).toEqual(all([]));
});
