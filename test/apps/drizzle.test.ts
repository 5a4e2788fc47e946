import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { repositoryRoot } from "@svc/deploy/paths";
import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { type Cluster, startCluster } from "../cluster.ts";
import { edgeFetch } from "../support/edge.ts";

/** An app whose tables are an ORM's and whose release command is that ORM's migrator, by the command line alone. */

/** A build has 15 minutes; everything around it is quick. */
const deployMs = 17 * 60_000;

let cluster: Cluster;
let cwd = "";
/** Where the site is, from its first deploy on. */
let production = "";
beforeAll(async () => {
  cwd = await mkdtemp(join(tmpdir(), "svc-drizzle-"));
  await cp(join(repositoryRoot, "test", "apps", "drizzle"), cwd, { recursive: true });
  cluster = await startCluster({ agents: 1, control: { SVC_DRAIN_SECONDS: "0.25" } });
});
afterAll(async () => {
  await cluster?.[Symbol.asyncDispose]();
  await rm(cwd, { recursive: true, force: true });
});

const deployed = z.looseObject({ ok: z.literal(true), url: z.string() });
const failed = z.looseObject({ ok: z.literal(false), error: z.looseObject({ message: z.string() }) });

const runDeploy = (channel: "preview" | "prod") => cluster.cli(["deploy", `--${channel}`, "--json"], { cwd });

async function deploy(channel: "preview" | "prod"): Promise<string> {
  const result = await runDeploy(channel);
  if (result.exitCode !== 0) throw new Error(`svc deploy: ${result.stdout}${result.stderr}`);
  return deployed.parse(result.json()).url;
}

const journalSchema = z.looseObject({ entries: z.array(z.looseObject({ when: z.number() })) });

/** Adds a migration as the ORM's own tool writes it. */
async function addMigration(name: string, sql: string): Promise<void> {
  const file = join(cwd, "drizzle", "meta", "_journal.json");
  const journal = journalSchema.parse(JSON.parse(await readFile(file, "utf8")));
  const idx = journal.entries.length;
  const tag = `000${idx}_${name}`;
  const when = (journal.entries.at(-1)?.when ?? 0) + 1;
  journal.entries.push({ idx, version: "7", when, tag, breakpoints: true });
  await writeFile(file, JSON.stringify(journal));
  await writeFile(join(cwd, "drizzle", `${tag}.sql`), sql);
}

async function declare(column: string): Promise<void> {
  const file = join(cwd, "src", "schema.js");
  await writeFile(file, (await readFile(file, "utf8")).replace("});", `  ${column},\n});`));
}

async function visit(url: string): Promise<unknown> {
  const reply = await edgeFetch(url);
  const text = await reply.text();
  return reply.status === 200 ? JSON.parse(text) : `${reply.status} ${text}`;
}

/** Every different answer of the site while `work` is under way, and once more after it. */
async function answersDuring(url: string, work: () => Promise<unknown>): Promise<unknown[]> {
  const answers = new Set<string>();
  const look = async () => answers.add(JSON.stringify(await visit(url)));
  await look();
  let isOver = false;
  const done = work().finally(() => {
    isOver = true;
  });
  while (!isOver) {
    await look();
    await delay(20);
  }
  await done;
  await look();
  return [...answers].map((answer) => JSON.parse(answer));
}

const query = async (sql: string, channel: "production" | "preview") => {
  const result = await cluster.cli(["db", "query", sql, "--channel", channel, "--json"], { cwd });
  if (result.exitCode !== 0) throw new Error(`svc db query: ${result.stdout}${result.stderr}`);
  return result.json()["rows"];
};
const appliedSql = "select count(*)::int from drizzle.__drizzle_migrations";

test("preview and production have tables and rows of their own", { timeout: 2 * deployMs }, async () => {
  const preview = await deploy("preview");
  expect(await visit(`${preview}/press/fern`)).toEqual([{ id: 1, name: "fern" }]);
  production = await deploy("prod");
  expect(production).not.toBe(preview);
  expect(await visit(production)).toEqual([]);
  expect(await visit(`${production}/press/oak`)).toEqual([{ id: 1, name: "oak" }]);
  expect(await visit(preview)).toEqual([{ id: 1, name: "fern" }]);
  expect(await query("select name from plants", "preview")).toEqual([["fern"]]);
  expect(await query("select name from plants", "production")).toEqual([["oak"]]);
});

test("a migration has run before any visitor sees what needs it", { timeout: 2 * deployMs }, async () => {
  await addMigration("height", 'ALTER TABLE "plants" ADD COLUMN "height" integer DEFAULT 3 NOT NULL;');
  await declare("height: integer().notNull()");
  const file = join(cwd, "src", "schema.js");
  await writeFile(file, (await readFile(file, "utf8")).replace("{ pgTable", "{ integer, pgTable"));
  const preview = await deploy("preview");
  expect(await visit(preview)).toEqual([{ id: 1, name: "fern", height: 3 }]);
  // Production is where it was, in its tables as well.
  expect(await query(appliedSql, "production")).toEqual([[1]]);
  const answers = await answersDuring(production, () => deploy("prod"));
  expect(answers).toEqual([[{ id: 1, name: "oak" }], [{ id: 1, name: "oak", height: 3 }]]);
});

test("a migration that fails keeps what was deployed, and leaves no part of itself", {
  timeout: deployMs,
}, async () => {
  await addMigration("colour", 'ALTER TABLE "plants" ADD COLUMN "colour" text;--> statement-breakpoint\nSELECT 1 / 0;');
  await declare("colour: text()");
  const answers = await answersDuring(production, async () => {
    const result = await runDeploy("prod");
    expect(result.exitCode).not.toBe(0);
    expect(failed.parse(result.json()).error.message).toMatch(/release/i);
  });
  expect(answers).toEqual([[{ id: 1, name: "oak", height: 3 }]]);
  expect(await query(appliedSql, "production")).toEqual([[2]]);
  expect(await visit(`${production}/press/elm`)).toEqual([
    { id: 1, name: "oak", height: 3 },
    { id: 2, name: "elm", height: 3 },
  ]);
});
