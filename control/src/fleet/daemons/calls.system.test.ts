import { randomUUID } from "node:crypto";
import { Code } from "@connectrpc/connect";
import { LogState } from "@svc/proto/node";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { sql } from "kysely";
import pino from "pino";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createListener } from "../../stores/db/listen.ts";
import { announceGone } from "../agents/gone.ts";
import { LogUnavailable, queryLog } from "../agents/log-query.ts";
import { appendLog } from "../agents/logs.ts";
import type { PlacementValue } from "../cluster/keys.ts";
import type { Link } from "./start.ts";
import { aDaemon, anAgent, asNode, aWorld, type DaemonFiles, type World } from "./testing.ts";

const project = "5a1d0c37-0000-4000-8000-000000000001";
const deployment = "5a1d0c37-0000-4000-8000-000000000002";

let world: World;
let link: Link;
let node: DaemonFiles;
beforeAll(async () => {
  world = await aWorld();
  link = await world.startLink({
    // The streams of this test that belong to nobody begin with "foreign", and little is kept of those that begin with "short".
    logBytesMax: async (_, streamId) =>
      streamId.startsWith("foreign") ? null : streamId.startsWith("short") ? 10 : 1_000_000,
  });
  node = await aDaemon(world, link, "node");
});
afterAll(async () => {
  await link[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
});

const bytes = (text: string) => Uint8Array.from(Buffer.from(text));
/** The whole stream; fails when its chunks leave a gap or overlap. */
async function textOf(streamId: string): Promise<string> {
  const { db } = world.database;
  const chunks = await db
    .selectFrom("log_chunk")
    .select(["offset", "data"])
    .where("stream_id", "=", streamId)
    .orderBy("offset")
    .execute();
  let end = 0;
  for (const { offset, data } of chunks) {
    expect(offset).toBe(end);
    end += data.length;
  }
  return Buffer.concat(chunks.map(({ data }) => data)).toString();
}

describe("a log", () => {
  test("grows by appends that may be repeated", async () => {
    using connection = asNode(link, node);
    const streamId = `${deployment}.1`;
    const append = async (offset: bigint, text: string) =>
      Number((await connection.node.appendLog({ streamId, offset, data: bytes(text) })).length);
    expect(await append(0n, "one\n")).toBe(4);
    expect(await append(0n, "one\n")).toBe(4);
    expect(await append(4n, "two\n")).toBe(8);
    // The agent was restarted and knows only the beginning: what is stored is told, and the overlap is skipped.
    expect(await append(0n, "")).toBe(8);
    expect(await append(2n, "e\ntwo\nthree\n")).toBe(14);
    // A gap is not filled.
    expect(await append(99n, "lost")).toBe(14);
    expect(await textOf(streamId)).toBe("one\ntwo\nthree\n");
  });

  test("of somebody else is not there for this node", async () => {
    using connection = asNode(link, node);
    const call = connection.node.appendLog({ streamId: "foreign.1", offset: 0n, data: bytes("x") });
    await expect(call).rejects.toMatchObject({ code: Code.NotFound });
    const large = connection.node.appendLog({ streamId: "own.1", offset: 0n, data: new Uint8Array(256 * 1024 + 1) });
    await expect(large).rejects.toMatchObject({ code: Code.InvalidArgument });
  });

  test("takes racing appends without a gap or a repetition", async () => {
    const { db } = world.database;
    const streamId = "race.1";
    const whole = "0123456789".repeat(20);
    const writer = async () => {
      let at = 0;
      while (at < whole.length) at = await appendLog(db, streamId, at, bytes(whole.slice(at, at + 7)), 1_000);
    };
    await Promise.all([writer(), writer(), writer()]);
    expect(await textOf(streamId)).toBe(whole);
  });

  test("is kept as far as its kind is", async () => {
    using connection = asNode(link, node);
    const data = bytes("1234567890abc");
    const { length } = await connection.node.appendLog({ streamId: "short.1", offset: 0n, data });
    expect(length).toBe(13n);
    expect(await textOf("short.1")).toMatch(/^1234567890\n\[the log is longer .*\]\n$/);
  });

  test("is cut behind a mark when it is too long, and the sender still gets to its end", async () => {
    const { db } = world.database;
    const streamId = "long.1";
    expect(await appendLog(db, streamId, 0, bytes("12345678"), 10)).toBe(8);
    expect(await appendLog(db, streamId, 8, bytes("90abc"), 10)).toBe(13);
    expect(await appendLog(db, streamId, 13, bytes("def"), 10)).toBe(16);
    expect(await appendLog(db, streamId, 13, bytes("def"), 10)).toBe(16);
    expect(await textOf(streamId)).toMatch(/^1234567890\n\[the log is longer .*\]\n$/);
  });
});

describe("the last lines of a container", () => {
  const ask = (nodeId: string, timeoutMs = 5_000) =>
    queryLog(
      { clock: systemClock, random: systemRandom, db: world.database.db, listen: world.listener },
      nodeId,
      "p1",
      50,
      timeoutMs,
    );

  test("come from the agent that has it", async () => {
    await using agent = await anAgent(link, node);
    const answer = ask(node.id);
    const { requestId, placementId, lines } = await agent.next("logQuery");
    expect({ placementId, lines }).toEqual({ placementId: "p1", lines: 50 });
    using connection = asNode(link, node);
    // An agent of an earlier version: it knows only of what runs.
    await connection.node.deliverLog({ requestId, text: "hello\0\nworld\n", lines: 2 });
    expect(await answer).toEqual({ text: "hello\nworld\n", lines: 2, state: "running", exit: null });
  });

  test("come with the end of one that exited", async () => {
    await using agent = await anAgent(link, node);
    const answer = ask(node.id);
    const { requestId } = await agent.next("logQuery");
    using connection = asNode(link, node);
    const exit = { code: 7, oomKilled: false, reason: "It exited\u001b[0m with code 7.", at: "2030-01-01T00:00:00Z" };
    await connection.node.deliverLog({ requestId, text: "bye\n", lines: 1, state: LogState.EXITED, exit });
    expect(await answer).toEqual({
      ...{ text: "bye\n", lines: 1, state: "exited" },
      exit: { code: 7, oomKilled: false, reason: "It exited[0m with code 7.", at: "2030-01-01T00:00:00.000Z" },
    });
  });

  test("are absent when nothing is left", async () => {
    await using agent = await anAgent(link, node);
    const answer = ask(node.id);
    const { requestId } = await agent.next("logQuery");
    using connection = asNode(link, node);
    await connection.node.deliverLog({ requestId, error: "There is no container.", state: LogState.ABSENT });
    expect(await answer).toEqual({ text: "", lines: 0, state: "absent", exit: null });
  });

  test("are had by a replica that has neither the stream nor the answer", async () => {
    await using agent = await anAgent(link, node);
    const { db } = world.database;
    await using listen = createListener(systemClock, world.database.url, pino({ level: "silent" }));
    // It hears of the answer once it listens; the question reaches the replica with the stream in any case.
    const answer = queryLog({ clock: systemClock, random: systemRandom, db, listen }, node.id, "p1", 50, 5_000);
    const { requestId } = await agent.next("logQuery");
    using connection = asNode(link, node);
    await connection.node.deliverLog({ requestId, text: "hello\n", lines: 1, state: LogState.RUNNING });
    expect(await answer).toMatchObject({ text: "hello\n", state: "running" });
  });

  test("come from the node that was asked, and while somebody waits, or not at all", async () => {
    await using agent = await anAgent(link, node);
    const other = await aDaemon(world, link, "node");
    const answer = ask(node.id);
    const { requestId } = await agent.next("logQuery");
    using own = asNode(link, node);
    using foreign = asNode(link, other);
    const refused = { code: Code.NotFound };
    await expect(foreign.node.deliverLog({ requestId, text: "made up\n", lines: 1 })).rejects.toMatchObject(refused);
    const delivery = { requestId, text: "true\n", lines: 1, state: LogState.RUNNING };
    await own.node.deliverLog(delivery);
    expect(await answer).toMatchObject({ text: "true\n" });
    await expect(own.node.deliverLog(delivery)).rejects.toMatchObject(refused);
    for (const unasked of ["5a1d0c37-0000-4000-8000-0000000000aa", "no id"])
      await expect(own.node.deliverLog({ ...delivery, requestId: unasked })).rejects.toMatchObject(refused);
    const { db } = world.database;
    expect(await db.selectFrom("log_reply").selectAll().execute()).toEqual([]);
    expect(await db.selectFrom("log_query").selectAll().execute()).toEqual([]);
  });

  test("are refused with the agent's reason", async () => {
    await using agent = await anAgent(link, node);
    const answer = ask(node.id).catch((error: unknown) => error);
    const { requestId } = await agent.next("logQuery");
    using connection = asNode(link, node);
    await connection.node.deliverLog({ requestId, error: "no such container" });
    const error = await answer;
    expect(error).toBeInstanceOf(LogUnavailable);
    expect(error).toMatchObject({ why: "refused", message: "no such container" });
  });

  test("are given up when the agent has the question and stays silent", async () => {
    await using agent = await anAgent(link, node);
    const answer = ask(node.id, 300).catch((error: unknown) => error);
    await agent.next("logQuery");
    expect(await answer).toMatchObject({ why: "silent" });
  });

  test("are waited for no longer than asked", async () => {
    const startedAt = performance.now();
    await expect(ask("5a1d0c37-0000-4000-8000-00000000ffff", 200)).rejects.toMatchObject({ why: "silent" });
    expect(performance.now() - startedAt).toBeLessThan(2_000);
  });
});

describe("samples", () => {
  const insertTask = async (nodeId: string | null) =>
    (
      await world.database.db
        .insertInto("task")
        .values({
          ...{
            project_id: project,
            owner_kind: "deployment",
            owner_id: deployment,
            kind: "serve",
            channel: "production",
          },
          ...{ spec: "{}", spec_hash: "h", memory_mb: 1, cpu_millicores: 1, pids_limit: 1, node_id: nodeId },
        })
        .returning("id")
        .executeTakeFirstOrThrow()
    ).id;

  test("are kept for tasks of the node, once", async () => {
    const own = await insertTask(node.id);
    const foreign = await insertTask(null);
    const at = new Date().toISOString();
    const sample = { placementId: own, at, cpuPercent: 12.5, memoryBytes: 1024n, pids: 3 };
    const samples = [
      sample,
      { ...sample, placementId: foreign },
      { ...sample, placementId: "nonsense" },
      { ...sample, at: "1970-01-01T00:00:00Z" },
      { ...sample, at: new Date(Date.now() - 1_000).toISOString(), cpuPercent: Number.NaN },
    ];
    using connection = asNode(link, node);
    await connection.node.reportSamples({ samples });
    await connection.node.reportSamples({ samples });
    const rows = await world.database.db.selectFrom("resource_sample").selectAll().execute();
    expect(rows).toEqual([
      { task_id: own, project_id: project, at: new Date(at), cpu_percent: 12.5, memory_bytes: 1024, pids: 3 },
    ]);
  });
});

describe("projects that are gone", () => {
  test("are told apart from those that are not", async () => {
    const { db } = world.database;
    await sql`insert into auth."user" (id, name, email, "emailVerified") values (${project}, 'Ada', 'ada@svc.test', true)`.execute(
      db,
    );
    const add = async (slug: string, deleting_at: Date | null) =>
      db
        .insertInto("project")
        .values({ owner_id: project, name: slug, slug, type: "ssr", deleting_at })
        .returning("id")
        .executeTakeFirstOrThrow();
    const [alive, deleting] = [await add("alive", null), await add("deleting", new Date())];
    using connection = asNode(link, node);
    const unknown = "5a1d0c37-0000-4000-8000-00000000000f";
    const projectIds = [alive.id, deleting.id, unknown, "no id"];
    const { gone } = await connection.node.listGoneProjects({ projectIds });
    expect(gone.sort()).toEqual([deleting.id, unknown].sort());
    await expect(
      connection.node.listGoneProjects({ projectIds: Array.from({ length: 1001 }, () => alive.id) }),
    ).rejects.toMatchObject({ code: Code.InvalidArgument });
  });

  test("are announced to every agent", async () => {
    await using agent = await anAgent(link, node);
    await announceGone(world.database.db, project);
    await agent.next("tidy");
  });
});

describe("a base image", () => {
  const platform = { os: "linux", architecture: "amd64" };

  /** A placement's id, of which Postgres does not know (yet) where it is. */
  async function placed(on: DaemonFiles, overrides: Partial<PlacementValue> = {}): Promise<string> {
    const placementId = randomUUID();
    await world.place(on.id, placementId, { kind: "build", projectId: buildsOf, ...overrides });
    return placementId;
  }
  let buildsOf: string;
  beforeAll(async () => {
    const { db } = world.database;
    const ownerId = randomUUID();
    await sql`insert into auth."user" (id, name, email, "emailVerified")
      values (${ownerId}, 'Grace', ${`${ownerId}@svc.test`}, true)`.execute(db);
    const values = { owner_id: ownerId, name: "Builds", slug: "builds", type: "ssr" as const };
    buildsOf = (await db.insertInto("project").values(values).returning("id").executeTakeFirstOrThrow()).id;
  });

  test("is for builds of the node that asks, as soon as it was told of them", async () => {
    using connection = asNode(link, node);
    const neighbour = await aDaemon(world, link, "node");
    const ask = (placementId: string) =>
      connection.node.fetchBaseImage({ placementId, reference: "node:24-slim", platform });
    expect((await ask(await placed(node))).answer.case).toBeUndefined();
    for (const other of [
      await placed(neighbour),
      await placed(node, { kind: "serve" }),
      await placed(node, { desired: "stopped" }),
      await placed(node, { desired: "removed" }),
      await placed(node, { projectId: randomUUID() }),
      randomUUID(),
      "x'; --",
      `../${node.id}/x`,
    ])
      await expect(ask(other), other).rejects.toMatchObject({ code: Code.NotFound });
  });

  test("is asked for by a name and a platform", async () => {
    using connection = asNode(link, node);
    const ask = (request: object) =>
      connection.node.fetchBaseImage({ placementId: project, reference: "node:24-slim", platform, ...request });
    await expect(ask({ platform: undefined })).rejects.toMatchObject({ code: Code.InvalidArgument });
    await expect(ask({ platform: { os: "linux", architecture: "../x" } })).rejects.toMatchObject({
      code: Code.InvalidArgument,
    });
    await expect(ask({ reference: "a".repeat(1_000) })).rejects.toMatchObject({ code: Code.InvalidArgument });
  });
});
