import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { aProject, hangUp, ok, projectId, type Routes, refusal, type Seen, startApi } from "../testing/api.ts";
import { aDirectory, envelopeOf, type SvcOptions, svc } from "../testing/svc.ts";
import { runAtTerminal } from "../testing/terminal.ts";

const state = JSON.stringify({ project: { id: projectId, slug: "shop" } });
const project = { id: projectId, slug: "shop" };
const databaseId = "44444444-4444-4444-8444-444444444444";
const backupId = "33333333-3333-4333-8333-333333333333";
const at = "2030-01-01T00:00:00.000Z";
const base = `/api/v1/projects/${projectId}/database`;

const branch = (fields: object = {}) => ({
  ...{ channel: "production", engine: "postgres", enabled: true, status: "ready", sizeBytes: 2048, sizeLimitMb: 1024 },
  ...{ connectionLimit: 20, reason: null, readOnly: false, protection: "keeper" },
  ...fields,
});
const made = (status: string) => ok({ channel: "production", engine: "postgres", databaseId, status }, 202);
const aBackup = (fields: object = {}) => ({
  ...{ id: backupId, channel: "production", engine: "postgres", status: "complete", sizeBytes: 9, error: null },
  ...{ filename: "shop.sql.gz", createdAt: at, completedAt: at, scheduled: false },
  ...fields,
});
const table = {
  ...{ name: "orders", approxRowCount: 12, sizeBytes: 8192 },
  columns: [{ name: "id", dataType: "integer", nullable: false, default: null, isPrimaryKey: true }],
  indexes: [{ name: "orders_pkey", definition: "UNIQUE (id)" }],
  foreignKeys: [],
};
const schema = ok({ channel: "production", engine: "postgres", tables: [table], views: [], truncated: false });
const result = (fields: object = {}) =>
  ok({
    ...{ channel: "production", engine: "postgres", columns: ["n"], rows: [[1]], rowCount: 1, truncated: false },
    ...{ durationMs: 3, rolledBack: false },
    ...fields,
  });

async function run(
  args: string[],
  answers: Routes,
  { files = {}, ...more }: Partial<SvcOptions> & { files?: Record<string, string> } = {},
) {
  await using api = await startApi(answers);
  await using directory = await aDirectory({ ".svc/state.json": state, ...files });
  const env = { SVC_TOKEN: "svc_key-secret", SVC_API_URL: api.url, ...more.env };
  const ended = await svc(args, { cwd: directory.path, ...more, env });
  const written = await readFile(join(directory.path, "shop.sql.gz"), "utf8").catch(() => null);
  return { ...ended, written, seen: api.seen, calls: api.seen.map(({ method, path }) => `${method} ${path}`) };
}
const bodyOf = (seen: readonly Seen[], method: string) =>
  JSON.parse(String(seen.find((each) => each.method === method)?.body));

describe.concurrent("svc db enable and branch", () => {
  test("create a database and wait until it is ready", async () => {
    const ended = await run(["db", "enable", "--engine", "postgres", "--json"], {
      [`POST ${base}`]: made("provisioning"),
      [`GET ${base}`]: [ok(branch({ status: "provisioning" })), ok(branch())],
    });
    expect(envelopeOf(ended)).toEqual({
      ...{ ok: true, operation: "db.enable", warnings: [], project, channel: "production", engine: "postgres" },
      ...{ databaseId, status: "ready", sizeLimitMb: 1024, connectionLimit: 20 },
    });
    expect(bodyOf(ended.seen, "POST")).toEqual({ engine: "postgres" });
  });

  test.each([
    { when: "nobody waits", args: ["--no-wait"], status: "provisioning" },
    { when: "it was there", args: [], status: "ready" },
  ])("say no more than that when $when", async ({ args, status }) => {
    const ended = await run(["db", "branch", "production", "--json", ...args], { [`POST ${base}`]: made(status) });
    expect(envelopeOf(ended)).toEqual({
      ...{ ok: true, operation: "db.branch", warnings: [], project, channel: "production", engine: "postgres" },
      ...{ databaseId, status },
    });
    expect(ended.calls).toEqual([`POST ${base}?channel=production`]);
    expect(bodyOf(ended.seen, "POST")).toEqual({});
  });

  test.each([
    { answer: ok(branch({ status: "error", reason: "no room" })), code: "DATABASE_NOT_READY", says: "no room" },
    { answer: refusal(403, "SUSPENDED"), code: "CLOUD_REQUEST_FAILED", says: "SUSPENDED" },
  ])("end with $code", async ({ answer, code, says }) => {
    const ended = await run(["db", "enable", "--json"], {
      [`POST ${base}`]: made("provisioning"),
      [`GET ${base}`]: answer,
    });
    expect(envelopeOf(ended)).toMatchObject({ ok: false, error: { code, message: expect.stringContaining(says) } });
    expect(ended.status).toBe(1);
  });
});

describe.concurrent("svc db query", () => {
  const post = `POST ${base}/query`;

  test.each<[how: string, args: string[], more: object]>([
    ["the argument", ["select 1"], {}],
    ["a file", ["--file", "q.sql"], { files: { "q.sql": "select 1" } }],
    ["stdin", [], { stdin: "select 1" }],
  ])("takes SQL from %s", async (_how, args, more) => {
    const ended = await run(["db", "query", ...args, "--json"], { [post]: result() }, more);
    expect(envelopeOf(ended)).toEqual({
      ...{ ok: true, operation: "db.query", warnings: [], project, channel: "production", engine: "postgres" },
      ...{ columns: ["n"], rows: [[1]], rowCount: 1, truncated: false, durationMs: 3, rolledBack: false },
    });
    expect(bodyOf(ended.seen, "POST")).toEqual({ sql: "select 1" });
  });

  test("asks for a dry run on another channel, and warns of what is missing", async () => {
    const rows = Array.from({ length: 500 }, (_, at) => [at]);
    const ended = await run(["db", "query", "delete", "--dry-run", "--channel", "dev", "--json"], {
      [post]: result({ rows, truncated: true, rolledBack: true }),
    });
    expect(envelopeOf(ended)).toMatchObject({ warnings: ["The results were truncated to 500 rows"], rolledBack: true });
    expect(bodyOf(ended.seen, "POST")).toEqual({ sql: "delete", rollback: true });
    expect(ended.calls).toEqual([`POST ${base}/query?channel=dev`]);
  });

  test("shows a person a hundred rows, nothing that drives the terminal, and NULL as such", async () => {
    const rows = [["\u001b[31mred\u0007", null], ...Array.from({ length: 120 }, (_, at) => [`row${at}`, { at }])];
    const ended = await run(["db", "query", "x"], { [post]: result({ columns: ["a", "b"], rows, rowCount: 121 }) });
    expect(ended.stdout).not.toContain("\u001b");
    expect(ended.stdout).toMatch(/NULL/);
    expect(ended.stdout).toContain('{"at":98}');
    expect(ended.stdout).not.toContain("row99");
    expect(ended.stdout).toMatch(/21 more rows not shown; --json/);
  });

  test.each<[what: string, args: string[], more: object]>([
    ["two sources", ["select 1", "--file", "q.sql"], {}],
    ["none", [], {}],
    ["an empty one", ["  "], {}],
    ["a file that is not there", ["--file", "none.sql"], {}],
    ["too much of it", [], { stdin: "x".repeat(100 * 1024 + 1) }],
  ])("refuses %s before anything is asked", async (_what, args, more) => {
    const ended = await run(["db", "query", ...args, "--json"], {}, more);
    expect(envelopeOf(ended)).toMatchObject({ error: { code: "CLI_INVALID_USAGE" } });
    expect(ended).toMatchObject({ status: 2, calls: [] });
  });

  test.each([
    ["QUERY_ERROR", 400, "CLOUD_REQUEST_FAILED"],
    ["DRY_RUN_UNAVAILABLE", 400, "CLOUD_REQUEST_FAILED"],
    ["DATABASE_PROVISIONING", 409, "DATABASE_NOT_READY"],
    ["FORBIDDEN_SCOPE", 403, "CLOUD_FORBIDDEN_SCOPE"],
    ["PLAN_FEATURE_UNAVAILABLE", 403, "CLOUD_UNAUTHORIZED"],
  ])("tells %s (%s) as %s", async (server, status, code) => {
    const ended = await run(["db", "query", "x", "--json"], { [post]: refusal(status, server) });
    expect(envelopeOf(ended)).toMatchObject({ error: { code, hint: expect.any(String) } });
    expect(ended.status).toBe(1);
  });
});

describe.concurrent("what only shows something", () => {
  test("svc db status of one that is absent", async () => {
    const absent = { enabled: false, status: null, engine: null, sizeBytes: 0, protection: null, channel: "dev" };
    const ended = await run(["db", "status", "--channel", "dev", "--json"], { [`GET ${base}`]: ok(branch(absent)) });
    expect(envelopeOf(ended)).toMatchObject({
      operation: "db.status",
      project,
      channel: "dev",
      enabled: false,
      status: null,
    });
    expect(ended.calls).toEqual([`GET ${base}?channel=dev`]);
  });

  test.each<[args: string[], answers: Routes, payload: object, shown: RegExp]>([
    [
      ["status"],
      { [`GET ${base}`]: ok(branch()) },
      { status: "ready", sizeLimitMb: 1024 },
      /production, postgres[\s\S]*on another node/,
    ],
    [
      ["schema"],
      { [`GET ${base}/schema`]: schema },
      { tables: [table], views: [] },
      /orders[\s\S]*integer +primary key, not null/,
    ],
    [
      ["tables"],
      { [`GET ${base}/schema`]: schema },
      { tables: [{ name: "orders", approxRowCount: 12, sizeBytes: 8192 }] },
      /orders +12/,
    ],
    [
      ["tables", "orders", "--count"],
      { [`GET ${base}/schema`]: schema, [`GET ${base}/tables/orders/count`]: ok({ count: 13, durationMs: 1 }) },
      { table, count: 13 },
      /Rows +13/,
    ],
    [
      ["usage"],
      {
        [`GET ${base}/usage`]: ok({
          ...{ channel: "production", engine: "postgres", sizeBytes: 2048, sizeLimitMb: 1, readOnly: true },
          warning: "Can only be read, and 3 tables are unlogged",
          ...{ connections: { active: 2, limit: 20 }, history: [{ sampledAt: at, sizeBytes: 1024 }] },
        }),
      },
      { readOnly: true, connections: { active: 2, limit: 20 } },
      /2 of 20 connections[\s\S]*only be read, and 3/,
    ],
    [
      ["migrations"],
      {
        [`GET ${base}/migrations`]: ok({
          channel: "production",
          engine: "postgres",
          tableExists: true,
          migrations: [{ name: "001.sql", appliedAt: at }],
        }),
      },
      { tableExists: true, migrations: [{ name: "001.sql", appliedAt: at }] },
      /001\.sql/,
    ],
    [
      ["backup", "list"],
      { [`GET ${base}/backups`]: ok({ backups: [aBackup()], problems: [] }), [`GET ${base}`]: ok(branch()) },
      { channel: "production", engine: "postgres", backups: [aBackup()], problems: [] },
      new RegExp(backupId),
    ],
  ])("svc db %j", async (args, answers, payload, shown) => {
    expect(envelopeOf(await run(["db", ...args, "--json"], answers))).toMatchObject({ ok: true, project, ...payload });
    expect((await run(["db", ...args], answers)).stdout).toMatch(shown);
  });

  test("svc db tables of one that is not there", async () => {
    const ended = await run(["db", "tables", "none", "--json"], { [`GET ${base}/schema`]: schema });
    expect(envelopeOf(ended)).toMatchObject({ error: { code: "CLOUD_NOT_FOUND" } });
  });

  test.each([
    { when: "where a backup is off-site as well", offsiteAt: at, shown: true },
    { when: "and not where none is", offsiteAt: null, shown: false },
  ])("svc db backup list says so $when", async ({ offsiteAt, shown }) => {
    const ended = await run(["db", "backup", "list"], {
      [`GET ${base}`]: ok(branch({ channel: "preview" })),
      [`GET ${base}/backups`]: ok({ backups: [aBackup({ offsiteAt }), aBackup()], problems: [] }),
    });
    expect(ended.stdout.includes("OFF-SITE")).toBe(shown);
    expect(ended.stdout).toContain(backupId);
  });

  test("svc db backup list of every channel names none", async () => {
    const ended = await run(["db", "backup", "list", "--all-channels", "--json"], {
      [`GET ${base}/backups`]: ok({ backups: [], problems: [] }),
    });
    expect(envelopeOf(ended)).toEqual({
      ...{ ok: true, operation: "db.backup.list", warnings: [], project, allChannels: true, backups: [], problems: [] },
    });
    expect(ended.calls).toEqual([`GET ${base}/backups?allChannels=true`]);
  });
});

describe.concurrent("what destroys", () => {
  test.each([[["disable"]], [["rotate-credentials"]], [["backup", "delete", backupId]], [["restore", backupId]]])(
    "svc db %j asks first, and where it cannot nothing is called",
    async (args) => {
      const ended = await run(["db", ...args, "--json"], {});
      expect(envelopeOf(ended)).toMatchObject({ error: { code: "DESTRUCTIVE_CONFIRMATION_REQUIRED" } });
      expect(ended).toMatchObject({ status: 6, calls: [] });
    },
  );

  test("svc db disable, confirmed by a person", async () => {
    const answers = {
      [`DELETE ${base}`]: ok({ channel: "preview", engine: "postgres", databaseId, status: "dropping" }, 202),
    };
    await using api = await startApi(answers);
    await using directory = await aDirectory({ ".svc/state.json": state });
    const env = { SVC_TOKEN: "svc_key-secret", SVC_API_URL: api.url };
    const typed = (text: string) =>
      runAtTerminal(["db", "disable", "--channel", "preview"], { cwd: directory.path, env, typed: text });
    expect((await typed("production\r")).status).toBe(6);
    expect(api.seen).toEqual([]);
    expect((await typed("preview\r")).status).toBe(0);
    expect(api.seen.map(({ method, path }) => `${method} ${path}`)).toEqual([`DELETE ${base}?channel=preview`]);
  });

  test("svc db rotate-credentials --yes shows no secret", async () => {
    const ended = await run(["db", "rotate-credentials", "--yes", "--json"], {
      [`POST ${base}/rotate-credentials`]: ok(
        { channel: "production", engine: "postgres", status: "rotating", note: "Deploy again." },
        202,
      ),
    });
    expect(envelopeOf(ended)).toMatchObject({ project, status: "rotating", note: "Deploy again." });
  });

  test("svc db backup delete --yes", async () => {
    const ended = await run(["db", "backup", "delete", backupId, "--yes", "--json"], {
      [`GET ${base}/backups/${backupId}`]: ok({ backup: aBackup() }),
      [`DELETE ${base}/backups/${backupId}`]: ok({ deleted: true }),
    });
    expect(envelopeOf(ended)).toMatchObject({
      project,
      channel: "production",
      engine: "postgres",
      backupId,
      deleted: true,
    });
  });
});

describe.concurrent("svc db backup schedule", () => {
  const settings = `${base}/settings`;
  const problem = { channel: "dev", night: at, problem: "The plan keeps 3 backups" };
  const backups = { channels: ["production", "dev"], keep: 3 };

  test("is set for channels, each named by itself or all after one --channel", async () => {
    for (const channels of [
      ["--channel", "production", "dev"],
      ["--channel", "production", "--channel", "dev"],
    ]) {
      const ended = await run(["db", "backup", "schedule", "--keep", "3", ...channels, "--json"], {
        [`PUT ${settings}`]: ok({ backups, backupProblems: [] }),
      });
      expect(envelopeOf(ended)).toEqual({
        ...{ ok: true, operation: "db.backup.schedule", warnings: [], project, backups, backupProblems: [] },
      });
      expect(bodyOf(ended.seen, "PUT")).toEqual({ backups });
    }
  });

  test("is of production alone unless said otherwise, and shown with what went wrong", async () => {
    const ended = await run(["db", "backup", "schedule", "--keep", "3"], {
      [`PUT ${settings}`]: ok({ backups: { channels: ["production"], keep: 3 }, backupProblems: [problem] }),
    });
    expect(bodyOf(ended.seen, "PUT")).toEqual({ backups: { channels: ["production"], keep: 3 } });
    expect(ended.stdout).toMatch(/production, every night, the newest 3/);
    expect(ended.stdout).toMatch(/dev in the night of 2030-01-01: The plan keeps 3 backups/);
  });

  test("is ended with off, and shown without anything", async () => {
    const off = ok({ backups: null, backupProblems: [] });
    const ended = await run(["db", "backup", "schedule", "off", "--json"], { [`PUT ${settings}`]: off });
    expect(bodyOf(ended.seen, "PUT")).toEqual({ backups: null });
    const shown = await run(["db", "backup", "schedule"], { [`GET ${settings}`]: off });
    expect(shown.calls).toEqual([`GET ${settings}`]);
    expect(shown.stdout).toMatch(/--keep/);
  });

  test.each([[["off", "--keep", "3"]], [["weekly"]], [["--channel", "dev"]], [["--keep", "0"]]])(
    "refuses %j before it asks anything",
    async (args) => {
      const ended = await run(["db", "backup", "schedule", ...args, "--json"], {});
      expect(envelopeOf(ended)).toMatchObject({ ok: false, error: { code: "CLI_INVALID_USAGE" } });
      expect(ended.calls).toEqual([]);
    },
  );
});

describe.concurrent("svc db backup", () => {
  test("create waits until it is complete", async () => {
    const ended = await run(["db", "backup", "create", "--json"], {
      [`POST ${base}/backups`]: ok({ channel: "production", engine: "postgres", backupId, status: "pending" }, 202),
      [`GET ${base}/backups`]: [
        ok({ backups: [aBackup({ status: "running", sizeBytes: 0, completedAt: null })], problems: [] }),
        ok({ backups: [aBackup()], problems: [] }),
      ],
    });
    expect(envelopeOf(ended)).toMatchObject({
      operation: "db.backup.create",
      project,
      backupId,
      status: "complete",
      sizeBytes: 9,
    });
  });

  test("create tells why one failed, and that another is under way", async () => {
    const pending = ok({ channel: "production", engine: "postgres", backupId, status: "pending" }, 202);
    const failed = await run(["db", "backup", "create", "--json"], {
      [`POST ${base}/backups`]: pending,
      [`GET ${base}/backups`]: ok({ backups: [aBackup({ status: "failed", error: "disk full" })], problems: [] }),
    });
    expect(envelopeOf(failed)).toMatchObject({
      error: { code: "CLOUD_REQUEST_FAILED", message: "The backup failed: disk full" },
    });
    const busy = await run(["db", "backup", "create", "--json"], {
      [`POST ${base}/backups`]: refusal(409, "BACKUP_IN_PROGRESS"),
    });
    expect(envelopeOf(busy)).toMatchObject({
      error: { code: "CLOUD_REQUEST_FAILED", message: expect.stringContaining("BACKUP_IN_PROGRESS") },
    });
  });

  test("download writes the file whole", async () => {
    const ended = await run(["db", "backup", "download", backupId, "--json"], {
      [`GET ${base}/backups/${backupId}`]: ok({ backup: aBackup() }),
      [`GET ${base}/backups/${backupId}/download`]: { body: "some data", headers: { "content-length": "9" } },
    });
    expect(envelopeOf(ended)).toMatchObject({
      backupId,
      path: expect.stringMatching(/\/shop\.sql\.gz$/),
      sizeBytes: 9,
    });
    expect(ended.written).toBe("some data");
    expect(createHash("sha256").update(ended.stdout).digest("hex")).not.toContain("some data");
  });

  test.each([
    ["one that is not complete", refusal(409, "BACKUP_NOT_READY"), "CLOUD_REQUEST_FAILED"],
    ["a connection that is cut", hangUp, "CLOUD_UNAVAILABLE"],
  ])("download leaves nothing of %s", async (_what, answer, code) => {
    const ended = await run(["db", "backup", "download", backupId, "--json"], {
      [`GET ${base}/backups/${backupId}`]: ok({ backup: aBackup() }),
      [`GET ${base}/backups/${backupId}/download`]: answer,
    });
    expect(envelopeOf(ended)).toMatchObject({ error: { code } });
    expect(ended.written).toBeNull();
  });
});

test("a platform that says no more of a database than that it is there is understood", async () => {
  const { reason: _reason, readOnly: _readOnly, protection: _protection, ...said } = branch();
  const views = [{ name: "v", columns: table.columns }];
  const answers = {
    [`GET ${base}`]: ok(said),
    [`GET ${base}/schema`]: ok({ channel: "production", engine: "postgres", tables: [table], views }),
    [`GET ${base}/backups`]: ok({ backups: [aBackup()] }),
  };
  for (const args of [["status"], ["schema"], ["tables"], ["backup", "list"]])
    expect(envelopeOf(await run(["db", ...args, "--json"], answers))).toMatchObject({ ok: true, engine: "postgres" });
});

describe.concurrent("what svc db migrate refuses", () => {
  test("a damaged link to a project, before anything is applied", async () => {
    const ended = await run(
      ["db", "migrate", "--json"],
      {},
      {
        files: { ".svc/migrations/1.sql": "select 1", ".svc/state.json": "{" },
        env: { PATH: "/nowhere", DATABASE_URL: "postgres://u:secret-word@127.0.0.1:1/x" },
      },
    );
    expect(envelopeOf(ended)).toMatchObject({ error: { code: "CONFIG_INVALID" } });
  });

  test("a directory that is not there", async () => {
    const ended = await run(["db", "migrate", "--dir", "none", "--json"], {});
    expect(envelopeOf(ended)).toMatchObject({ error: { code: "CLI_INVALID_USAGE" } });
    expect(ended).toMatchObject({ status: 2, calls: [] });
  });

  test("a machine without the client, with what to install", async () => {
    const ended = await run(
      ["db", "migrate", "--json"],
      {},
      {
        files: { ".svc/migrations/1.sql": "select 1" },
        env: { PATH: "/nowhere", DATABASE_URL: "postgres://u:secret-word@127.0.0.1:1/x" },
      },
    );
    expect(envelopeOf(ended)).toMatchObject({
      error: { code: "DATABASE_NOT_READY", message: expect.stringContaining("postgresql-client") },
    });
  });

  test("a channel without a database, with how it gets one; and a project that is gone as that", async () => {
    const absent = { [`POST ${base}/dev-credentials`]: refusal(404, "NOT_FOUND", "This channel has no database.") };
    const files = { ".svc/migrations/1.sql": "select 1" };
    const migrate = ["db", "migrate", "--channel", "preview", "--json"];
    const known = { [`GET /api/v1/projects/${projectId}`]: ok({ project: aProject(), deployments: [] }) };
    expect(envelopeOf(await run(migrate, { ...absent, ...known }, { files }))["error"]).toEqual({
      code: "DATABASE_NOT_READY",
      message: "The preview database of shop does not exist",
      hint: "Create it with `svc db branch preview`",
    });
    const gone = { [`GET /api/v1/projects/${projectId}`]: refusal(404, "NOT_FOUND", "Not found, or not yours.") };
    const ended = await run(migrate, { ...absent, ...gone }, { files });
    expect(envelopeOf(ended)).toMatchObject({
      error: { code: "CLOUD_NOT_FOUND", hint: expect.stringContaining("unlink") },
    });
  });

  test("a DATABASE_URL that leads nowhere, without its password", async () => {
    const ended = await run(
      ["db", "migrate", "--json"],
      {},
      {
        files: { ".svc/migrations/1.sql": "select 1" },
        env: { DATABASE_URL: "postgres://u:secret-word@127.0.0.1:1/x" },
      },
    );
    expect(envelopeOf(ended)).toMatchObject({ error: { code: "DATABASE_NOT_READY" } });
    expect(ended.stdout + ended.stderr).not.toContain("secret-word");
    expect(ended.calls).toEqual([]);
  });
});

describe.concurrent("svc deploy with a database", () => {
  const manifest = "version: 2\napp: { name: Shop, type: ssr }\ndatabase: { enabled: true }\n";
  const answers: Routes = {
    [`GET /api/v1/projects/${projectId}`]: ok({ project: aProject({ type: "ssr" }), deployments: [] }),
    [`POST /api/v1/projects/${projectId}/deployments`]: refusal(422, "VALIDATION", "Stop here."),
  };
  const files = { "svc.yml": manifest, "package.json": "{}" };

  test("makes the one of the channel before it sends anything", async () => {
    const ended = await run(
      ["deploy", "--preview", "--json"],
      {
        ...answers,
        [`POST ${base}`]: made("provisioning"),
        [`GET ${base}`]: [
          ok(branch({ enabled: false, status: null })),
          ok(branch({ status: "provisioning" })),
          ok(branch()),
        ],
      },
      { files },
    );
    const order = ended.calls.filter((call) => call.startsWith("POST"));
    expect(order).toEqual([`POST ${base}?channel=preview`, expect.stringContaining("/deployments")]);
    expect(bodyOf(ended.seen, "POST")).toEqual({ engine: "postgres" });
  });

  test.each<[who: string, args: string[], post: object]>([
    ["--project", ["--project", projectId], made("provisioning")],
    ["a key that may only deploy", [], refusal(403, "FORBIDDEN_SCOPE")],
  ])("makes none with %s", async (_who, args, post) => {
    const ended = await run(
      ["deploy", "--json", ...args],
      { ...answers, [`POST ${base}`]: post as never, [`GET ${base}`]: ok(branch({ enabled: false, status: null })) },
      { files },
    );
    expect(envelopeOf(ended)).toMatchObject({
      error: { code: "DATABASE_NOT_READY", hint: expect.stringContaining("svc db branch production") },
    });
    expect(ended.calls.some((call) => call.includes("/deployments"))).toBe(false);
  });
});
