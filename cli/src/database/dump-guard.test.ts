import { describe, expect, test } from "vitest";
import { createDumpGuard, DumpRefusal } from "./dump-guard.ts";

/** The lines of a dump that psql is given. */
function passed(text: string): string[] {
  const guard = createDumpGuard();
  const lines = text.split("\n").filter((line) => guard.pass(line));
  guard.end();
  return lines;
}

test("what pg_dump writes goes through, but for the lines that fence it in", () => {
  const dump = [
    "--",
    "-- PostgreSQL database dump",
    "--",
    "\\restrict aB3xyz",
    "SET standard_conforming_strings = on;",
    "CREATE FUNCTION public.f() RETURNS text LANGUAGE sql AS $_$ select 'a\\b' || $1; \\! $_$;",
    "CREATE TABLE public.t (a text DEFAULT 'C:\\temp'::text, \"odd\\name\" text);",
    'COPY public.t (a, "odd\\name") FROM stdin;',
    "x\\ty\\\\z\t\\N",
    "\\! in data is data",
    "\\.",
    "",
    "SELECT pg_catalog.setval('public.s', 1, true);",
    "\\unrestrict aB3xyz",
  ];
  expect(passed(dump.join("\n"))).toEqual(dump.filter((line) => !/^\\(un)?restrict/.test(line)));
});

describe("a command is found", () => {
  test.each([
    ["alone", "\\! touch x"],
    ["behind SQL", "select 1; \\! touch x"],
    ["in the middle of a statement", "select 1\n\\gexec"],
    ["with a backtick at the fence", "\\unrestrict `touch x`"],
    ["behind the fence", "\\restrict abc\n\\unrestrict abc \\! touch x"],
    ["at the fence of another's statement", "select 1\n\\restrict abc"],
    ["behind a string that ends in a backslash", "select 'a\\' \\! touch x"],
    ["behind a string with escapes", "select E'a\\'b' \\! touch x"],
    ["behind a comment that a carriage return ends", "-- a\r\\! touch x"],
    ["behind comments within one another", "/* /* */ */ \\! touch x"],
    ["behind a dollar quote with another's end in it", "select $a$ $b$ $a$ \\! touch x"],
    ["behind a name with quotes in it", 'select 1 as "a""b" \\! touch x'],
    ["behind a name that ends in dollars", "select a$b$ \\! touch x"],
    ["on the line of a COPY", "copy t from stdin; \\! touch x\n\\."],
    ["behind a COPY and what only looks blank", "copy t from stdin;\xa0\n\\."],
    ["after the data of a COPY", "copy t from stdin;\n1\n\\.\n\\! touch x"],
    ["behind a COPY that reads no data", "copy t to stdout;\n\\! touch x\n\\."],
    ["behind a COPY of a query", "copy (select 1 as a from stdin) to stdout;\n\\! touch x\n\\."],
    [
      "in a body whose semicolons end nothing",
      "create function f() returns int begin atomic copy t from stdin;\n\\! touch x\n\\.\nend;",
    ],
    ["in parentheses whose semicolons end nothing", "( ;copy t from stdin;\n\\! touch x\n\\."],
    ["as a semicolon of psql's own", "copy t from stdin\\; select 1;"],
  ])("%s", (_where, dump) => {
    expect(() => passed(dump)).toThrow(DumpRefusal);
  });
});

describe("what psql and we may read differently is refused", () => {
  test.each([
    ["a string with escapes in pieces", "select E'a'\n'b\\' ; '"],
    ["a string right behind a number", "select 1E'a\\''"],
    ["a byte of zero", "select '\0'"],
    ["a string that never ends", "select 'a"],
    ["an encoding whose characters have bytes of ASCII", "SET client_encoding = 'SJIS';"],
    ["the same by another name", "set client_encoding to Shift_JIS;"],
    ["the same for a while", "SET LOCAL client_encoding TO 'GB18030';"],
    ["the same by a standard's words", "set names 'BIG5';"],
    ["data that never ends", "copy t from stdin;\n1"],
  ])("%s", (_what, dump) => {
    expect(() => passed(dump)).toThrow(DumpRefusal);
  });
});

test.each(["UTF8", "LATIN1", "ISO_8859_5", "WIN1252", "KOI8R", "SQL_ASCII", "EUC_JP"])(
  "a dump in %s is read",
  (encoding) => {
    const dump = `SET client_encoding = '${encoding}';\nselect '\x81\xff';`;
    expect(passed(dump)).toEqual(dump.split("\n"));
  },
);

test("a COPY is one also with comments, a list of columns and options in it", () => {
  const dump = 'copy /* a */ "t" (a,\n b) from -- b\n stdin with (format csv);\n\\!,1\n\\.\nselect 1;';
  expect(passed(dump)).toEqual(dump.split("\n"));
});
