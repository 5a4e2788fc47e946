// @pure
import type { DatabaseEngine } from "@svc/proto";
import type { Address } from "./address.ts";

const table = { postgres: "public._svc_migrations", mariadb: "_svc_migrations" } as const;

const create = {
  // Of two that make it at the same moment Postgres refuses one, "if not exists" or not. It is there then.
  postgres: `do $$ begin create table if not exists ${table.postgres} (name text primary key, "appliedAt" timestamptz not null default now()); exception when unique_violation or duplicate_table then null; end $$`,
  mariadb: `create table if not exists ${table.mariadb} (name varchar(255) character set utf8mb4 collate utf8mb4_bin primary key, \`appliedAt\` datetime(3) not null default current_timestamp(3))`,
} as const satisfies Record<DatabaseEngine, string>;

/** Arguments with which a client makes the table of migrations unless there is one, and prints a name per line. */
export function listArgs(engine: DatabaseEngine): string[] {
  const list = `select name from ${table[engine]} order by name`;
  return engine === "postgres"
    ? [
        "--no-align",
        "--tuples-only",
        "--command=set client_min_messages = error",
        `--command=${create.postgres}`,
        `--command=${list}`,
      ]
    : [`--execute=${create.mariadb}; ${list}`];
}

/**
 * Arguments with which psql applies one file: in one transaction with the row that says so, and alone. It fails before the file
 * where somebody else has applied that meanwhile. The row comes last: a file that commits by itself and then fails is not taken
 * for applied.
 */
export const applyArgs = (name: string, path: string): string[] => [
  "--single-transaction",
  `--command=lock table ${table.postgres} in share row exclusive mode`,
  `--command=do $$ begin if exists (select from ${table.postgres} where name = ${literal("postgres", name)}) then raise exception 'It is applied by now'; end if; end $$`,
  `--file=${path}`,
  `--command=insert into ${table.postgres} (name) values (${literal("postgres", name)})`,
];

/**
 * With which a session of MariaDB waits until no other one migrates the same database, for up to a day, and prints 1. The lock goes
 * with the session; locks are the whole server's.
 */
export const lockMariadb = "select get_lock(concat('svc_migrate_', md5(database())), 86400);\n";

/** Arguments with which mariadb records a file that it has run: its statements commit one by one. */
export const recordArgs = (name: string): string[] => [
  `--execute=insert into ${table.mariadb} (name) values (${literal("mariadb", name)})`,
];

/** A text in SQL, whatever the server thinks of backslashes. */
export function literal(engine: DatabaseEngine, text: string): string {
  const hex = [...new TextEncoder().encode(text)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  if (engine === "mariadb") return `convert(x'${hex}' using utf8mb4)`;
  return `convert_from(decode('${hex}', 'hex'), 'UTF8')`;
}

/** Names of files that are migrations, in the order of their bytes, which is the same on every machine. */
export const inOrder = (names: readonly string[]): string[] =>
  names.filter((name) => name.endsWith(".sql")).toSorted((left, right) => (left < right ? -1 : left > right ? 1 : 0));

/** Names of which a list with a line for each would not say where one ends. */
export const unfitNames = (names: readonly string[]): string[] =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for.
  names.filter((name) => /[\u0000-\u001f\u007f]/.test(name) || name.length > 255);

/** Which migrations were applied, by the lines that a client printed. */
export const namesIn = (printed: string): ReadonlySet<string> =>
  new Set(printed.split("\n").map((line) => line.replace(/\r$/, "")));

/** What a person has to know about a file that failed. */
export const failureHint = (engine: Address["engine"], name: string): string =>
  engine === "postgres"
    ? `Nothing of ${name} was kept. Mend it, then run \`svc db migrate\` again`
    : `MariaDB keeps what ${name} did before it failed. Take that back or make the file bear being run again, then run \`svc db migrate\``;
