import { createHash } from "node:crypto";
import { once } from "node:events";
import { chmod, readdir, writeFile } from "node:fs/promises";
import { type AddressInfo, connect, createServer } from "node:net";
import { join } from "node:path";
import { pipeline } from "node:stream";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ok, projectId, type Routes, refusal, startApi } from "../testing/api.ts";
import {
  besideLocked,
  besideUncommitted,
  mariadbDatabase,
  type OwnedDatabase,
  postgresDatabase,
} from "../testing/database-servers.ts";
import { aDirectory, envelopeOf, type SvcOptions, svc } from "../testing/svc.ts";
import type { TunnelEnd } from "../testing/tunnel.ts";

const backupId = "33333333-3333-4333-8333-333333333333";
const state = JSON.stringify({ project: { id: projectId, slug: "shop" } });
const project = { id: projectId, slug: "shop" };
const at = "2030-01-01T00:00:00.000Z";
const base = `/api/v1/projects/${projectId}/database`;
/** How pg_dump ends. */
const complete = "--\n-- PostgreSQL database dump complete\n--\n";

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
  database: OwnedDatabase & TunnelEnd,
  args: string[],
  {
    files = {},
    answers = {},
    programs = [],
    ...more
  }: {
    files?: Record<string, string | Buffer>;
    answers?: Routes;
    /** Which of the files come before programs of the machine. */
    programs?: string[];
  } & Partial<SvcOptions> = {},
) {
  const engine = database.url.startsWith("postgres") ? "postgres" : "mariadb";
  await using api = await startApi({ ...answersOf(engine, database.url), ...answers }, database);
  await using directory = await aDirectory({ ".svc/state.json": state, ".svc/migrations/.keep": "" });
  for (const [name, content] of Object.entries(files)) await writeFile(join(directory.path, name), content);
  for (const name of programs) await chmod(join(directory.path, name), 0o755);
  const path = programs.length > 0 ? { PATH: `${directory.path}:${process.env["PATH"]}` } : {};
  const env = { SVC_TOKEN: "svc_key-secret", SVC_API_URL: api.url, TMPDIR: directory.path, ...path, ...more.env };
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

  test("a migration that another one applies meanwhile is left to that", async () => {
    await using fresh = await postgresDatabase();
    const files = { ".svc/migrations/1.sql": "create table once (a int)" };
    const migrate = () => run(fresh, ["db", "migrate", "--channel", "preview", "--json"], { files });
    await run(fresh, ["db", "migrate", "--channel", "preview", "--json"]);
    const both = await besideUncommitted(
      fresh,
      "lock table _svc_migrations in share row exclusive mode",
      () => Promise.all([migrate(), migrate()]),
      2,
    );
    const ends = both.map(envelopeOf).toSorted((one, other) => Number(one["applied"]) - Number(other["applied"]));
    expect(ends).toMatchObject([
      { ok: true, applied: 0, skippedFiles: ["1.sql"] },
      { ok: true, files: ["1.sql"], skipped: 0 },
    ]);
  });

  test("a list that is longer than anybody reads is no list of what was applied", async () => {
    await using fresh = await postgresDatabase();
    await fresh.ask("create table _svc_migrations as select repeat('x', 17 * 1024 * 1024) as name");
    await fresh.ask("grant select on _svc_migrations to public");
    const ended = await run(fresh, ["db", "migrate", "--channel", "preview", "--json"], { files: migrations });
    expect(envelopeOf(ended)).toMatchObject({
      error: { code: "DATABASE_NOT_READY", message: expect.stringContaining("printed more than") },
    });
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
      "INSERT INTO public.kept VALUES ('1');\n",
      `${complete}\n\\unrestrict aB3\n`,
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
    const dump = Buffer.from(`${head("LATIN1")}${body}caf\xe9 \xab\xbb\n\\.\n${complete}`, "latin1");
    const restored = await run(database, ["db", "restore", "dump.sql", "--channel", "preview", "--yes", "--json"], {
      files: { "dump.sql": dump },
    });
    expect(envelopeOf(restored)).toMatchObject({ ok: true, psqlExitCode: 0 });
    expect(await database.ask("select a from kept")).toBe("café «»");
    const broken = Buffer.from(`${head("UTF8")}${body}caf\xe9\n\\.\n${complete}`, "latin1");
    const ended = await run(database, ["db", "restore", "dump.sql", "--channel", "preview", "--yes"], {
      files: { "dump.sql": broken },
    });
    expect(ended.stderr).toMatch(/invalid byte sequence[\s\S]*as it was/);
    expect(await database.ask("select a from kept")).toBe("café «»");
  });

  test("a backup is downloaded, restored, and gone from this machine", async () => {
    const dump = `--\n-- PostgreSQL database dump\n--\ncreate table from_backup (a int);\n${complete}`;
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

  test("a psql that cannot be kept from running programs is given no dump", async () => {
    const ended = await run(database, ["db", "restore", "dump.sql", "--yes", "--json"], {
      files: {
        "dump.sql": `--\n-- PostgreSQL database dump\n--\ncreate table never (a int);\n${complete}`,
        psql: '#!/bin/sh\n[ "$*" != --version ] || exec echo \'psql (PostgreSQL) 15.13\'\nexec /usr/bin/psql "$@"\n',
      },
      programs: ["psql"],
    });
    expect(envelopeOf(ended)).toMatchObject({
      error: { code: "DATABASE_NOT_READY", message: expect.stringContaining("too old") },
    });
    expect(await database.ask("select to_regclass('never') is null")).toBe("t");
  });

  test("a dump that was cut off changes nothing", async () => {
    const before = await database.ask("select string_agg(relname, ',' order by relname) from pg_stat_user_tables");
    const dump = "--\n-- PostgreSQL database dump\n--\ncreate table cut (a int);\n";
    const ended = await run(database, ["db", "restore", "dump.sql", "--yes", "--json"], {
      files: { "dump.sql": dump },
    });
    expect(envelopeOf(ended)).toMatchObject({
      error: { code: "CLI_INVALID_USAGE", message: expect.stringContaining("not whole") },
    });
    expect(await database.ask("select string_agg(relname, ',' order by relname) from pg_stat_user_tables")).toBe(
      before,
    );
  });

  test("a row that is longer than what is read at once comes through", async () => {
    const row = `${"long ".repeat(200_000)}end`;
    const dump = `--\n-- PostgreSQL database dump\n--\ncreate table kept (a text);\ncopy kept from stdin;\n${row}\n\\.\n${complete}`;
    const ended = await run(database, ["db", "restore", "dump.sql", "--channel", "preview", "--yes", "--json"], {
      files: { "dump.sql": dump },
    });
    expect(envelopeOf(ended)).toMatchObject({ ok: true });
    expect(await database.ask("select md5(a) from kept")).toBe(createHash("md5").update(row).digest("hex"));
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

  test("migrations are applied once also where the list of them is long", async () => {
    await using fresh = await mariadbDatabase();
    const migrate = () => run(fresh, ["db", "migrate", "--channel", "preview", "--json"], { files: migrations });
    expect(envelopeOf(await migrate())).toMatchObject({ applied: 2, skipped: 0 });
    await fresh.ask("insert into _svc_migrations (name) select concat(repeat('z', 96), seq) from seq_1_to_1000");
    expect(envelopeOf(await migrate())).toMatchObject({ applied: 0, skipped: 2 });
  });

  test("two that migrate at the same moment apply a file once", async () => {
    await using fresh = await mariadbDatabase();
    await fresh.ask("create table prices (cents int); insert into prices values (7)");
    const files = { ".svc/migrations/1.sql": "update prices set cents = cents * 100;\n" };
    const migrate = () => run(fresh, ["db", "migrate", "--channel", "preview", "--json"], { files });
    const both = await besideLocked(fresh, "prices", () => Promise.all([migrate(), migrate()]), 2);
    const ends = both.map(envelopeOf).toSorted((one, other) => Number(one["applied"]) - Number(other["applied"]));
    expect(ends).toMatchObject([
      { ok: true, applied: 0, skipped: 1 },
      { ok: true, applied: 1, skipped: 0 },
    ]);
    expect(await fresh.ask("select cents from prices")).toBe("700");
  });

  test("a server that is not there is told so, before anything waits for it", async () => {
    const ended = await run(database, ["db", "migrate", "--json"], {
      files: migrations,
      env: { DATABASE_URL: "mysql://u:secret-word@127.0.0.1:1/x" },
    });
    expect(envelopeOf(ended)).toMatchObject({
      error: { code: "DATABASE_NOT_READY", message: expect.stringContaining("ERROR 2002") },
    });
  });

  test("a database of many tables is emptied for a dump", async () => {
    await using fresh = await mariadbDatabase();
    const views = Array.from({ length: 900 }, (_, at) => `create view v${"x".repeat(58)}${at} as select 1;`);
    await fresh.ask(views.join(" "));
    const dump = "-- MariaDB dump 10.19\ncreate table kept (a int);\n-- Dump completed\n";
    const ended = await run(fresh, ["db", "restore", "dump.sql", "--channel", "preview", "--yes", "--json"], {
      files: { "dump.sql": dump },
    });
    expect(envelopeOf(ended)).toMatchObject({ ok: true });
    expect(await fresh.ask("show tables")).toBe("kept");
  });

  test("a large row is restored, and one that the server does not take changes nothing", async () => {
    await using fresh = await mariadbDatabase();
    await fresh.ask("create table before_it (a int)");
    const dump = [
      "-- MariaDB dump 10.19-11.8.6-MariaDB",
      "create table kept (a longblob);",
      `insert into kept values (\n'${"\\0".repeat(10 * 1024 * 1024)}');`,
      "-- Dump completed on 2030-01-01\n",
    ].join("\n");
    const restore = () =>
      run(fresh, ["db", "restore", "dump.sql", "--channel", "preview", "--yes", "--json"], {
        files: { "dump.sql": dump },
      });
    expect(envelopeOf(await restore())).toMatchObject({
      error: { code: "DATABASE_NOT_READY", message: expect.stringMatching(/20.*16/) },
    });
    expect(await fresh.ask("show tables")).toBe("before_it");
    await fresh.ask("set global max_allowed_packet = 1073741824");
    expect(envelopeOf(await restore())).toMatchObject({ ok: true });
    expect(await fresh.ask("select length(a) from kept")).toBe(String(10 * 1024 * 1024));
  });

  test("where the way to the database breaks in a restore, a person is told what is lost", async () => {
    const dump = "-- MariaDB dump 10.19\ncreate table breaks_here (a int);\n-- Dump completed\n";
    const broken = { ...database, breaksAt: "breaks_here" };
    const ended = await run(broken, ["db", "restore", "dump.sql", "--channel", "preview", "--yes", "--json"], {
      files: { "dump.sql": dump },
    });
    expect(envelopeOf(ended)).toMatchObject({
      error: {
        ...{ code: "DATABASE_NOT_READY", message: expect.stringContaining("the server is gone") },
        hint: expect.stringContaining("What the database held is gone"),
      },
    });
  });

  test("a dump that was cut off changes nothing, and one that fails shows none of its rows", async () => {
    await using fresh = await mariadbDatabase();
    await fresh.ask("create table before_it (a int)");
    const restore = (dump: string) =>
      run(fresh, ["db", "restore", "dump.sql", "--channel", "preview", "--yes", "--json"], {
        files: { "dump.sql": dump },
      });
    const cut = "-- MariaDB dump 10.19\ncreate table kept (a int);\ninsert into nowhere values ('a-secret'),\n";
    expect(envelopeOf(await restore(cut))).toMatchObject({
      error: { code: "CLI_INVALID_USAGE", message: expect.stringContaining("not whole") },
    });
    expect(await fresh.ask("show tables")).toBe("before_it");
    const failed = await restore(`${cut}('another');\n-- Dump completed\n`);
    expect(envelopeOf(failed)).toMatchObject({
      error: { code: "DATABASE_NOT_READY", message: expect.stringContaining("nowhere' doesn't exist") },
    });
    expect(`${failed.stdout}${failed.stderr}`).not.toMatch(/a-secret|another/);
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
      files: { "dump.sql": "-- MariaDB dump 10.19\n\\! touch ran\n-- Dump completed\n" },
    });
    expect(evil.status).toBe(1);
    expect(evil.left).not.toContain("ran");
  });
});
