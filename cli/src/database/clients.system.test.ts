import { once } from "node:events";
import { readdir, writeFile } from "node:fs/promises";
import { type AddressInfo, connect, createServer } from "node:net";
import { join } from "node:path";
import { pipeline } from "node:stream";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ok, projectId, type Routes, refusal, startApi } from "../testing/api.ts";
import {
  besideUncommitted,
  mariadbDatabase,
  type OwnedDatabase,
  postgresDatabase,
} from "../testing/database-servers.ts";
import { aDirectory, envelopeOf, type SvcOptions, svc } from "../testing/svc.ts";

const backupId = "33333333-3333-4333-8333-333333333333";
const state = JSON.stringify({ project: { id: projectId, slug: "shop" } });
const project = { id: projectId, slug: "shop" };
const at = "2030-01-01T00:00:00.000Z";
const base = `/api/v1/projects/${projectId}/database`;

type Engine = "postgres" | "mariadb";

const answersOf = (engine: Engine, url: string): Routes => ({
  [`GET ${base}`]: ok({
    ...{ channel: "preview", engine, enabled: true, status: "ready", sizeBytes: 0, sizeLimitMb: 1024 },
    ...{ connectionLimit: 20, reason: null, readOnly: false, protection: "local" },
  }),
  [`POST ${base}/dev-credentials`]: ok({
    channel: "preview",
    engine,
    databaseUrl: url,
    expiresAt: null,
    note: "Keep it.",
  }),
});

/** Runs svc in a linked directory with `files`, by a platform that leads to `database`. */
async function run(
  database: OwnedDatabase,
  args: string[],
  {
    files = {},
    answers = {},
    ...more
  }: { files?: Record<string, string | Buffer>; answers?: Routes } & Partial<SvcOptions> = {},
) {
  const engine = database.url.startsWith("postgres") ? "postgres" : "mariadb";
  await using api = await startApi({ ...answersOf(engine, database.url), ...answers }, database);
  await using directory = await aDirectory({ ".svc/state.json": state, ".svc/migrations/.keep": "" });
  for (const [name, content] of Object.entries(files)) await writeFile(join(directory.path, name), content);
  const env = { SVC_TOKEN: "svc_key-secret", SVC_API_URL: api.url, TMPDIR: directory.path, ...more.env };
  const ended = await svc(args, { cwd: directory.path, ...more, env });
  return {
    ...ended,
    calls: api.seen.map(({ method, path }) => `${method} ${path}`),
    left: await readdir(directory.path),
  };
}

const migrations = {
  ".svc/migrations/010_more.sql": "insert into notes values (2, 'it''s')",
  ".svc/migrations/001_notes.sql":
    "create table notes (id int primary key, body text);\ninsert into notes values (1, 'first');\n",
  ".svc/migrations/README.md": "not SQL",
};

describe("on Postgres", () => {
  let database: OwnedDatabase;
  beforeAll(async () => {
    database = await postgresDatabase();
  });
  afterAll(() => database[Symbol.asyncDispose]());

  test("migrations are applied once, in the order of their names, by a tunnel", async () => {
    const first = await run(database, ["db", "migrate", "--channel", "preview", "--json"], { files: migrations });
    expect(envelopeOf(first)).toEqual({
      ...{ ok: true, operation: "db.migrate", warnings: [], project },
      ...{ target: "managed", channel: "preview", engine: "postgres", applied: 2, skipped: 0 },
      ...{ files: ["001_notes.sql", "010_more.sql"], skippedFiles: [] },
    });
    expect(first.calls).toContain(`UPGRADE ${base}/tunnel?channel=preview`);
    const again = await run(database, ["db", "migrate", "--json"], { files: migrations });
    expect(envelopeOf(again)).toMatchObject({
      applied: 0,
      skipped: 2,
      skippedFiles: ["001_notes.sql", "010_more.sql"],
    });
    expect(await database.ask("select string_agg(body, ',' order by id) from notes")).toBe("first,it's");
    expect(await database.ask(`select string_agg(name, ',' order by "appliedAt") from _svc_migrations`)).toBe(
      "001_notes.sql,010_more.sql",
    );
  });

  test("migrations of DATABASE_URL need no platform, and say of the project what this machine knows", async () => {
    const files = { ".svc/migrations/030_own.sql": "create table own (a int)" };
    await using server = createServer((client) => {
      pipeline(client, connect(database.socketPath), client, () => {});
    });
    await once(server.listen(0, "127.0.0.1"), "listening");
    const { port } = server.address() as AddressInfo;
    const env = { DATABASE_URL: database.url.replace(/@[^/]+/, `@127.0.0.1:${port}`) };
    const linked = await run(database, ["db", "migrate", "--json"], { files, env });
    expect(envelopeOf(linked)).toEqual({
      ...{ ok: true, operation: "db.migrate", warnings: [], project, target: "environment", engine: "postgres" },
      ...{ applied: 1, skipped: 0, files: ["030_own.sql"], skippedFiles: [] },
    });
    expect(linked.calls).toEqual([]);
    const named = await run(database, ["db", "migrate", "--project", "other", "--json"], { files, env });
    expect(envelopeOf(named)).toMatchObject({ project: { id: null, slug: "other" }, applied: 0, skipped: 1 });
  });

  test("migrations that two run at the same moment are applied by one, and both are content", async () => {
    await using fresh = await postgresDatabase();
    const ended = await besideUncommitted(
      fresh,
      `create table public._svc_migrations (name text primary key, "appliedAt" timestamptz not null default now())`,
      () => run(fresh, ["db", "migrate", "--channel", "preview", "--json"], { files: migrations }),
    );
    expect(envelopeOf(ended)).toMatchObject({ ok: true, applied: 2, skipped: 0 });
  });

  test("a migration that fails leaves nothing, and says why without the password", async () => {
    const ended = await run(database, ["db", "migrate", "--channel", "preview"], {
      files: { ".svc/migrations/020_bad.sql": "create table half (a int);\nselect nothing from nowhere;\n" },
    });
    expect(ended).toMatchObject({ status: 1, stdout: "" });
    expect(ended.stderr).toContain("DATABASE_NOT_READY");
    expect(ended.stderr).toContain('relation "nowhere" does not exist');
    expect(ended.stderr).not.toContain("clear-password");
    expect(await database.ask("select to_regclass('half') is null")).toBe("t");
  });

  test("a dump replaces everything, and one that fails nothing", async () => {
    const dump = [
      "--\n-- PostgreSQL database dump\n--\n\\restrict aB3\n",
      "CREATE SCHEMA other;\nCREATE TABLE other.t (a text);\n",
      "CREATE TABLE public.kept (a text DEFAULT 'x\\y'::text);\n",
      "COPY other.t (a) FROM stdin;\ntab\\t back\\\\slash\n\\.\n\n",
      "INSERT INTO public.kept VALUES ('1');\n\\unrestrict aB3\n",
    ].join("");
    const restored = await run(database, ["db", "restore", "dump.sql", "--channel", "preview", "--yes", "--json"], {
      files: { "dump.sql": dump },
    });
    expect(envelopeOf(restored)).toEqual({
      ...{ ok: true, operation: "db.restore", warnings: [], project },
      ...{ channel: "preview", engine: "postgres", source: "file", psqlExitCode: 0 },
    });
    expect(await database.ask("select a from other.t")).toBe("tab\t back\\slash");
    expect(await database.ask("select to_regclass('notes') is null")).toBe("t");
    const broken = await run(database, ["db", "restore", "dump.sql", "--channel", "preview", "--yes"], {
      files: { "dump.sql": `${dump}\nselect nothing from nowhere;\n` },
    });
    expect(broken.stderr).toMatch(/nowhere.*does not exist[\s\S]*as it was/);
    expect(await database.ask("select count(*) from kept")).toBe("1");
  });

  test("a dump in another encoding is restored with what it means, and bytes that are none change nothing", async () => {
    const head = (encoding: string) => `--\n-- PostgreSQL database dump\n--\nSET client_encoding = '${encoding}';\n`;
    const body = "CREATE TABLE public.kept (a text);\nCOPY public.kept (a) FROM stdin;\n";
    const dump = Buffer.from(`${head("LATIN1")}${body}caf\xe9 \xab\xbb\n\\.\n`, "latin1");
    const restored = await run(database, ["db", "restore", "dump.sql", "--channel", "preview", "--yes", "--json"], {
      files: { "dump.sql": dump },
    });
    expect(envelopeOf(restored)).toMatchObject({ ok: true, psqlExitCode: 0 });
    expect(await database.ask("select a from kept")).toBe("café «»");
    const broken = Buffer.from(`${head("UTF8")}${body}caf\xe9\n\\.\n`, "latin1");
    const ended = await run(database, ["db", "restore", "dump.sql", "--channel", "preview", "--yes"], {
      files: { "dump.sql": broken },
    });
    expect(ended.stderr).toMatch(/invalid byte sequence[\s\S]*as it was/);
    expect(await database.ask("select a from kept")).toBe("café «»");
  });

  test("a backup is downloaded, restored, and gone from this machine", async () => {
    const dump = "--\n-- PostgreSQL database dump\n--\ncreate table from_backup (a int);\n";
    const backup = {
      ...{ id: backupId, channel: "production", engine: "postgres", status: "complete", sizeBytes: 9, error: null },
      ...{ filename: "shop.sql.gz", createdAt: at, completedAt: at, scheduled: false },
    };
    const ended = await run(database, ["db", "restore", backupId, "--channel", "preview", "--yes", "--json"], {
      answers: {
        [`GET ${base}/backups/${backupId}`]: ok({ backup }),
        [`GET ${base}/backups/${backupId}/download`]: {
          headers: { "content-type": "application/gzip", "content-length": `${gzipSync(dump).length}` },
          body: gzipSync(dump),
        },
      },
    });
    expect(envelopeOf(ended)).toMatchObject({
      ok: true,
      source: "backup",
      sourceChannel: "production",
      channel: "preview",
    });
    expect(await database.ask("select to_regclass('from_backup') is null")).toBe("f");
    expect(ended.left.filter((name) => name.startsWith("svc-restore"))).toEqual([]);
  });

  test("a dump that would run a program is refused before anything is changed", async () => {
    const dump = "--\n-- PostgreSQL database dump\n--\ndrop table if exists from_backup; \\! touch ran\n";
    const ended = await run(database, ["db", "restore", "dump.sql", "--yes"], { files: { "dump.sql": dump } });
    expect(ended.status).toBe(1);
    expect(ended.stderr).toMatch(/has the command \\! \(line 4\).*DATABASE_NOT_READY/);
    expect(ended.left).not.toContain("ran");
    expect(await database.ask("select to_regclass('from_backup') is null")).toBe("f");
  });

  test("a refusal of the tunnel is what a person is told", async () => {
    const answers = { [`POST ${base}/dev-credentials`]: refusal(409, "DATABASE_PROVISIONING", "Still being created.") };
    const ended = await run(database, ["db", "migrate", "--json"], { answers });
    expect(envelopeOf(ended)).toMatchObject({ error: { code: "DATABASE_NOT_READY", message: "Still being created." } });
  });

  test("a client of one's own reaches it by `svc db proxy`, until Ctrl-C", async () => {
    let answer: Promise<Buffer> | undefined;
    const ended = await run(database, ["db", "proxy", "--channel", "preview"], {
      onStderr: (text, kill) => {
        const port = /127\.0\.0\.1:(\d+)/.exec(text)?.[1];
        if (port === undefined || answer !== undefined) return;
        const socket = connect(Number(port), "127.0.0.1");
        // Asks for TLS, which the server answers with one letter.
        socket.write(Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]));
        answer = once(socket, "data").then(([bytes]) => bytes as Buffer);
        void answer.then(() => kill("SIGINT"));
      },
    });
    expect(String(await answer)).toBe("N");
    expect(ended.status).toBe(130);
  });
});

describe("on MariaDB", () => {
  let database: OwnedDatabase;
  beforeAll(async () => {
    database = await mariadbDatabase();
  });
  afterAll(() => database[Symbol.asyncDispose]());

  test("migrations are applied once, and one that fails is not recorded", async () => {
    const files = { ...migrations, ".svc/migrations/020_bad.sql": "select nothing from nowhere;\n" };
    const first = await run(database, ["db", "migrate", "--channel", "preview", "--json"], { files });
    expect(envelopeOf(first)).toMatchObject({
      error: { code: "DATABASE_NOT_READY", message: expect.stringContaining("nowhere") },
    });
    const again = await run(database, ["db", "migrate", "--channel", "preview", "--json"], { files: migrations });
    expect(envelopeOf(again)).toMatchObject({ engine: "mariadb", applied: 0, skipped: 2 });
    expect(await database.ask("select group_concat(name order by name) from _svc_migrations")).toBe(
      "001_notes.sql,010_more.sql",
    );
  });

  test("a dump replaces everything, its sandbox line included", async () => {
    const dump = [
      "/*M!999999\\- enable the sandbox mode */ ",
      "-- MariaDB dump 10.19-11.8.6-MariaDB, for debian-linux-gnu (x86_64)",
      "CREATE TABLE `kept` (`a` int);",
      "INSERT INTO `kept` VALUES (1);",
      "-- Dump completed on 2030-01-01",
    ].join("\n");
    const ended = await run(database, ["db", "restore", "dump.sql", "--channel", "preview", "--yes", "--json"], {
      files: { "dump.sql": dump },
    });
    expect(envelopeOf(ended)).toMatchObject({ ok: true, engine: "mariadb", psqlExitCode: 0 });
    expect(await database.ask("show tables")).toBe("kept");
  });

  test("what another account made is its restorer's, and every byte of a dump comes through", async () => {
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, at) => at)).toString("hex");
    const binary = Buffer.from("'\x80\xff\xe9'", "latin1").toString("latin1");
    const dump = [
      "-- MariaDB dump 10.19-11.8.6-MariaDB, for debian-linux-gnu (x86_64)",
      "CREATE TABLE `kept` (`a` blob, `b` text);",
      `INSERT INTO \`kept\` VALUES (0x${bytes},'DEFINER=\`root\`@\`localhost\`'),(_binary ${binary},NULL);`,
      "/*!50001 CREATE ALGORITHM=UNDEFINED */",
      "/*!50013 DEFINER=`root`@`localhost` SQL SECURITY DEFINER */",
      "/*!50001 VIEW `seen` AS select `kept`.`b` AS `b` from `kept` where `kept`.`b` is not null */;",
      "DELIMITER ;;",
      "/*!50003 CREATE*/ /*!50017 DEFINER=`root`@`localhost`*/ /*!50003 TRIGGER `t` BEFORE INSERT ON `kept` FOR EACH ROW",
      "  SET NEW.b = 'triggered' */;;",
      "CREATE DEFINER=`root`@`localhost` PROCEDURE `p`()",
      "  INSERT INTO kept VALUES ('', '') ;;",
      "DELIMITER ;",
      "CALL p();",
      "-- Dump completed on 2030-01-01",
    ].join("\n");
    const ended = await run(database, ["db", "restore", "dump.sql", "--channel", "preview", "--yes", "--json"], {
      files: { "dump.sql": Buffer.from(dump, "latin1") },
    });
    expect(envelopeOf(ended)).toMatchObject({ ok: true, engine: "mariadb" });
    expect(await database.ask("select hex(a) from kept")).toBe(`${bytes.toUpperCase()}\n80FFE9`);
    expect(await database.ask("select b from seen order by b")).toBe("DEFINER=`root`@`localhost`\ntriggered");
  });

  test("a dump of another engine, and one that runs a program, are refused", async () => {
    const other = await run(database, ["db", "restore", "dump.sql", "--yes", "--json"], {
      files: { "dump.sql": "--\n-- PostgreSQL database dump\n--\n" },
    });
    expect(envelopeOf(other)).toMatchObject({ error: { code: "CLI_INVALID_USAGE" } });
    const evil = await run(database, ["db", "restore", "dump.sql", "--yes"], {
      files: { "dump.sql": "-- MariaDB dump 10.19\n\\! touch ran\n" },
    });
    expect(evil.status).toBe(1);
    expect(evil.left).not.toContain("ran");
  });
});
