import { readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { aProject, hangUp, ok, projectId, type Routes, refusal, startApi } from "../testing/api.ts";
import { aDirectory, envelopeOf, type SvcOptions, svc } from "../testing/svc.ts";

const state = JSON.stringify({ project: { id: projectId, slug: "shop" } });
const project = { id: projectId, slug: "shop" };
const base = `/api/v1/projects/${projectId}/database`;
const ready: Routes = {
  [`GET ${base}`]: ok({
    ...{ channel: "production", engine: "mariadb", enabled: true, status: "ready", sizeBytes: 0, sizeLimitMb: 1024 },
    ...{ connectionLimit: 20, reason: null, readOnly: false, protection: "local" },
  }),
};

/** What is in a linked directory with `files` after svc ran there. */
async function run(
  args: string[],
  answers: Routes,
  { files = {}, ...more }: Partial<SvcOptions> & { files?: Record<string, string | Buffer> } = {},
) {
  await using api = await startApi({ ...ready, ...answers });
  await using directory = await aDirectory({ ".svc/state.json": state });
  for (const [name, content] of Object.entries(files)) await writeFile(join(directory.path, name), content);
  const env = { SVC_TOKEN: "svc_key-secret", SVC_API_URL: api.url, ...more.env };
  const ended = await svc(["db", ...args], { cwd: directory.path, ...more, env });
  const names = (await readdir(directory.path)).filter((name) => !name.startsWith("."));
  const left = Object.fromEntries(
    await Promise.all(names.map(async (name) => [name, await readFile(join(directory.path, name), "utf8")] as const)),
  );
  const modes = await Promise.all(names.map(async (name) => (await stat(join(directory.path, name))).mode & 0o777));
  return { ...ended, left, modes, seen: api.seen, calls: api.seen.map(({ method, path }) => `${method} ${path}`) };
}

describe.concurrent("svc db export", () => {
  const route = `GET ${base}/tables/orders/export`;

  test("writes the file whole, for its owner alone, in the place of one of its name", async () => {
    const files = { "orders.csv": "older" };
    const ended = await run(["export", "orders", "--json"], { [route]: { body: "id\n1\n" } }, { files });
    expect(envelopeOf(ended)).toEqual({
      ...{ ok: true, operation: "db.export", warnings: [], project, channel: "production", engine: "mariadb" },
      ...{ table: "orders", format: "csv", path: expect.stringMatching(/\/orders\.csv$/), sizeBytes: 5 },
    });
    expect(ended).toMatchObject({ left: { "orders.csv": "id\n1\n" }, modes: [0o600] });
    expect(ended.calls).toEqual([`GET ${base}?channel=production`, expect.stringContaining("/tables/orders/export?")]);
    expect(ended.calls[1]).toMatch(/channel=production/);
    expect(ended.calls[1]).toMatch(/format=csv/);
  });

  test("names tables of any name, and their files harmlessly", async () => {
    const table = "../a b/é?";
    const path = `${base}/tables/${encodeURIComponent(table)}/export`;
    const ended = await run(["export", table, "--format", "sql", "--channel", "preview"], {
      [`GET ${path}`]: { body: "insert into" },
    });
    expect(ended).toMatchObject({ status: 0, left: { "___a_b___.sql": "insert into" } });
    expect(ended.stdout).toMatch(/Wrote .*___a_b___\.sql, 11 B/);
  });

  test("takes a file or a directory for it", async () => {
    const body = { body: "[]\n" };
    const named = await run(["export", "orders", "--format", "json", "-o", "mine.json"], { [route]: body });
    expect(named.left).toEqual({ "mine.json": "[]\n" });
    const nowhere = await run(["export", "orders", "-o", "none/mine.csv", "--json"], { [route]: body });
    expect(envelopeOf(nowhere)).toMatchObject({ error: { code: "CLI_INVALID_USAGE" } });
    expect(nowhere.calls).not.toContain(expect.stringContaining("export"));
  });

  test.each([
    { when: "the table is unknown", answer: refusal(404, "TABLE_NOT_FOUND", "No table."), code: "CLOUD_NOT_FOUND" },
    { when: "the database is not ready", answer: refusal(409, "DATABASE_NOT_READY"), code: "DATABASE_NOT_READY" },
    { when: "nothing comes", answer: hangUp, code: "CLOUD_UNAVAILABLE" },
    {
      when: "it breaks off in the middle",
      answer: { body: "id\n1\n", headers: { "content-length": "900" } },
      code: "CLOUD_UNAVAILABLE",
    },
  ])("leaves what was there, and no part, when $when", async ({ answer, code }) => {
    const files = { "orders.csv": "older" };
    const ended = await run(["export", "orders", "--json"], { [route]: answer }, { files });
    expect(envelopeOf(ended)).toMatchObject({ ok: false, error: { code } });
    expect(ended.left).toEqual(files);
  });

  test("says of a table that is unknown where the tables are, and not how to make a database", async () => {
    const known = { [`GET /api/v1/projects/${projectId}`]: ok({ project: aProject(), deployments: [] }) };
    const unknown = { [route]: refusal(404, "TABLE_NOT_FOUND", "No table.") };
    const { error } = envelopeOf(await run(["export", "orders", "--json"], { ...known, ...unknown }));
    expect(error).toMatchObject({ code: "CLOUD_NOT_FOUND", hint: expect.stringContaining("`svc db tables`") });
  });

  test("knows its formats before it asks anything", async () => {
    const ended = await run(["export", "orders", "--format", "xlsx", "--json"], {});
    expect(envelopeOf(ended)).toMatchObject({ error: { code: "CLI_INVALID_USAGE" } });
    expect(ended.calls).toEqual([]);
  });
});

describe.concurrent("svc db import", () => {
  const route = `POST ${base}/tables/orders/import`;
  const files = { "orders.csv": Buffer.from('\ufeffid,note\r\n1,"é\n""x"""\r\n') };

  test("sends the file as it is, and says how many rows there are now", async () => {
    const reply = ok({ channel: "dev", engine: "postgres", rowCount: 1, durationMs: 3 });
    const args = ["import", "orders", "orders.csv", "--channel", "dev"];
    const ended = await run([...args, "--json"], { [route]: reply }, { files });
    expect(envelopeOf(ended)).toEqual({
      ...{ ok: true, operation: "db.import", warnings: [], project, table: "orders" },
      ...{ channel: "dev", engine: "postgres", rowCount: 1, durationMs: 3 },
    });
    expect(ended.calls).toEqual([`POST ${base}/tables/orders/import?channel=dev`]);
    const [sent] = ended.seen;
    expect(sent?.body).toEqual(files["orders.csv"]);
    expect(sent?.headers).toMatchObject({ "content-type": "text/csv", "content-length": `${sent?.body.length}` });
    expect((await run(args, { [route]: reply }, { files })).stdout).toMatch(/Inserted 1 row into orders/);
  });

  test.each([
    { when: "a line is refused", answer: refusal(400, "QUERY_ERROR", "Line 7: no."), says: /Line 7: no\./ },
    { when: "a column is unknown", answer: refusal(400, "COLUMN_NOT_FOUND", "No column x."), says: /No column x/ },
    { when: "the plan has no room", answer: refusal(403, "QUOTA_EXCEEDED", "Larger than 9."), says: /Larger than 9/ },
  ])("tells what the platform says when $when", async ({ answer, says }) => {
    const ended = await run(["import", "orders", "orders.csv"], { [route]: answer }, { files });
    expect(ended.status).not.toBe(0);
    expect(ended.stderr).toMatch(says);
  });

  test.each([["none.csv"], ["."]])("refuses %s before anything is asked", async (file) => {
    const ended = await run(["import", "orders", file, "--json"], {}, { files });
    expect(envelopeOf(ended)).toMatchObject({ error: { code: "CLI_INVALID_USAGE" } });
    expect(ended).toMatchObject({ status: 2, calls: [] });
  });
});

test("help tells what is null in a CSV, and completions know both", async () => {
  for (const name of ["export", "import"]) {
    const { stdout } = await run([name, "--help"], {});
    expect(stdout).toMatch(/nothing between commas is\s+null/i);
  }
  const { stdout } = await svc(["__complete", "db", ""], { cwd: "/" });
  expect(stdout).toMatch(/export/);
  expect(stdout).toMatch(/import/);
});
