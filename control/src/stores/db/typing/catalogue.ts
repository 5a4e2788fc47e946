import { sql } from "kysely";
import type { Db } from "../pool.ts";

/** A column as the database's catalogue describes it. */
export interface Column {
  /** `schema.table`, without the schema when it is `public`. */
  table: string;
  name: string;
  /** Name of its type: `text`, `int8`, `_text` for an array of text. */
  type: string;
  isNullable: boolean;
  hasDefault: boolean;
  /** The database numbers it and refuses to be told. */
  isAlwaysGenerated: boolean;
  /** Definitions of the constraints on this column alone. */
  checks: string[];
}

/** Every column of svc's tables: tables by name, columns in their order. */
export async function readColumns(db: Db): Promise<Column[]> {
  const { rows } = await sql<Column>`
    select
      case nspname when 'public' then relname else nspname || '.' || relname end as "table",
      attname as name,
      typname as type,
      not attnotnull as "isNullable",
      atthasdef as "hasDefault",
      attidentity = 'a' as "isAlwaysGenerated",
      array(
        select pg_get_constraintdef(pg_constraint.oid) from pg_constraint
        where conrelid = pg_class.oid and contype = 'c' and conkey = array[attnum] order by conname
      ) as checks
    from pg_attribute
      join pg_class on pg_class.oid = attrelid
      join pg_namespace on pg_namespace.oid = relnamespace
      join pg_type on pg_type.oid = atttypid
    where relkind = 'r' and nspname in ('public', 'auth') and attnum > 0 and not attisdropped
    order by nspname = 'auth', relname collate "C", attnum`.execute(db);
  return rows;
}
