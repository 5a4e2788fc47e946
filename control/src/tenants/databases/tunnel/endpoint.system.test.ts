import { once } from "node:events";
import { systemClock } from "@svc/runtime/system";
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createWebSocketStream, WebSocket } from "ws";
import { databaseTask } from "../../../fleet/tasks/kinds/database.ts";
import { insertTask } from "../../../fleet/tasks/store.ts";
import { TunnelUnavailable } from "../../../fleet/tunnels/tunnels.ts";
import { type TestApi, type TestUser, testApi } from "../../../http/testing.ts";
import { createLog } from "../../../log.ts";
import type { Project } from "../../../stores/db/tables.ts";
import { sizeRecord } from "../sizes.ts";
import type { SqlRunner } from "../sql/runner.ts";
import { createTransfers } from "../sql/transfers.ts";
import { insertBranch } from "../store.ts";
import { startPostgres } from "../testing/postgres.ts";
import { lineTo, newBranch, type TestBranch, type TestServer, testRunner } from "../testing/server.ts";

let server: TestServer;
let runner: SqlRunner;
let api: TestApi;
let branch: TestBranch;
let user: TestUser;
let project: Project;
/** Why there is no way to the server, where a test says so. */
let away: Error | null = null;
beforeAll(async () => {
  server = await startPostgres();
  runner = testRunner();
  branch = await newBranch(runner, server);
  api = await testApi({
    studio: {
      ...sizeRecord,
      findReadyBranch: () => Promise.reject(new Error("not asked")),
      openLine: async (_, signal) => {
        if (away !== null) throw away;
        return await lineTo(server.socket)(signal);
      },
      sql: runner,
      transfers: createTransfers({ clock: systemClock, log: createLog("silent") }),
    },
  });
  user = await api.newUser();
  project = await newProjectWithDatabase();
});
afterAll(async () => {
  await api?.[Symbol.asyncDispose]();
  await runner?.[Symbol.asyncDispose]();
  await server?.[Symbol.asyncDispose]();
});

/** A project whose branch for production is ready, on a node of its own. */
async function newProjectWithDatabase(on = api, owner = user): Promise<Project> {
  const made = await on.newProject(owner);
  const id = crypto.randomUUID();
  const node = crypto.randomUUID();
  await on.db.transaction().execute(async (tx) => {
    await insertBranch(tx, on.context.secrets, { id, projectId: made.id, channel: "production", engine: "postgres" });
    await tx
      .updateTable("database")
      .set({ status: "ready", node_id: node, tenant_at: new Date() })
      .where("id", "=", id)
      .execute();
    const row = await tx.selectFrom("database").selectAll().where("id", "=", id).executeTakeFirstOrThrow();
    const resources = {
      memoryMb: 64,
      cpuMillicores: 10,
      pidsLimit: 64,
      reservedMemoryMb: 64,
      reservedCpuMillicores: 10,
    };
    const wanted = {
      ...resources,
      storageMb: 0,
      image: "svc-postgres:17",
      sizeMb: 10,
      connections: 20,
      readOnly: false,
      nodeSelector: {},
    };
    const task = await insertTask(tx, { ...row, pr_number: null }, databaseTask(row, wanted), { replica: 0 });
    await tx.updateTable("task").set({ node_id: node }).where("id", "=", task).execute();
  });
  return made;
}

const path = (id = project.id, channel = "production") => `/projects/${id}/database/tunnel?channel=${channel}`;
const open = (
  at = path(),
  { session = user.session, origin, url = api.url }: { session?: string; origin?: string; url?: string } = {},
) =>
  new WebSocket(`${url.replace("http", "ws")}/api/v1${at}`, "svc-database", {
    headers: { authorization: `Bearer ${session}`, ...(origin && { origin }) },
  });

/** What a client is told that gets no WebSocket. */
async function refusal(socket: WebSocket): Promise<{ status: number; code: string }> {
  socket.on("error", () => {});
  const [request, response] = await once(socket, "unexpected-response");
  let text = "";
  for await (const chunk of response) text += chunk;
  request.destroy();
  return { status: response.statusCode, code: JSON.parse(text).error.code };
}

test("a driver logs in through it by itself, and what it asks is answered", async () => {
  const socket = open();
  await once(socket, "open");
  expect(socket.protocol).toBe("svc-database");
  const stream = Object.assign(createWebSocketStream(socket), {
    connect: () => queueMicrotask(() => stream.emit("connect")),
    ...{ setNoDelay: () => stream, setKeepAlive: () => stream, ref: () => stream, unref: () => stream },
  });
  const { role, password, database } = branch;
  const client = new pg.Client({ user: role, password, database, stream: () => stream as never });
  const connected = client.connect();
  await connected;
  // Longer than a message may be.
  const { rows } = await client.query("select repeat('x', 300000) as text");
  expect(rows[0].text).toHaveLength(300_000);
  await client.end();
  await expect.poll(async () => await lines()).toContain("database.tunnel");
});
const lines = async () =>
  (await api.db.selectFrom("audit").select("action").where("target", "=", project.id).execute()).map(
    ({ action }) => action,
  );

test("the end of the server's side is told as an end", async () => {
  const socket = open();
  await once(socket, "open");
  // No server takes this for a login.
  socket.send(Buffer.alloc(8, 1));
  const [code] = await once(socket, "close");
  expect([1000, 1011]).toContain(code);
});

test("text is no bytes", async () => {
  const socket = open();
  await once(socket, "open");
  socket.send("select 1");
  expect((await once(socket, "close"))[0]).toBe(1003);
});

test("who may not is told so before there is a WebSocket", async () => {
  const stranger = await api.newUser();
  expect(await refusal(open(path(), { session: stranger.session }))).toMatchObject({ status: 404 });
  expect(await refusal(open(path(), { session: "x".repeat(32) }))).toMatchObject({ status: 401 });
  expect(await refusal(open(path(project.id, "preview")))).toMatchObject({ status: 404, code: "NOT_FOUND" });
  expect(await refusal(open(path(), { origin: "https://evil.test" }))).toEqual({ status: 403, code: "FORBIDDEN" });
  const plain = await api.call("GET", path(), { session: user.session });
  expect(plain).toMatchObject({ status: 400, body: { error: { code: "BAD_REQUEST" } } });
});

test.each([
  { when: "a server is not reached", why: new Error("away"), status: 409, code: "DATABASE_NOT_READY" },
  { when: "a node says no", why: new TunnelUnavailable("refused", "?"), status: 409, code: "DATABASE_NOT_READY" },
  { when: "a node has no room", why: new TunnelUnavailable("busy", "Try later."), status: 429, code: "RATE_LIMITED" },
])("when $when it is $code, and no failure of ours", async ({ why, status, code }) => {
  away = why;
  try {
    expect(await refusal(open())).toEqual({ status, code });
  } finally {
    away = null;
  }
});

test("an owner's projects take so many at once, and get them back", async () => {
  const busy = await newProjectWithDatabase();
  const sockets = Array.from({ length: 16 }, (_, n) => open(path(n % 2 === 0 ? busy.id : project.id)));
  await Promise.all(sockets.map((socket) => once(socket, "open")));
  expect(await refusal(open(path(busy.id)))).toEqual({ status: 429, code: "RATE_LIMITED" });
  const other = await api.newUser();
  const quiet = open(path((await newProjectWithDatabase(api, other)).id), { session: other.session });
  await once(quiet, "open");
  for (const socket of [...sockets, quiet]) socket.close();
  await Promise.all(sockets.map((socket) => once(socket, "close")));
  await expect
    .poll(async () => {
      const again = open(path(busy.id));
      const opened = once(again, "open").then(() => true);
      const isOpen = await Promise.race([opened, refusal(again).then(() => false)]).catch(() => false);
      again.terminate();
      return isOpen;
    })
    .toBe(true);
});

test("a replica that stops ends them with a word", async () => {
  const other = await testApi({ studio: api.context.studio });
  const owner = await other.newUser();
  const made = await newProjectWithDatabase(other, owner);
  const socket = open(path(made.id), { session: owner.session, url: other.url });
  await once(socket, "open");
  const closed = once(socket, "close");
  await other[Symbol.asyncDispose]();
  expect((await closed)[0]).toBe(1001);
});
