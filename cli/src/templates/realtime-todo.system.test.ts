import { once } from "node:events";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import { Agent, get, type IncomingMessage } from "node:http";
import { type AddressInfo, connect, createServer } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { spawnProgram, thisNode } from "@svc/runtime/programs";
import { expect, test } from "vitest";
import { besideUncommitted, type OwnedDatabase, postgresDatabase } from "../testing/database-servers.ts";
import { aDirectory, svc } from "../testing/svc.ts";

/** A directory with the template's app as it is installed. */
async function anApp() {
  const directory = await aDirectory();
  const { path: cwd } = directory;
  await svc(["init", "--template", "realtime-todo"], { cwd });
  await mkdir(join(cwd, "node_modules", "@svc"), { recursive: true });
  await symlink(join(cwd, "vendor", "svc-realtime"), join(cwd, "node_modules", "@svc", "realtime"));
  await symlink(
    fileURLToPath(new URL("../../../node_modules/postgres", import.meta.url)),
    join(cwd, "node_modules", "postgres"),
  );
  return directory;
}

/** The app, with a database that is away; test/scenarios has it with one, in browsers. */
async function startApp() {
  const directory = await anApp();
  const { path: cwd } = directory;
  const child = spawnProgram([thisNode, "src/server.js"], {
    cwd,
    env: { PATH: process.env["PATH"], PORT: "0", DATABASE_URL: "postgres://nobody@127.0.0.1:1/none" },
    stdio: ["ignore", "pipe", "ignore"],
  });
  const ended = once(child, "exit");
  const [line] = (await Promise.race([once(child.stdout, "data"), ended])) as [Buffer];
  const port = Number(/listening on port (\d+)/.exec(String(line))?.[1]);
  return {
    port,
    /** As the platform does it; resolves to the exit code. */
    async stop(): Promise<number | null> {
      child.kill("SIGTERM");
      return (await ended)[0];
    },
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await ended;
      await directory[Symbol.asyncDispose]();
    },
  };
}

test("pages are served, and whoever asks for todos hears that the database is away", async () => {
  await using app = await startApp();
  const ask = async (path: string, init?: RequestInit) => {
    const reply = await fetch(`http://127.0.0.1:${app.port}${path}`, init);
    return `${reply.status} ${reply.headers.get("content-type")} ${await reply.text()}`;
  };
  expect(await ask("/")).toMatch(/^200 text\/html.*<title>Todos<\/title>/s);
  expect(await ask("/realtime/client.js")).toMatch(/^200 text\/javascript.*subscribe/s);
  expect(await ask("/healthz")).toMatch(/^200 /);
  expect(await ask("/src/server.js")).toMatch(/^404 /);
  expect(await ask("/api/todos")).toMatch(/^503 .*The database is away/);
  const body = JSON.stringify({ id: "11111111-2222-4333-8444-555555555555", title: " " });
  const headers = { "content-type": "application/json" };
  expect(await ask("/api/todos", { method: "POST", body })).toMatch(/^415 /);
  expect(await ask("/api/todos", { method: "POST", body, headers })).toMatch(/^422 .*needs a title/);
});

test("told to go, it ends its streams and then itself, however many connections are kept", async () => {
  await using app = await startApp();
  const agent = new Agent({ keepAlive: true });
  const open = (path: string) =>
    new Promise<IncomingMessage>((resolve, reject) => {
      get({ port: app.port, path, agent }, resolve).on("error", reject);
    });
  const stream = await open("/events?channels=todos");
  expect(stream.headers["content-type"]).toBe("text/event-stream");
  const rest = text(stream);
  await text(await open("/healthz"));
  expect(await app.stop()).toBe(0);
  await rest;
  agent.destroy();
});

/** Runs the app's migrations, `files` among them, and resolves to the exit code with what was said. */
async function migrate(database: OwnedDatabase, files: Readonly<Record<string, string>> = {}): Promise<string> {
  await using app = await anApp();
  for (const [name, sql] of Object.entries(files)) await writeFile(join(app.path, "migrations", name), sql);
  const way = createServer((socket) => {
    socket.pipe(connect(database.socketPath)).pipe(socket);
  });
  await once(way.listen(0, "127.0.0.1"), "listening");
  const url = new URL(database.url);
  const { port } = way.address() as AddressInfo;
  const child = spawnProgram([thisNode, "src/migrate.js"], {
    cwd: app.path,
    env: {
      PATH: process.env["PATH"],
      DATABASE_URL: `postgres://${url.username}:${url.password}@127.0.0.1:${port}${url.pathname}`,
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const said = Promise.all([text(child.stdout), text(child.stderr)]);
  const [code] = await once(child, "close");
  way.close();
  return `${code} ${(await said).join("")}`;
}

test("migrations that two run at the same moment are applied by one, and both are content", async () => {
  await using database = await postgresDatabase();
  const table = `create table public._svc_migrations (name text primary key, "appliedAt" timestamptz not null default now())`;
  expect(await besideUncommitted(database, table, () => migrate(database))).toBe("0 migrate: 0001-todo.sql applied\n");
  const lock = "lock table public._svc_migrations in share row exclusive mode";
  expect(await besideUncommitted(database, lock, () => migrate(database))).toBe(
    "0 migrate: 0001-todo.sql was applied before\n",
  );
});

test("a migration has all the time that the release has", async () => {
  await using database = await postgresDatabase();
  const files = {
    "0002-setting.sql": "create table setting as select current_setting('statement_timeout') as patience",
  };
  expect(await migrate(database, files)).toMatch(/^0 .*0002-setting.sql applied\n$/s);
  expect(await database.ask("select patience from setting")).toBe("0");
});
