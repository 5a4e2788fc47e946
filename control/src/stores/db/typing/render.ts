import type { Column } from "./catalogue.ts";

/** As the pool's parsers read them. */
const readAs: Readonly<Record<string, string>> = {
  bool: "boolean",
  bytea: "Buffer",
  date: "string",
  float4: "number",
  float8: "number",
  int4: "number",
  int8: "number",
  text: "string",
  timestamptz: "Date",
  uuid: "string",
};

/** Types of Kysely, and our own, by which columns are written otherwise than they are read. */
const wrappers = {
  kysely: ["Generated", "GeneratedAlways"],
  "../columns.ts": ["ColumnValues", "GeneratedJson", "Json", "Nullable", "NullableJson"],
} as const;

/**
 * A module with one interface per table, and `Database` with all of them.
 *
 * @param columns grouped by table
 * @param unconstrainedWords columns of text, as `table.column`, whose type `ColumnValues` tells
 */
export function renderTables(columns: readonly Column[], unconstrainedWords: readonly string[]): string {
  const tables = [...Map.groupBy(columns, ({ table }) => table)];
  return [
    "// Written by `npm run generate` from what the migrations make; never edited.",
    ...Object.entries(wrappers).map(([module, names]) => `import type { ${names.join(", ")} } from "${module}";`),
    ...tables.map(([table, itsColumns]) =>
      block(
        interfaceOf(table),
        itsColumns.map((column) => [column.name, columnType(column, unconstrainedWords)]),
      ),
    ),
    block(
      "Database",
      tables.map(([table]) => [table, interfaceOf(table)]),
    ),
    "",
  ].join("\n");
}

const block = (name: string, properties: readonly (readonly [string, string])[]): string =>
  ["", `export interface ${name} {`, ...properties.map(([key, type]) => `  ${quoted(key)}: ${type};`), "}"].join("\n");

const quoted = (key: string): string => (/^\w+$/.test(key) ? key : JSON.stringify(key));

/** `auth.deviceCode` is AuthDeviceCodeTable, `site_host` SiteHostTable. */
const interfaceOf = (table: string): string =>
  `${table.replaceAll(/(?:^|[._])(\w)/g, (_, letter: string) => letter.toUpperCase())}Table`;

/** What a column is read and written as. */
export function columnType(column: Column, unconstrainedWords: readonly string[]): string {
  const { isNullable, hasDefault, isAlwaysGenerated } = column;
  const value = valueType(column, unconstrainedWords);
  const json = column.type === "jsonb" ? "Json" : "";
  if (isAlwaysGenerated) return `GeneratedAlways<${value}>`;
  if (isNullable) return `Nullable${json}<${value}>`;
  if (hasDefault) return `Generated${json}<${value}>`;
  return json === "" ? value : `${json}<${value}>`;
}

function valueType({ table, name, type, checks }: Column, unconstrainedWords: readonly string[]): string {
  const path = `${table}.${name}`;
  if (type === "jsonb" || unconstrainedWords.includes(path)) return `ColumnValues[${JSON.stringify(path)}]`;
  const words = checks.map(wordsOf).find((each) => each.length > 0);
  if (words !== undefined) return words.map((word) => JSON.stringify(word)).join(" | ");
  const isArray = type.startsWith("_");
  const element = readAs[isArray ? type.slice(1) : type];
  if (element === undefined) throw new Error(`${path} is of type ${type}, for which there is no type here`);
  return isArray ? `${element}[]` : element;
}

/** The words of `column in ('one', 'two')` as Postgres tells the constraint again; none of any other one. */
function wordsOf(check: string): string[] {
  const [, list = ""] = /^CHECK \(\(\w+ = (?:ANY \(ARRAY\[)?('.+'::text)(?:\]\))?\)\)$/.exec(check) ?? [];
  return [...list.matchAll(/'((?:[^']|'')*)'::text/g)].map(([, word = ""]) => word.replaceAll("''", "'"));
}
