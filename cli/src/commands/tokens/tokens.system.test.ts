import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ok, projectId, type Routes, refusal, startApi } from "../../testing/api.ts";
import { aDirectory, envelopeOf, svc } from "../../testing/svc.ts";
import { runAtTerminal } from "../../testing/terminal.ts";

const secret = "svc_abcdef-secret-rest";
const otherId = "33333333-3333-4333-8333-333333333333";
const at = "2030-01-01T00:00:00.000Z";
const own = {
  id: projectId,
  name: "cli @ here",
  start: "svc_abcdef",
  scopes: null,
  projectIds: null,
  expiresAt: null,
  createdAt: at,
  lastUsedAt: at,
};
const pipeline = {
  ...own,
  id: otherId,
  name: "pipeline",
  start: "svc_uvwxyz",
  scopes: ["deploy", "projects:read"],
  projectIds: [projectId],
  expiresAt: "2020-01-01T00:00:00.000Z",
  lastUsedAt: null,
};

const listed = { "GET /api/v1/tokens": ok({ tokens: [own, pipeline] }) };

async function run(routes: Routes, ...args: string[]) {
  await using api = await startApi(routes);
  await using directory = await aDirectory();
  const env = { SVC_API_URL: api.url, SVC_TOKEN: secret };
  const ended = await svc(["tokens", ...args], { cwd: directory.path, env });
  expect(ended.stdout + ended.stderr).not.toContain(secret);
  return { ...ended, calls: api.seen.map(({ method, path }) => `${method} ${path}`) };
}

test("the keys are listed with what they may do, and which of them asks", async () => {
  const shown = await run(listed, "list");
  expect(shown.stdout).toMatch(/cli @ here \(this one\) +svc_abcdef +full +all +.* never +1{8}/);
  expect(shown.stdout).toMatch(/pipeline +svc_uvwxyz +deploy, projects:read +1 +.* never +expired +3{8}/);
  const json = await run(listed, "ls", "--json");
  expect(envelopeOf(json)).toMatchObject({
    ok: true,
    operation: "tokens.list",
    tokens: [
      { id: projectId, inUse: true },
      { id: otherId, name: "pipeline", start: "svc_uvwxyz", inUse: false },
    ],
  });
});

test.each(["revoke", "rm"])("svc tokens %s takes a key back", async (word) => {
  const ended = await run(
    { ...listed, [`DELETE /api/v1/tokens/${otherId}`]: ok({ id: otherId }) },
    word,
    otherId,
    "--json",
  );
  expect(envelopeOf(ended)).toMatchObject({ ok: true, operation: "tokens.revoke", id: otherId, revoked: true });
  expect(ended.calls).toEqual(["GET /api/v1/tokens", `DELETE /api/v1/tokens/${otherId}`]);
});

test("the key in use is revoked in a pipeline, which is told so", async () => {
  const ended = await run(
    { ...listed, [`DELETE /api/v1/tokens/${projectId}`]: ok({ id: projectId }) },
    "revoke",
    projectId,
  );
  expect(ended.status).toBe(0);
  expect(ended.stderr).toContain("Warning: That was the key of SVC_TOKEN");
});

test.each([
  { types: "no", status: 6, revoked: false, stored: true },
  { types: "cli @ here", status: 0, revoked: true, stored: false },
])("a person who answers $types is asked before the login's own key goes, and the login with it", async (expected) => {
  await using api = await startApi({ ...listed, [`DELETE /api/v1/tokens/${projectId}`]: ok({ id: projectId }) });
  await using directory = await aDirectory({
    ".config/svc/config.json": JSON.stringify({ apiUrl: api.url, tokenRef: `literal:${secret}` }),
  });
  const { status, stderr } = await runAtTerminal(["tokens", "revoke", projectId], {
    cwd: directory.path,
    env: {},
    typed: `${expected.types}\r`,
  });
  const left = await readFile(join(directory.path, ".config/svc/config.json"), "utf8").catch(() => null);
  expect({ status, stored: left !== null }).toEqual({ status: expected.status, stored: expected.stored });
  expect(stderr).toContain("This is the key of this computer's login");
  expect(api.seen.some(({ method }) => method === "DELETE")).toBe(expected.revoked);
});

test.each([
  ["what is no id", {}, "self", 2, "CLI_INVALID_USAGE", 0],
  ["a key that is not there", { "GET /api/v1/tokens": ok({ tokens: [own] }) }, otherId, 1, "CLOUD_NOT_FOUND", 1],
  ["a key that is gone meanwhile", listed, otherId, 1, "CLOUD_NOT_FOUND", 2],
  [
    "a caller whose key has scopes",
    { "GET /api/v1/tokens": refusal(403, "FORBIDDEN_SCOPE") },
    otherId,
    1,
    "CLOUD_FORBIDDEN_SCOPE",
    1,
  ],
])("svc tokens revoke refuses %s", async (_what, routes, id, status, code, calls) => {
  const ended = await run(routes, "revoke", id, "--json");
  expect([ended.status, envelopeOf(ended)["error"]]).toMatchObject([
    status,
    { code, hint: expect.stringMatching(/svc/) },
  ]);
  expect(ended.calls).toHaveLength(calls);
});
