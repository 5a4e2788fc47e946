// @pure
/** Of the schema that everybody sees: the one that the studio shows. */
const schema = "public";

const table = `c.relkind in ('r', 'p') and n.nspname = '${schema}'`;

/** Columns that can be named, in their order. Of a domain the type is that which it is made of. */
const columns = (of: string) => `
  select pg_catalog.json_agg(pg_catalog.json_build_object(
      'name', a.attname, 'dataType', pg_catalog.format_type(a.atttypid, a.atttypmod),
      'typeId', (case t.typtype when 'd' then t.typbasetype else t.oid end)::pg_catalog.int8,
      'isGenerated', a.attgenerated <> '', 'nullable', not a.attnotnull, 'default', pg_catalog.pg_get_expr(d.adbin, d.adrelid),
      'isPrimaryKey', exists (
        select from pg_catalog.unnest(pk.indkey::pg_catalog.int2[]) with ordinality as k (attnum, place)
        where k.attnum = a.attnum and k.place <= pk.indnkeyatts)
    ) order by a.attnum)
  from pg_catalog.pg_attribute a
    join pg_catalog.pg_type t on t.oid = a.atttypid
    left join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    left join pg_catalog.pg_index pk on pk.indrelid = a.attrelid and pk.indisprimary
  where a.attrelid = ${of} and a.attnum > 0 and not a.attisdropped`;

const primaryKey = (of: string) => `
  select pg_catalog.json_agg(a.attname order by k.place)
  from pg_catalog.pg_index i
    cross join pg_catalog.unnest(i.indkey::pg_catalog.int2[]) with ordinality as k (attnum, place)
    join pg_catalog.pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum
  where i.indrelid = ${of} and i.indisprimary and k.place <= i.indnkeyatts`;

/** The table whose name is $1, as one JSON text; no row when there is none. */
export const oneTable = `
  select pg_catalog.json_build_object(
    'schema', n.nspname, 'name', c.relname, 'approxRows', greatest(c.reltuples, 0)::pg_catalog.int8,
    'columns', coalesce((${columns("c.oid")}), '[]'::pg_catalog.json),
    'primaryKey', coalesce((${primaryKey("c.oid")}), '[]'::pg_catalog.json))::pg_catalog.text
  from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  where ${table} and c.relname = $1::pg_catalog.text`;

const indexes = `
  select pg_catalog.json_agg(pg_catalog.json_build_object(
      'name', x.relname, 'definition', pg_catalog.pg_get_indexdef(i.indexrelid)) order by x.relname)
  from pg_catalog.pg_index i join pg_catalog.pg_class x on x.oid = i.indexrelid
  where i.indrelid = c.oid`;

const names = (of: string, numbers: string) => `
  select pg_catalog.json_agg(a.attname order by k.place)
  from pg_catalog.unnest(${numbers}) with ordinality as k (attnum, place)
    join pg_catalog.pg_attribute a on a.attrelid = ${of} and a.attnum = k.attnum`;

/** Where the other table is in parts, Postgres has one for each part besides, which comes from that for the whole. */
const foreignKeys = `
  select pg_catalog.json_agg(pg_catalog.json_build_object(
      'name', f.conname, 'referencedTable', r.relname, 'definition', pg_catalog.pg_get_constraintdef(f.oid),
      'columns', coalesce((${names("f.conrelid", "f.conkey")}), '[]'::pg_catalog.json),
      'referencedColumns', coalesce((${names("f.confrelid", "f.confkey")}), '[]'::pg_catalog.json)) order by f.conname)
  from pg_catalog.pg_constraint f join pg_catalog.pg_class r on r.oid = f.confrelid
  where f.conrelid = c.oid and f.contype = 'f' and not exists (
    select from pg_catalog.pg_constraint p where p.oid = f.conparentid and p.conrelid = f.conrelid)`;

/** One JSON text for each table, in the order of names; at most $1. */
export const allTables = `
  select pg_catalog.json_build_object(
    'name', c.relname, 'approxRowCount', greatest(c.reltuples, 0)::pg_catalog.int8,
    'sizeBytes', pg_catalog.pg_total_relation_size(c.oid),
    'columns', coalesce((${columns("c.oid")}), '[]'::pg_catalog.json),
    'indexes', coalesce((${indexes}), '[]'::pg_catalog.json),
    'foreignKeys', coalesce((${foreignKeys}), '[]'::pg_catalog.json))::pg_catalog.text
  from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  where ${table} order by c.relname limit $1::pg_catalog.int8`;

/** One JSON text for each view, materialised ones among them. */
export const allViews = `
  select pg_catalog.json_build_object(
    'name', c.relname, 'columns', coalesce((${columns("c.oid")}), '[]'::pg_catalog.json),
    'definition', coalesce(pg_catalog.pg_get_viewdef(c.oid), ''))::pg_catalog.text
  from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  where c.relkind in ('v', 'm') and n.nspname = '${schema}' order by c.relname limit $1::pg_catalog.int8`;

/** As RFC 3339. */
export const serverNow = `
  select pg_catalog.to_char(pg_catalog.clock_timestamp() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`;

const countedBytesMax = 64 * 1024 * 1024;

/**
 * Tables of which a restored copy has every row, the largest first, at most $1: schema, name, counter, and the statement that
 * counts the rows, null where that would take long, or not show all of them or others as well. What is written is counted at
 * the end of its transaction or some time later.
 */
export const counters = `
  select n.nspname::pg_catalog.text, c.relname::pg_catalog.text,
    pg_catalog.concat_ws('/', pg_catalog.pg_stat_get_tuples_inserted(c.oid), pg_catalog.pg_stat_get_tuples_updated(c.oid),
      pg_catalog.pg_stat_get_tuples_deleted(c.oid), c.relfilenode,
      extract(epoch from pg_catalog.pg_postmaster_start_time())),
    case when pg_catalog.pg_relation_size(c.oid) <= ${countedBytesMax}
        and pg_catalog.has_table_privilege(c.oid, 'select')
        and (not c.relrowsecurity or (pg_catalog.pg_has_role(c.relowner, 'usage') and not c.relforcerowsecurity))
        and not exists (select from pg_catalog.pg_inherits i where i.inhparent = c.oid)
      then pg_catalog.format('select pg_catalog.count(*) from %I.%I', n.nspname, c.relname) end
  from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  where c.relkind = 'r' and c.relpersistence = 'p'
    and n.nspname <> 'information_schema' and n.nspname::pg_catalog.text !~ '^pg_'
  order by coalesce(pg_catalog.pg_relation_size(c.oid), 0) desc, n.nspname, c.relname
  limit $1::pg_catalog.int4`;
