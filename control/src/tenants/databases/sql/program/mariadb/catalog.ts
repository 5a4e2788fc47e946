// @pure
import type { SqlValue } from "../../requests.ts";
import type { ColumnShape, TableShape } from "../row-sql.ts";

/** A text within SQL that is of letters and digits alone, whatever it holds and however the session reads quotes. */
export const textLiteral = (hexadecimal: string): string =>
  hexadecimal === "" ? "''" : `convert(0x${hexadecimal} using utf8mb4)`;

/** What has rows of its own. */
const base = "t.TABLE_SCHEMA = database() and t.TABLE_TYPE in ('BASE TABLE', 'SYSTEM VERSIONED')";
/** The catalog compares names without regard to case, and tables have their case. */
const named = (column: string, literal: string) => `binary ${column} = binary ${literal}`;
const only = (literal: string | null) => (literal === null ? "" : ` and ${named("t.TABLE_NAME", literal)}`);

/** Tables by name; with a literal that one alone. */
export const tables = (literal: string | null, max: number): string => `
  select t.TABLE_SCHEMA, t.TABLE_NAME, coalesce(t.TABLE_ROWS, 0),
    cast(coalesce(t.DATA_LENGTH, 0) + coalesce(t.INDEX_LENGTH, 0) as char)
  from information_schema.TABLES t where ${base}${only(literal)} order by binary t.TABLE_NAME limit ${max}`;

export const views = (max: number): string => `
  select v.TABLE_NAME, v.VIEW_DEFINITION from information_schema.VIEWS v
  where v.TABLE_SCHEMA = database() order by binary v.TABLE_NAME limit ${max}`;

/** What keeps the rows of a table. */
export const storageOf = (literal: string): string =>
  `select t.ENGINE from information_schema.TABLES t where t.TABLE_SCHEMA = database()${only(literal)}`;

/** Of tables and views. */
export const columns = (literal: string | null): string => `
  select t.TABLE_NAME, t.COLUMN_NAME, t.COLUMN_TYPE, t.IS_NULLABLE, t.COLUMN_DEFAULT, t.DATA_TYPE, t.IS_GENERATED
  from information_schema.COLUMNS t where t.TABLE_SCHEMA = database()${only(literal)}
  order by binary t.TABLE_NAME, t.ORDINAL_POSITION`;

export const indexes = (literal: string | null): string => `
  select t.TABLE_NAME, t.INDEX_NAME, t.NON_UNIQUE, t.INDEX_TYPE, t.COLUMN_NAME, t.SUB_PART
  from information_schema.STATISTICS t where t.TABLE_SCHEMA = database()${only(literal)}
  order by binary t.TABLE_NAME, t.INDEX_NAME = 'PRIMARY' desc, binary t.INDEX_NAME, t.SEQ_IN_INDEX`;

export const foreignKeys = `
  select k.TABLE_NAME, k.CONSTRAINT_NAME, k.COLUMN_NAME, k.REFERENCED_TABLE_NAME, k.REFERENCED_COLUMN_NAME,
    r.UPDATE_RULE, r.DELETE_RULE
  from information_schema.KEY_COLUMN_USAGE k
    join information_schema.REFERENTIAL_CONSTRAINTS r
      on r.CONSTRAINT_SCHEMA = k.CONSTRAINT_SCHEMA and r.CONSTRAINT_NAME = k.CONSTRAINT_NAME and r.TABLE_NAME = k.TABLE_NAME
  where k.TABLE_SCHEMA = database() and k.REFERENCED_TABLE_NAME is not null
  order by binary k.TABLE_NAME, binary k.CONSTRAINT_NAME, k.ORDINAL_POSITION`;

/** As RFC 3339; sessions are of UTC. */
export const serverNow = "select date_format(now(6), '%Y-%m-%dT%H:%i:%s.%fZ')";

const countedBytesMax = 64 * 1024 * 1024;
/** A server that has more open forgets when they were written to. */
const rememberedMax = 300;

/**
 * Tables of which a restored copy has every row, the largest first: schema, name, counter, and the statement that counts the rows,
 * null where that would take long. When a table was written to is known to the second and since the server started: what was
 * written this very moment may be followed by more that nobody could tell from it.
 */
export const counters = (max: number): string => `
  select t.TABLE_SCHEMA, t.TABLE_NAME,
    case when t.UPDATE_TIME > now() - interval 2 second
        or (select count(*) from information_schema.TABLES where TABLE_SCHEMA = database()) > ${rememberedMax} then null
      else concat_ws('/', coalesce(t.UPDATE_TIME, 'never'), t.CREATE_TIME,
        (select unix_timestamp() - VARIABLE_VALUE from information_schema.GLOBAL_STATUS where VARIABLE_NAME = 'UPTIME')) end,
    case when coalesce(t.DATA_LENGTH, 0) <= ${countedBytesMax}
      then concat('select count(*) from \`', replace(t.TABLE_NAME, '\`', '\`\`'), '\`') end
  from information_schema.TABLES t
  where t.TABLE_SCHEMA = database() and t.TABLE_TYPE = 'BASE TABLE' and t.ENGINE = 'InnoDB'
  order by coalesce(t.DATA_LENGTH, 0) desc, binary t.TABLE_NAME limit ${max}`;

type Row = readonly SqlValue[];
const text = (value: SqlValue | undefined): string => String(value ?? "");
const quote = (name: string): string => `\`${name.replaceAll("`", "``")}\``;

const byteTypes = new Set([
  ...["binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "vector", "geometry"],
  ...["point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection"],
]);

/** JSON is `longtext` here, which takes any text. */
const holdsOf = (dataType: string): ColumnShape["holds"] => {
  if (byteTypes.has(dataType)) return "bytes";
  if (dataType === "bit") return "bits";
  return dataType === "longtext" ? "json" : "other";
};

/** What the three questions about one table gave; null when there is no such table. */
export function tableShape(
  table: Row | undefined,
  columnRows: readonly Row[],
  indexRows: readonly Row[],
): TableShape | null {
  if (table === undefined) return null;
  return {
    schema: text(table[0]),
    name: text(table[1]),
    approxRows: Number(table[2]),
    columns: columnRows.map((row) => ({
      ...{ name: text(row[1]), dataType: text(row[2]), holds: holdsOf(text(row[5])) },
      isGenerated: row[6] === "ALWAYS",
    })),
    primaryKey: primaryKeyOf(indexRows),
  };
}

const primaryKeyOf = (indexRows: readonly Row[]): string[] =>
  indexRows.filter((row) => row[1] === "PRIMARY").map((row) => text(row[4]));

const groupsOf = (rows: readonly Row[], key: (row: Row) => string): Row[][] => [...Map.groupBy(rows, key).values()];

/** By its indexes: of a table without a primary key the catalog calls those of another unique one so. */
function columnsOf(rows: readonly Row[], indexRows: readonly Row[]) {
  const primaryKey = new Set(primaryKeyOf(indexRows));
  return rows.map(([, name, dataType, nullable, fallback]) => ({
    name: text(name),
    dataType: text(dataType),
    nullable: nullable === "YES",
    default: fallback === null || fallback === undefined ? null : text(fallback),
    isPrimaryKey: primaryKey.has(text(name)),
  }));
}

/** As `show create table` has it. */
function indexOf(rows: readonly Row[]) {
  const [first = []] = rows;
  const [, name, nonUnique, type] = first;
  const parts = rows.map(
    (row) => `${quote(text(row[4]))}${row[5] === null || row[5] === undefined ? "" : `(${row[5]})`}`,
  );
  const special = ["FULLTEXT", "SPATIAL"].includes(text(type)) ? `${text(type)} ` : "";
  const kind = Number(nonUnique) === 0 ? "UNIQUE KEY" : `${special}KEY`;
  const head = name === "PRIMARY" ? "PRIMARY KEY" : `${kind} ${quote(text(name))}`;
  return { name: text(name), definition: `${head} (${parts.join(",")})` };
}

function foreignKeyOf(rows: readonly Row[]) {
  const [[, name, , table, , onUpdate, onDelete] = []] = rows;
  const columns = rows.map((row) => text(row[2]));
  const referencedColumns = rows.map((row) => text(row[4]));
  const list = (names: readonly string[]) => `(${names.map(quote).join(",")})`;
  const rules = `ON DELETE ${text(onDelete)} ON UPDATE ${text(onUpdate)}`;
  const definition = `FOREIGN KEY ${list(columns)} REFERENCES ${quote(text(table))} ${list(referencedColumns)} ${rules}`;
  return { name: text(name), columns, referencedTable: text(table), referencedColumns, definition };
}

/** What the five questions about a whole database gave. */
export function schemaOf(found: {
  tables: readonly Row[];
  views: readonly Row[];
  columns: readonly Row[];
  indexes: readonly Row[];
  foreignKeys: readonly Row[];
}) {
  const of = (rows: readonly Row[]) => Map.groupBy(rows, (row) => text(row[0]));
  const [columns, indexes, foreignKeys] = [of(found.columns), of(found.indexes), of(found.foreignKeys)];
  return {
    tables: found.tables.map(([, tableName, rows, size]) => {
      const name = text(tableName);
      return {
        name,
        approxRowCount: Number(rows),
        sizeBytes: Number(size),
        columns: columnsOf(columns.get(name) ?? [], indexes.get(name) ?? []),
        indexes: groupsOf(indexes.get(name) ?? [], (row) => text(row[1])).map(indexOf),
        foreignKeys: groupsOf(foreignKeys.get(name) ?? [], (row) => text(row[1])).map(foreignKeyOf),
      };
    }),
    views: found.views.map(([viewName, definition]) => {
      const name = text(viewName);
      return { name, columns: columnsOf(columns.get(name) ?? [], []), definition: text(definition) };
    }),
  };
}
