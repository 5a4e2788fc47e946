import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type AdminDatabaseDetail, adminDatabaseReply } from "@svc/proto";
import type { Cluster } from "../cluster.ts";
import { deploy } from "./deploy.ts";
import { edgeFetch } from "./edge.ts";

/** How those who run it and those who visit it see an app with notes. */
export interface NotesSite {
  /** What a command prints as JSON; fails with all that it said. */
  svc(...args: string[]): Promise<Record<string, unknown>>;
  /** What operators are shown of its database. */
  show(): Promise<AdminDatabaseDetail>;
  /** Status and body. */
  visit(path: string): Promise<string>;
}

/** Deploys an app with notes from a directory that is not there yet. */
export async function deployNotesApp(cluster: Cluster, cwd: string, app: NotesApp): Promise<NotesSite> {
  await writeNotesApp(cwd, app);
  const { url } = await deploy(cluster, cwd);
  const svc = async (...args: string[]): Promise<Record<string, unknown>> => {
    const result = await cluster.cli([...args, "--json"], { cwd });
    if (result.exitCode !== 0) throw new Error(`svc ${args.join(" ")}: ${result.stdout}${result.stderr}`);
    return result.json();
  };
  return {
    svc,
    show: async () => adminDatabaseReply.parse(await svc("admin", "db", "show", `${app.slug}/production`)).database,
    async visit(path) {
      const reply = await edgeFetch(`${url}${path}`);
      return `${reply.status} ${await reply.text()}`;
    },
  };
}

/** An app whose notes are in a managed database. */
export interface NotesApp {
  slug: string;
  engine: string;
  driver: Record<string, string>;
  /** A module that exports `ask`, which gives the rows of a statement. */
  ask: string;
  /** Makes the table of notes unless it is there. */
  table: string;
}

/** An app that counts its notes at every path, and adds one at /write. */
export async function writeNotesApp(source: string, { slug, engine, driver, ask, table }: NotesApp): Promise<void> {
  const files = {
    "svc.yml": `version: 2
slug: ${slug}
app: { name: Notes, type: ssr, port: 3000 }
start: { command: node server.js }
release: { command: node release.js }
health: { path: /health }
database: { enabled: true, engine: ${engine} }
`,
    "package.json": JSON.stringify({ name: "notes", version: "1.0.0", type: "module", dependencies: driver }),
    "ask.mjs": ask,
    "release.js": `import { ask } from "./ask.mjs";
      await ask(${JSON.stringify(table)});
      process.exit(0);`,
    "server.js": `import http from "node:http";
      import { ask } from "./ask.mjs";
      http.createServer(async ({ url }, response) => {
        if (url === "/health") return response.end("well");
        try {
          if (url === "/write") await ask("insert into notes (text) values ('a note')");
          const [{ n }] = await ask("select count(*) as n from notes");
          response.end(String(n));
        } catch (error) {
          response.writeHead(500).end(error.message);
        }
      }).listen(process.env.PORT);`,
  };
  await mkdir(source);
  for (const [name, text] of Object.entries(files)) await writeFile(join(source, name), text);
}

/** What it takes for each engine. */
export const notesApps = [
  {
    engine: "postgres",
    driver: { pg: "8.23.1" },
    ask: `import pg from "pg";
      const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
      pool.on("error", () => {});
      export const ask = async (sql) => (await pool.query(sql)).rows;`,
    table: "create table if not exists notes (id serial primary key, text text not null)",
  },
  {
    engine: "mariadb",
    driver: { mysql2: "3.24.6" },
    ask: `import mysql from "mysql2/promise";
      const pool = mysql.createPool({ uri: process.env.DATABASE_URL });
      export const ask = async (sql) => (await pool.query(sql))[0];`,
    table: "create table if not exists notes (id int auto_increment primary key, text varchar(100) not null)",
  },
] as const;
