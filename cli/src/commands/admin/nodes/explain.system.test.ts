import { expect, test } from "vitest";
import { ok, projectId, startApi } from "../../../testing/api.ts";
import { aDirectory, envelopeOf, svc } from "../../../testing/svc.ts";

const id = "22222222-2222-4222-8222-222222222222";
const node = (name: string) => ({ id: `33333333-3333-4333-8333-33333333333${name.at(-1)}`, name: `node-${name}` });
const task = {
  ...{ kind: "serve", replica: 0, node: node("1"), observed: "running", health: "healthy", retiring: false },
  ...{ createdAt: "2030-01-01T00:00:00.000Z", problem: null },
};
const explained = {
  deployment: { id, projectId, channel: "production", status: "running", replicas: 2 },
  request: {
    ...{ kind: "serve", memoryMb: 512, cpuMillicores: 1000, pidsLimit: 256 },
    ...{ platform: { os: "linux", architecture: "amd64" }, nodeSelector: { disk: "fast" } },
  },
  tasks: [
    task,
    { ...task, replica: 1, node: null, observed: null, health: null, problem: "No node takes it: 1 node: cordoned." },
  ],
  nodes: [
    {
      ...{ ...node("1"), status: "ready", fits: true, problems: [], replicas: 1, zone: "a" },
      score: { total: -3, fit: 18, image: 4, zone: -25, failures: 0 },
    },
    {
      ...{ ...node("2"), status: "cordoned", fits: false, replicas: 0, score: null, zone: null },
      problems: [
        { reason: "not connected", wanted: null, found: "unreachable" },
        { reason: "too little memory", wanted: 512, found: 100 },
      ],
    },
    {
      ...{ ...node("3"), status: "ready", fits: true, problems: [], replicas: 0, zone: null },
      score: { total: -1010, fit: 15, image: 0, zone: -25, failures: -1000 },
    },
  ],
  failuresKnown: false,
};

const asked = async (...argv: string[]) => {
  await using api = await startApi({
    "GET /api/v1/admin/placements/explain": ({ path }) =>
      path.endsWith(`?deployment=${id}`) ? ok(explained) : { status: 404, body: {} },
  });
  await using directory = await aDirectory();
  const env = { SVC_API_URL: api.url, SVC_TOKEN: "svc_key" };
  return await svc(["admin", "nodes", "explain", ...argv], { cwd: directory.path, env });
};

test("svc admin nodes explain tells where each replica is, why one waits, and what every machine says", async () => {
  const { stdout, status } = await asked(id);
  expect(status).toBe(0);
  const lines = stdout.split("\n").map((line) => line.replaceAll(/ {2,}/g, " | "));
  expect(lines).toContainEqual(expect.stringMatching(/^replica 0 \| node-1 \| running, healthy \| .* \| -$/));
  expect(lines).toContainEqual(
    expect.stringMatching(/^replica 1 \| - \| waiting \| .* \| No node takes it: 1 node: cordoned\.$/),
  );
  expect(stdout).toContain(
    "One more container asks for 512 MiB, 1000 millicores, 256 process ids, linux/amd64, disk=fast. 2 of 3 machines would take it:",
  );
  expect(lines).toContain(
    "node-1 | ready | yes | -3 | fit 18, has the image +4, others in its zone -25, has 1 already: only if no other takes it",
  );
  expect(lines).toContain(
    "node-2 | cordoned | no | - | not connected (unreachable); too little memory (wants 512, has 100)",
  );
  expect(lines).toContain("node-3 | ready | yes | -1010 | fit 15, failed there again and again -1000");
  expect(stdout).toContain("What failed of late is not counted");
});

test("svc admin nodes explain gives programs all of it, and refuses what is no id", async () => {
  expect(envelopeOf(await asked(id, "--json"))).toMatchObject({
    ...{ ok: true, operation: "admin.nodes.explain" },
    ...explained,
  });
  const wrong = await asked("shop", "--json");
  expect([wrong.status, envelopeOf(wrong)["error"]]).toMatchObject([2, { code: "CLI_INVALID_USAGE" }]);
  const unknown = await asked("99999999-9999-4999-8999-999999999999", "--json");
  expect(envelopeOf(unknown)["error"]).toMatchObject({
    code: "CLOUD_NOT_FOUND",
    message: expect.stringContaining("There is no deployment 99999999"),
    hint: expect.stringContaining("svc status"),
  });
});
