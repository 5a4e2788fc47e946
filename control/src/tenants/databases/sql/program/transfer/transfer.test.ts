import fc from "fast-check";
import { expect, test } from "vitest";
import { csvHead, rowText } from "../mariadb/export-text.ts";
import { cellReader } from "../mariadb/values.ts";
import { lineOfCopy } from "../postgres/copy-line.ts";
import { createCopyReader } from "./copy-text.ts";
import { CsvProblem, createCsvReader } from "./csv.ts";
import { framingOf } from "./framing.ts";
import { columnsOfHeader } from "./header.ts";
import { createRecordBounds } from "./record-bounds.ts";

const heads = { csv: "a,b\n", preamble: "set x;\n", insert: "insert into t (a) values" };

/** What comes of rows in the text format of COPY, read in portions of `size`. */
function read(format: "json" | "sql", copied: string, size: number): string {
  const framing = framingOf(format, heads);
  const reader = createCopyReader(framing);
  const bytes = Buffer.from(copied);
  let text = "";
  for (let at = 0; at < bytes.length; at += size) text += reader(bytes.subarray(at, at + size)).toString("latin1");
  return Buffer.from(text + framing.end(), "latin1").toString("utf8");
}

test.each([1, 2, 3, 100])("rows of COPY are read in portions of %i", (size) => {
  expect(read("json", "", size)).toBe("[]\n");
  expect(read("json", '{"a":1}\n{"a":"x\\\\ny\\\\\\\\é\\t"}\n', size)).toBe('[\n{"a":1},\n{"a":"x\\ny\\\\é\t"}\n]\n');
  expect(read("sql", "(1)\n(E'\\\\\\\\ \\n')\n", size)).toBe("set x;\ninsert into t (a) values\n(1),\n(E'\\\\ \n');\n");
});

test("a statement that is long enough is followed by another", () => {
  const row = `('${"x".repeat(70_000)}')\n`;
  const text = read("sql", row + row, 1_000);
  expect(text.match(/insert into/g)).toHaveLength(2);
  expect(text.match(/;\n/g)).toHaveLength(3);
  expect(read("sql", "", 1)).toBe("set x;\n");
});

/** In portions of `size`: lines with fields. */
function readCsv(text: string, size = 3, longest = 1_000) {
  const reader = createCsvReader({ recordLengthMax: longest, fieldsMax: 5 });
  const records = [];
  for (let at = 0; at < text.length; at += size) records.push(...reader.push(text.slice(at, at + size)));
  return [...records, ...reader.end()].map(({ line, fields }) => [line, ...fields]);
}

test.each([
  { when: "nothing and an empty text are told apart", text: 'a,,""\n', is: [[1, "a", null, ""]] },
  {
    when: "quotes hold what else would end a field",
    text: '"a,""b""\nc",d\ne\n',
    is: [
      [1, 'a,"b"\nc', "d"],
      [3, "e"],
    ],
  },
  {
    when: "lines end in CRLF, or not at all",
    text: "a,b\r\nc,d",
    is: [
      [1, "a", "b"],
      [2, "c", "d"],
    ],
  },
  {
    when: "a line is empty",
    text: "a\n\nb\n",
    is: [
      [1, "a"],
      [2, null],
      [3, "b"],
    ],
  },
  { when: "there is nothing", text: "", is: [] },
  { when: "quotes end within a field", text: '"a"b,c\n', is: [[1, "ab", "c"]] },
])("a CSV: $when", ({ text, is }) => {
  for (const size of [1, 2, 1_000]) expect(readCsv(text, size)).toEqual(is);
});

test.each([
  { when: "cut within quotes", text: 'a\nb\n"c', line: 3 },
  { when: "with a lone carriage return", text: "a\nb\rc\n", line: 2 },
  { when: "with a row that is too long", text: `a\n${"x".repeat(20)}\n`, line: 2 },
  { when: "with more fields than a table has columns", text: "a\n,,,,,\n", line: 2 },
])("no CSV is what is $when, and where it is so is told", ({ text, line }) => {
  expect(() => readCsv(text, 3, 10)).toThrow(CsvProblem);
  try {
    readCsv(text, 3, 10);
  } catch (error) {
    expect((error as CsvProblem).line).toBe(line);
  }
});

test("any fields come back from what is written of them", () => {
  const field = fc.oneof(fc.constant(null), fc.string({ unit: fc.constantFrom(...'a,"\n\r é😀') }));
  const written = (value: string | null) => (value === null ? "" : `"${value.replaceAll('"', '""')}"`);
  fc.assert(
    fc.property(
      fc.array(fc.array(field, { minLength: 2, maxLength: 4 })),
      fc.integer({ min: 1, max: 9 }),
      (rows, size) => {
        const text = rows.map((fields) => `${fields.map(written).join(",")}\n`).join("");
        expect(readCsv(text, size).map(([, ...fields]) => fields)).toEqual(rows);
      },
    ),
  );
});

const column = (name: string) => ({ name, dataType: "text", holds: "other" as const, isGenerated: false });
const table = { schema: "public", name: "t", columns: [column("a"), column("b")], primaryKey: [], approxRows: 0 };
test.each([
  { fields: ["b", "a"], is: ["b", "a"] },
  { fields: ["b"], is: ["b"] },
  { fields: ["a", "c"], is: "COLUMN_NOT_FOUND" },
  { fields: ["a", null], is: "COLUMN_NOT_FOUND" },
  { fields: ["a", "a"], is: "INVALID_BODY" },
  { fields: [null], is: "INVALID_BODY" },
  { fields: [], is: "INVALID_BODY" },
])("a first line of $fields: $is", ({ fields, is }) => {
  const found = columnsOfHeader(table, { line: 1, fields });
  expect("code" in found ? found.code : found.map(({ name }) => name)).toEqual(is);
});

/** In portions of `size`, to its end. */
function lookAt(bytes: Buffer, size: number, recordBytesMax = 1_000): void {
  const bounds = createRecordBounds(recordBytesMax);
  for (let at = 0; at < bytes.length; at += size) bounds.push(bytes.subarray(at, at + size));
  bounds.end();
}

test.each([
  { when: "within quotes", text: `a\n"x""\n${"y".repeat(10)}"\n`, line: 2 },
  { when: "without any", text: `a\n"b"\n${"x".repeat(11)}`, line: 3 },
])("a record that a server would read is bounded $when", ({ text, line }) => {
  const bytes = Buffer.from(text);
  for (const size of [1, 3, 100]) {
    expect(() => lookAt(bytes, size, 10)).toThrow(expect.objectContaining({ name: "CsvProblem", line }));
    expect(() => lookAt(bytes, size, 20)).not.toThrow();
  }
});

test.each([
  { when: "between others", text: "a\n1\n\\.\n2\n", line: 3 },
  { when: "before CRLF", text: "a\r\n\\.\r\n2\r\n", line: 2 },
  { when: "below a record of several lines", text: 'a\n"1\n2"\n\\.\n', line: 4 },
  { when: "at the end, without an end of its own", text: "a\n\\.", line: 2 },
  { when: "at the end, with half of one", text: "a\r\n\\.\r", line: 2 },
  { when: "as the first line", text: "\\.\n1\n", line: 1 },
])("what Postgres would take for the end of a CSV is told where it stands: $when", ({ text, line }) => {
  for (const size of [1, 2, 3, 100]) {
    expect(() => lookAt(Buffer.from(text), size)).toThrow(expect.objectContaining({ name: "CsvProblem", line }));
  }
});

test.each(['a\n"\\."\n', "a\n\\.x\n", "a\nx\\.\n", "a,b\n\\.,1\n", 'a\n"\n\\.\n"\n', "a\n\\\n.\n", "a\n\\"])(
  "what only looks like the end of a CSV is none: %j",
  (text) => {
    for (const size of [1, 2, 3, 100]) expect(() => lookAt(Buffer.from(text), size)).not.toThrow();
  },
);

test("a CSV of MariaDB quotes what Postgres would take for the end of one", () => {
  const cell = { value: "\\.", text: "\\.", is: "text" as const };
  expect(rowText("csv", ["a"], [cell])).toBe('"\\."\n');
  expect(csvHead(["\\."])).toBe('"\\."\n');
});

test.each([
  { when: "a value does not fit", where: 'COPY t, line 4, column id: "six"', line: 4 },
  { when: "a trigger refused", where: 'PL/pgSQL function f() line 9 at RAISE\nCOPY t, line 12: "x"', line: 12 },
  { when: "a value looks like it", where: 'COPY t, line 2: "1\nCOPY t, line 9"', line: 2 },
  { when: "the refusal is for the whole", where: 'SQL statement "select 1"', line: null },
  { when: "the server says nothing", where: "", line: null },
])("the line of a COPY is known when $when: $line", ({ where, line }) => {
  expect(lineOfCopy(where, "t")).toBe(line);
});

test("a table whose name looks like a line has its lines told", () => {
  expect(lineOfCopy("COPY a, line 9, line 3", "a, line 9")).toBe(3);
});

const float = { columnType: 5, characterSet: 63 };
test.each([
  { text: "16777216", csv: "16777216", json: "16777216" },
  { text: "0.10000000149011612", csv: "0.1", json: "0.1" },
  { text: "3.4028234663852886e38", csv: "3.4028235e+38", json: "3.4028235e+38" },
  { text: "-0", csv: "-0", json: "-0" },
])("a float of MariaDB is the shortest number that is the same: $csv", ({ text, csv, json }) => {
  const cell = cellReader(float, { isFloat: true })(Buffer.from(text));
  expect(rowText("csv", ["a"], [cell])).toBe(`${csv}\n`);
  expect(rowText("json", ["a"], [cell])).toBe(`{"a":${json}}`);
});
