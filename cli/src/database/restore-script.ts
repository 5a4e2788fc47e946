// @pure
import type { DatabaseEngine } from "@svc/proto";

/** How dumps begin, and what only those that came to their end have in their last lines. */
const ofDumps = {
  postgres: {
    head: /^-- PostgreSQL database( cluster)? dump\s*$/m,
    last: /^-- PostgreSQL database( cluster)? dump complete/m,
  },
  mariadb: { head: /^-- (MariaDB|MySQL) dump \d/m, last: /^-- Dump completed/m },
} as const satisfies Record<DatabaseEngine, object>;

/** Which engine wrote a dump, by how it begins; null when that does not say. */
export function engineOfDump(beginning: string): DatabaseEngine | null {
  if (ofDumps.postgres.head.test(beginning)) return "postgres";
  if (ofDumps.mariadb.head.test(beginning)) return "mariadb";
  return /^\/\*M?!999999\\- enable the sandbox mode \*\//.test(beginning) ? "mariadb" : null;
}

/** Whether a dump was cut off. One without the line that it would begin with has been made without its last one, too. */
export const isCutOff = (engine: DatabaseEngine, { beginning, end }: { beginning: string; end: string }): boolean =>
  ofDumps[engine].head.test(beginning) && !ofDumps[engine].last.test(end);

export const isGzip = (bytes: Uint8Array): boolean => bytes[0] === 0x1f && bytes[1] === 0x8b;

/**
 * What empties a database of Postgres before a dump is loaded in the same transaction: every schema that its owner made,
 * large objects, and a public schema that is new, which is what a dump expects.
 */
export const emptyPostgres = `do $svc$
declare name text; number oid;
begin
  for name in select nspname from pg_catalog.pg_namespace
    where nspname !~ '^pg_' and nspname <> 'information_schema'
      and pg_catalog.pg_has_role(nspowner, 'usage') loop
    execute pg_catalog.format('drop schema %I cascade', name);
  end loop;
  for number in select oid from pg_catalog.pg_largeobject_metadata
    where pg_catalog.pg_has_role(lomowner, 'usage') loop
    perform pg_catalog.lo_unlink(number);
  end loop;
end
$svc$;
create schema if not exists public;
`;

/** Prints the statements that empty a database of MariaDB, one a line. */
export const listDropsMariadb =
  "select concat('DROP ', case table_type when 'VIEW' then 'VIEW' when 'SEQUENCE' then 'SEQUENCE' else 'TABLE' end," +
  " ' IF EXISTS `', replace(table_name, '`', '``'), '`;') from information_schema.tables" +
  " where table_schema = database()";

/** The same statements as they are run, whatever refers to what. */
export const emptyMariadb = (drops: string): string =>
  `SET FOREIGN_KEY_CHECKS=0;\n${drops}${drops === "" || drops.endsWith("\n") ? "" : "\n"}SET FOREIGN_KEY_CHECKS=1;\n`;

/** Of a server of MariaDB, how long a statement may be, in bytes. */
export const packetLimitMariadb = "select @@max_allowed_packet";

/**
 * The releases of psql that first know \restrict, with which every further command of psql is refused, by their major
 * version. Later ones all know it.
 */
const restrictSince: Readonly<Record<number, number>> = { 13: 22, 14: 19, 15: 14, 16: 10, 17: 6 };

/** Whether the psql that says this of itself (`psql --version`) knows \restrict. */
export function knowsRestrict(version: string): boolean {
  const [, major = "0", minor = "0"] = /(\d+)\.(\d+)/.exec(version) ?? /(\d+)/.exec(version) ?? [];
  const since = restrictSince[Number(major)];
  return since === undefined ? Number(major) >= 18 : Number(minor) >= since;
}
