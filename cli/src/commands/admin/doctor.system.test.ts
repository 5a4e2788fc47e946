import { expect, test } from "vitest";
import { ok, refusal, startApi } from "../../testing/api.ts";
import { aDirectory, envelopeOf, svc } from "../../testing/svc.ts";

const well = { name: "leader", status: "ok", detail: "3f1c leads 3 replicas of control.", hint: null, more: [] };
const poorly = {
  name: "etcd",
  status: "fail",
  detail: "The etcd member at http://127.0.0.1:4379 does not answer (14 UNAVAILABLE: connection refused by the host).",
  hint: "Start it again. No other may fail.",
  more: ["2 of 3 members of etcd 3.4.23 answer, 1 MiB; 1 may fail.", "\u001b[31mred\u001b[0m"],
};
const reply = (checks: object[], healthy: boolean) =>
  ok({ healthy, at: "2030-01-01T00:00:00.000Z", answeredInMs: 42, checks });

async function run(routes: Parameters<typeof startApi>[0], ...more: string[]) {
  await using api = await startApi(routes);
  await using directory = await aDirectory();
  const env = { SVC_API_URL: api.url, SVC_TOKEN: "svc_very-secret-key" };
  return await svc(["admin", "doctor", ...more], { cwd: directory.path, env });
}

test("what is wrong is shown with what to do about it, on lines of 80 columns", async () => {
  const ended = await run({ "GET /api/v1/admin/doctor": reply([well, poorly], false) });
  expect(ended.status).toBe(1);
  expect(ended.stdout).toMatch(/✓ leader {2}3f1c leads/);
  expect(ended.stdout).toMatch(/✗ etcd {4}The etcd member/);
  expect(ended.stdout).toMatch(/→ Start it again/);
  expect(ended.stdout).toMatch(/· 2 of 3 members/);
  expect(ended.stdout).toContain("One check failed");
  expect(ended.stdout).not.toContain("\u001b[31m");
  expect(Math.max(...ended.stdout.split("\n").map((line) => line.length))).toBeLessThanOrEqual(80);
});

test("scripts read whether it is healthy", async () => {
  const ended = await run({ "GET /api/v1/admin/doctor": reply([well, poorly], false) }, "--json");
  expect(ended.status).toBe(1);
  expect(envelopeOf(ended)).toMatchObject({
    ok: true,
    operation: "admin.doctor",
    healthy: false,
    checks: [
      { name: "leader", status: "ok" },
      { name: "etcd", status: "fail", hint: poorly.hint },
    ],
  });
  const healthy = await run({ "GET /api/v1/admin/doctor": reply([well], true) }, "--json");
  expect(healthy.status).toBe(0);
  expect(envelopeOf(healthy)).toMatchObject({ healthy: true });
});

test("somebody who is no administrator is told so", async () => {
  const ended = await run({ "GET /api/v1/admin/doctor": refusal(403, "FORBIDDEN", "Administrators only.") });
  expect(ended.status).toBe(1);
  expect(ended.stderr).toMatch(/FORBIDDEN: Administrators only/);
});

test("a platform that cannot tell who asks is said to lack its database", async () => {
  const ended = await run({ "GET /api/v1/admin/doctor": refusal(500, "INTERNAL", "Something failed.") });
  expect(ended.status).toBe(1);
  expect(ended.stderr).toMatch(/Control answers and could not look: .*Something failed/);
  expect(ended.stderr).toMatch(/does not reach Postgres/);
});
