import { expect, test } from "vitest";
import type { Column } from "./catalogue.ts";
import { columnType, renderTables } from "./render.ts";

const aColumn = (column: Partial<Column> = {}): Column => ({
  ...{ table: "site_host", name: "host", type: "text", checks: [] },
  ...{ isNullable: false, hasDefault: false, isAlwaysGenerated: false },
  ...column,
});
const kinds = "CHECK ((kind = ANY (ARRAY['image'::text, 'bun''dle'::text])))";

test.each<{ when: string; column: Partial<Column>; type: string }>([
  { when: "is text", column: {}, type: "string" },
  { when: "may be null", column: { isNullable: true }, type: "Nullable<string>" },
  { when: "has a default", column: { type: "timestamptz", hasDefault: true }, type: "Generated<Date>" },
  { when: "has a default and may be null", column: { isNullable: true, hasDefault: true }, type: "Nullable<string>" },
  { when: "is numbered", column: { type: "int8", isAlwaysGenerated: true }, type: "GeneratedAlways<number>" },
  { when: "is an array", column: { type: "_uuid", isNullable: true }, type: "Nullable<string[]>" },
  { when: "is one of some words", column: { checks: [kinds] }, type: `"image" | "bun'dle"` },
  { when: "is one word", column: { checks: ["CHECK ((kind = 'image'::text))"] }, type: `"image"` },
  {
    when: "is one of some words, and bounded",
    column: { checks: ["CHECK ((length(kind) <= 128))", kinds], hasDefault: true },
    type: `Generated<"image" | "bun'dle">`,
  },
  { when: "is bounded", column: { type: "int4", checks: ["CHECK ((host >= 0))"] }, type: "number" },
  { when: "is JSON", column: { type: "jsonb" }, type: 'Json<ColumnValues["site_host.host"]>' },
  {
    when: "is JSON and may be null",
    column: { type: "jsonb", isNullable: true },
    type: 'NullableJson<ColumnValues["site_host.host"]>',
  },
  {
    when: "is JSON with a default",
    column: { type: "jsonb", hasDefault: true },
    type: 'GeneratedJson<ColumnValues["site_host.host"]>',
  },
])("a column that $when", ({ column, type }) => {
  expect(columnType(aColumn(column), [])).toBe(type);
});

test("words that no constraint tells are told by hand", () => {
  const column = aColumn({ table: "task", name: "channel" });
  expect(columnType(column, ["task.channel"])).toBe('ColumnValues["task.channel"]');
});

test("a column of a type that nobody has thought of is refused by name", () => {
  expect(() => columnType(aColumn({ type: "inet" }), [])).toThrow("site_host.host is of type inet");
});

test("each table is an interface, and all of them are the database", () => {
  const text = renderTables(
    [aColumn(), aColumn({ name: "slug" }), aColumn({ table: "auth.deviceCode", name: "id" })],
    [],
  );
  expect(text).toContain("export interface SiteHostTable {\n  host: string;\n  slug: string;\n}\n");
  expect(text).toContain(
    'export interface Database {\n  site_host: SiteHostTable;\n  "auth.deviceCode": AuthDeviceCodeTable;\n}\n',
  );
});
