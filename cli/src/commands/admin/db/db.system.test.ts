import { expect, test } from "vitest";
import { ok, refusal, startApi } from "../../../testing/api.ts";
import { aDirectory, envelopeOf, svc } from "../../../testing/svc.ts";

const id = "11111111-1111-4111-8111-111111111111";
const projectId = "22222222-2222-4222-8222-222222222222";
const changeId = "33333333-3333-4333-8333-333333333333";
const node = (name: string) => ({ id: `44444444-4444-4444-8444-44444444444${name.at(-1)}`, name });
const at = "2030-01-01T12:00:00.000Z";
const coveredAt = "2030-01-01T12:30:00.000Z";
const listed = {
  ...{ id, projectId, projectSlug: "shop", channel: "production", engine: "postgres", status: "ready" },
  ...{ ownerId: "u", ownerEmail: "a@svc.test", sizeBytes: 1_048_576, connections: 1, dbSizeMb: 512 },
  ...{ dbConnectionLimit: 20, overLimit: false, nodeId: node("node-1").id, generation: 1, coveredAt, changing: null },
  ...{ protection: "keeper", copy: null, lastProvenRestore: null },
};
const change = {
  ...{ id: changeId, kind: "move", state: "done", copyId: null, until: null, coveredAt: null, problem: null },
  ...{ to: node("node-2"), from: node("node-1"), tries: 1, blockedMs: 2_000, requestedBy: "u" },
  ...{ createdAt: at, stateAt: at, endedAt: at },
};
const copy = {
  ...{ id: changeId, node: node("node-2"), purpose: "keeper", state: "following", generation: 1, problem: null },
  ...{ from: at, coveredAt, bytes: 1, purgeAt: null },
};
const detail = {
  ...{ id, projectId, projectSlug: "shop", channel: "production", engine: "postgres", status: "ready", reason: null },
  ...{ node: node("node-1"), generation: 1, sizeBytes: 1, volumeBytes: 1, server: null, proofs: [] },
  volumes: [{ generation: 1, node: node("node-1"), state: "current", purgeAt: null, goneAt: null }],
  ...{ copies: [copy], changes: [change] },
};

const volume = {
  ...{ name: "svc-db-1111111111114111", why: "dropped", databaseId: id, copyId: null, projectId, generation: 1 },
  ...{ projectSlug: "shop", channel: "production", engine: "postgres", node: node("node-1"), nodeLost: false },
  ...{ sizeBytes: 1_048_576, kept: false, purgeAt: "2999-01-01T00:00:00.000Z", createdAt: at },
};
const droppedOne = { id, projectId, projectSlug: "shop", channel: "production", engine: "postgres", droppedAt: at };
const volumes = {
  "GET /api/v1/admin/databases/volumes": ok({
    volumes: [
      volume,
      { ...volume, name: "svc-db-1111111111114111-2", why: "replaced", nodeLost: true, kept: true, purgeAt: null },
    ],
    unknown: [{ name: "svc-db-0123456789abcdef", node: node("node-2"), since: at }],
    dropped: [droppedOne, { ...droppedOne, id: changeId }],
  }),
};

async function run(argv: string[], answers: Record<string, object> = {}) {
  const sent: unknown[] = [];
  const post = (action: string) => ({
    [`POST /api/v1/admin/databases/${id}/${action}`]: ({ body }: { body: Buffer }) => {
      const asked = body.length === 0 ? null : JSON.parse(body.toString());
      sent.push([action, asked]);
      if (action === "restore" && asked?.confirm !== true) return refusal(400, "DESTRUCTIVE_CONFIRMATION_REQUIRED");
      return ok({ change: { ...change, state: "stopping", endedAt: null }, coveredAt });
    },
  });
  await using api = await startApi({
    "GET /api/v1/admin/databases": ok({ databases: [listed] }),
    "GET /api/v1/admin/nodes": ok({ nodes: [] }),
    [`GET /api/v1/admin/databases/${id}`]: ok({ database: detail }),
    ...{ ...post("restore"), ...post("move"), ...post("cancel"), ...answers },
  } as never);
  await using directory = await aDirectory();
  const env = { SVC_API_URL: api.url, SVC_TOKEN: "svc_key" };
  return { ...(await svc(argv, { cwd: directory.path, env })), sent };
}

test("svc admin db list tells where databases are and what copies cover", async () => {
  const { stdout, status } = await run(["admin", "db", "ls"]);
  expect(status).toBe(0);
  expect(stdout).toContain("shop/production");
  expect(stdout).toContain("1 database");
});

test("svc admin db show tells all of it", async () => {
  const { stdout } = await run(["admin", "db", "show", "shop/production"]);
  expect(stdout).toContain("shop/production (postgres) is ready on node-1");
  expect(stdout).toContain(`from ${at} to ${coveredAt}`);
  expect(stdout).toContain("move done");
});

test("svc admin db move looks on to the end and says for how long nobody could write", async () => {
  const { stdout, sent } = await run(["admin", "db", "move", "shop/production"]);
  expect(sent).toEqual([["move", {}]]);
  expect(stdout).toContain("shop/production is on node-2");
  expect(stdout).toMatch(/Nobody could write for 2 s/);
});

test("svc admin db restore says what is lost, and does nothing before somebody agrees", async () => {
  const refused = await run(["admin", "db", "restore", "shop/production", "--json"]);
  expect([refused.status, refused.sent]).toEqual([6, []]);
  const { stdout, sent } = await run(["admin", "db", "restore", id, "--at", "2030-01-01T13:10:00+01:00", "--yes"]);
  const until = { at: "2030-01-01T12:10:00.000Z" };
  expect(sent).toEqual([
    ["restore", until],
    ["restore", { ...until, confirm: true }],
  ]);
  expect(stdout).toContain("shop/production is restored");
});

test("svc admin db restore takes a volume that it had before, as it is", async () => {
  const both = ["admin", "db", "restore", id, "--volume", volume.name];
  const { sent } = await run([...both, "--yes"]);
  expect(sent).toEqual([
    ["restore", { volume: volume.name }],
    ["restore", { volume: volume.name, confirm: true }],
  ]);
  const wrong = await run([...both, "--at", at, "--json"]);
  expect([wrong.status, wrong.sent]).toEqual([2, []]);
});

test("svc admin db cancel ends what is under way, and a database that nobody knows is named", async () => {
  const { sent } = await run(["admin", "db", "cancel", "shop/production"]);
  expect(sent).toMatchObject([["cancel", null]]);
  const unknown = await run(["admin", "db", "cancel", "shop/preview", "--json"]);
  expect(envelopeOf(unknown)["error"]).toMatchObject({ code: "CLOUD_NOT_FOUND" });
});

test("svc admin db volumes tells why each is there, when it goes, and what can come back", async () => {
  const { stdout, status } = await run(["admin", "db", "volumes"], volumes);
  expect(status).toBe(0);
  expect(stdout).toMatch(
    /svc-db-1111111111114111 .*shop\/production.*node-1.*database was dropped.*1\.0 MiB.*in \d+ d/,
  );
  expect(stdout).toMatch(/node-1 \(lost\).*another took its place.*kept until deleted/);
  expect(stdout).toContain(`shop/production (postgres)`);
  expect(stdout).toContain("svc-db-0123456789abcdef on node-2");
});

test("svc admin db keep and delete say what becomes of a volume, and nothing is lost before somebody agrees", async () => {
  const asked: unknown[] = [];
  const path = `/api/v1/admin/databases/volumes/${volume.name}`;
  const answers = {
    ...volumes,
    [`POST ${path}/keep`]: () => ok({ name: volume.name, kept: true }),
    [`DELETE ${path}`]: ({ body }: { body: Buffer }) => {
      asked.push(JSON.parse(body.toString()));
      return ok({ name: volume.name, deleted: true });
    },
  };
  expect((await run(["admin", "db", "keep", volume.name], answers)).stdout).toContain("svc admin db delete");
  const refused = await run(["admin", "db", "delete", volume.name, "--json"], answers);
  expect([refused.status, asked]).toEqual([6, []]);
  const { stdout } = await run(["admin", "db", "delete", volume.name, "--yes"], answers);
  expect(stdout).toContain("is being removed");
  expect(asked).toEqual([{ confirm: true }]);
  const unknown = await run(["admin", "db", "delete", "svc-db-0123456789abcdef", "--yes", "--json"], answers);
  expect(envelopeOf(unknown)["error"]).toMatchObject({ code: "CLOUD_NOT_FOUND" });
});

test("svc admin db undrop brings back what was dropped last, and looks on until it is there", async () => {
  const asked: string[] = [];
  const undrop = (of: string, from: object) => ({
    [`POST /api/v1/admin/databases/${of}/undrop`]: () => {
      asked.push(of);
      return ok({ databaseId: id, channel: "production", engine: "postgres", ...from });
    },
  });
  const fromVolume = { ...volumes, ...undrop(id, { from: "volume", change: null, coveredAt: null }) };
  expect((await run(["admin", "db", "undrop", "shop/production"], fromVolume)).stdout).toContain(
    "shop/production is back, from its volume",
  );
  const fromCopy = { ...volumes, ...undrop(changeId, { from: "copy", change, coveredAt }) };
  const { stdout } = await run(["admin", "db", "undrop", changeId], fromCopy);
  expect(stdout).toContain(`What was written after ${coveredAt} is lost`);
  expect(asked).toEqual([id, changeId]);
  const nobody = await run(["admin", "db", "undrop", "shop/dev", "--json"], volumes);
  expect(envelopeOf(nobody)["error"]).toMatchObject({ code: "CLOUD_NOT_FOUND" });
  const broken = {
    [`GET /api/v1/admin/databases/${id}`]: ok({ database: { ...detail, status: "error", reason: "no disk" } }),
  };
  const failed = await run(["admin", "db", "undrop", "shop/production", "--json"], { ...fromVolume, ...broken });
  expect(envelopeOf(failed)["error"]).toMatchObject({ message: expect.stringContaining("no disk") });
});

const aNode = {
  ...{ ...node("node-2"), role: "node", status: "ready", lastSeenAt: at, version: "0.5.0", reason: null, zone: null },
  ...{ link: { state: "connected", since: at }, labels: {}, runningPlacements: 0, refusal: null },
  capacity: { memoryMb: 4096, cpuMillicores: 4000, pids: 4000, diskMb: 51_200 },
  allocated: { memoryMb: 0, cpuMillicores: 0, pids: 0 },
  ...{ diskFull: false, engineStalled: false, dockerfileProblem: null },
  drain: { state: "none", startedAt: null, deadline: null, remaining: 0 },
};

test("svc admin db fetch waits until the copy is there, and says how to go on", async () => {
  const fetched = "55555555-5555-4555-8555-555555555555";
  const asked: unknown[] = [];
  const fetching = (shown: object) => ({
    [`POST /api/v1/admin/databases/${id}/fetch`]: ({ body }: { body: Buffer }) => {
      asked.push(JSON.parse(body.toString()));
      return ok({ copyId: fetched, coveredAt: at });
    },
    [`GET /api/v1/admin/databases/${id}`]: ok({
      database: { ...detail, copies: [{ ...copy, id: fetched, state: "ended", purgeAt: at, ...shown }] },
    }),
    "GET /api/v1/admin/nodes": ok({ nodes: [aNode] }),
  });
  const fetchTo = (to: string, shown: object = {}) =>
    run(["admin", "db", "fetch", "shop/production", "--to", to], fetching(shown));
  const done = await fetchTo("node-2");
  expect(done.status).toBe(0);
  expect(done.stdout).toContain(`node-2 has a copy of shop/production until ${coveredAt}`);
  expect(done.stdout).toContain(`svc admin db restore shop/production --copy ${fetched}`);
  expect(asked).toEqual([{ node: aNode.id }]);
  const failed = await fetchTo("node-2", { coveredAt: null, problem: "no space left" });
  expect([failed.status === 0, failed.stderr.includes("no space left")]).toEqual([false, true]);
  const nowhere = await run(["admin", "db", "fetch", "shop/production", "--json"], fetching({}));
  expect(envelopeOf(nowhere)).toMatchObject({ error: { code: "CLI_INVALID_USAGE" } });
  expect((await fetchTo("node-9")).status).not.toBe(0);
  expect(asked).toHaveLength(2);
});
