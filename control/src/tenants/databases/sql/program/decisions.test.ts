import { describe, expect, test } from "vitest";
import { isoTime, migrationsOf, timeColumnOf } from "./applied.ts";
import { mariadbDialect } from "./mariadb/dialect.ts";
import { readOnlyProblem } from "./mariadb/read-only.ts";
import { isOneCall, withoutLastRemarks } from "./mariadb/statements.ts";
import { valueReader as mariadbReader } from "./mariadb/values.ts";
import { postgresDialect } from "./postgres/dialect.ts";
import { statementProblem, statementsOf } from "./postgres/statements.ts";
import { valueReader as postgresReader } from "./postgres/values.ts";
import {
  type Cell,
  cellsOf,
  deleteRow,
  insertRow,
  keyOf,
  keyProblem,
  orderOf,
  selectRows,
  type TableShape,
  updateRow,
} from "./row-sql.ts";

const shape: TableShape = {
  schema: "public",
  name: 'a"b`c',
  columns: [
    { name: "id", dataType: "integer", holds: "other", isGenerated: false },
    { name: 'no"te', dataType: "text", holds: "other", isGenerated: false },
    { name: "data", dataType: "jsonb", holds: "json", isGenerated: false },
    { name: "raw", dataType: "blob", holds: "bytes", isGenerated: false },
  ],
  primaryKey: ["id"],
  approxRows: 0,
};
const cells = (pairs: [string, unknown][], dialect = postgresDialect) => cellsOf(dialect, shape, pairs) as Cell[];

describe("statements about rows", () => {
  test("quote names as their engine does", () => {
    const page = { orderBy: ['no"te'], dir: "desc", limit: 50, offset: 10 } as const;
    expect(selectRows(postgresDialect, { ...shape, columns: shape.columns.slice(0, 2) }, page)).toBe(
      'select "id", "no""te" from "public"."a""b`c" order by "no""te" desc limit 51 offset 10',
    );
    expect(selectRows(mariadbDialect, { ...shape, columns: shape.columns.slice(0, 1) }, { ...page, orderBy: [] })).toBe(
      'select `id` from `public`.`a"b``c` limit 51 offset 10',
    );
  });

  test.each([
    { of: "the primary key", dialect: postgresDialect, table: shape, orderBy: null, order: ["id"] },
    {
      of: "a column, and then the key",
      dialect: postgresDialect,
      table: shape,
      orderBy: "data",
      order: ["data", "id"],
    },
    { of: "the key's own column once", dialect: postgresDialect, table: shape, orderBy: "id", order: ["id"] },
    {
      of: "a column, and then the place of the row",
      ...{ dialect: postgresDialect, table: { ...shape, primaryKey: [] }, orderBy: "data" },
      order: ["data", "tableoid", "ctid"],
    },
    {
      of: "a column, and then all others",
      ...{ dialect: mariadbDialect, table: { ...shape, primaryKey: [] }, orderBy: "data" },
      order: ["data", "id", 'no"te', "raw"],
    },
    {
      of: "nothing",
      ...{ dialect: postgresDialect, table: { ...shape, primaryKey: [] }, orderBy: null },
      order: [],
    },
  ])("order pages by $of", ({ dialect, table, orderBy, order }) => {
    expect(orderOf(dialect, table, orderBy)).toEqual(order);
  });

  test("bind every value", () => {
    expect(
      updateRow(
        postgresDialect,
        shape,
        cells([["id", 7]]),
        cells([
          ["data", { a: [1] }],
          ['no"te', null],
        ]),
      ),
    ).toEqual({
      sql: 'update "public"."a""b`c" set "data" = $1, "no""te" = $2 where "id" = $3',
      values: ['{"a":[1]}', null, "7"],
    });
    expect(deleteRow(mariadbDialect, shape, cells([["id", "9007199254740993"]], mariadbDialect))).toEqual({
      sql: 'delete from `public`.`a"b``c` where `id` = ?',
      values: ["9007199254740993"],
    });
  });

  test("take bytes as MariaDB writes them, and other text as those bytes", () => {
    const { sql, values } = insertRow(mariadbDialect, shape, cells([["raw", "0x00FF"]], mariadbDialect));
    expect({ sql, values }).toEqual({
      sql: 'insert into `public`.`a"b``c` (`raw`) values (unhex(?))',
      values: ["00FF"],
    });
    expect(insertRow(mariadbDialect, shape, cells([["raw", "0xZ"]], mariadbDialect)).values).toEqual(["30785a"]);
  });

  test("without a value insert the engine's defaults", () => {
    const one = { ...shape, name: "t", columns: shape.columns.slice(0, 1) };
    expect(insertRow(postgresDialect, one, []).sql).toBe('insert into "public"."t" default values returning "id"');
    expect(insertRow(mariadbDialect, one, []).sql).toBe("insert into `public`.`t` () values ()");
  });
});

describe("a request about rows is refused", () => {
  test.each([
    { when: "a column is unknown", pairs: [["nope", 1]], code: "COLUMN_NOT_FOUND" },
    { when: "a column has other letters", pairs: [["ID", 1]], code: "COLUMN_NOT_FOUND" },
    { when: "a name is SQL", pairs: [['id" = 1; --', 1]], code: "COLUMN_NOT_FOUND" },
    { when: "a number has lost digits on its way", pairs: [["id", 2 ** 53 + 2]], code: "INVALID_BODY" },
    { when: "an object is for text", pairs: [['no"te', {}]], code: "INVALID_BODY" },
  ] as const)("when $when", ({ pairs, code }) => {
    expect(cellsOf(postgresDialect, shape, pairs)).toMatchObject({ code });
  });

  test.each([-1, 1.5])("when bits of MariaDB are to hold %s", (value) => {
    const bits = { name: "b", dataType: "bit(8)", holds: "bits" as const, isGenerated: false };
    expect(cellsOf(mariadbDialect, { ...shape, columns: [bits] }, [["b", value]])).toMatchObject({
      code: "INVALID_BODY",
    });
  });

  const pair = { ...shape, primaryKey: ["id", 'no"te'] };
  test.each([
    { when: "the table has no key", table: { ...shape, primaryKey: [] }, pk: [["id", 1]], code: "NO_PRIMARY_KEY" },
    { when: "the key is not all there", table: pair, pk: [["id", 1]], code: "INVALID_BODY" },
    {
      when: "the key is more than that",
      table: shape,
      pk: [
        ["id", 1],
        ["data", 1],
      ],
      code: "INVALID_BODY",
    },
    { when: "there is no key in it", table: shape, pk: [], code: "INVALID_BODY" },
    {
      when: "a column of it is unknown",
      table: shape,
      pk: [
        ["id", 1],
        ["x", 1],
      ],
      code: "COLUMN_NOT_FOUND",
    },
    { when: "a part of it is null", table: shape, pk: [["id", null]], code: "INVALID_BODY" },
  ] as const)("when $when", ({ table, pk, code }) => {
    expect(keyProblem(table, pk as readonly (readonly [string, unknown])[])).toMatchObject({ code });
  });

  test.each([
    {
      type: "int(11)",
      values: ["7", "-7", "+7", "007", 7],
      not: ["2f1b6c1e-58a1", "12abc", "12.4", " 7", "", "abc", true],
    },
    { type: "bigint(20) unsigned", values: ["18446744073709551615"], not: ["1e3", false] },
    { type: "tinyint(1)", values: [1, true], not: ["1x"] },
    { type: "year(4)", values: [2026, "0000"], not: ["26", 0, "2026x"] },
    { type: "decimal(10,2)", values: ["1.10", 1.1, ".5", "1."], not: ["1.1x", "1e1", "."] },
    { type: "float", values: [0.1, "1e-7", "-1.5"], not: ["0.1x", "NaN"] },
    { type: "double unsigned", values: ["1.7976931348623157e308"], not: ["x"] },
    { type: "varchar(20)", values: ["12abc", "", 12], not: [true] },
    { type: "date", values: ["2026-01-02"], not: [] },
  ])("of MariaDB when its key is no $type", ({ type, values, not }) => {
    const table = { ...shape, columns: [{ name: "id", dataType: type, holds: "other" as const, isGenerated: false }] };
    for (const value of values) expect(keyOf(mariadbDialect, table, [["id", value]]), `${value}`).toHaveLength(1);
    for (const value of not) {
      expect(keyOf(mariadbDialect, table, [["id", value]]), `${value}`).toMatchObject({ code: "QUERY_ERROR" });
    }
  });

  test("but not when the key is exact, in any order", () => {
    expect(
      keyProblem(pair, [
        ['no"te', "a"],
        ["id", 1],
      ]),
    ).toBeNull();
  });
});

describe("a statement of Postgres", () => {
  const problem = (kind: string, transaction: string | null, guarded: boolean) =>
    statementProblem({ kind, transaction, offsetBytes: 0, lengthBytes: 0 }, guarded);

  test.each(["COMMIT", "BEGIN", "START", "ROLLBACK", "PREPARE", "COMMIT_PREPARED", "ROLLBACK_PREPARED"])(
    "may be %s, but not in a transaction of ours",
    (name) => {
      expect(problem("TransactionStmt", `TRANS_STMT_${name}`, false)).toBeNull();
      expect(problem("TransactionStmt", `TRANS_STMT_${name}`, true)).toMatch("transaction");
    },
  );

  test.each(["SAVEPOINT", "RELEASE", "ROLLBACK_TO"])("may be %s anywhere", (name) => {
    expect(problem("TransactionStmt", `TRANS_STMT_${name}`, true)).toBeNull();
  });

  test("of a kind about transactions that is new is none that may run in ours", () => {
    const [statement] = statementsOf({ stmts: [{ stmt: { TransactionStmt: {} } }] });
    expect(statement && statementProblem(statement, true)).not.toBeNull();
  });
});

test.each([
  { type: 16, text: "t", value: true },
  { type: 23, text: "-7", value: -7 },
  { type: 701, text: "0.1", value: 0.1 },
  { type: 701, text: "NaN", value: "NaN" },
  { type: 700, text: "-Infinity", value: "-Infinity" },
  { type: 20, text: "9007199254740993", value: "9007199254740993" },
  { type: 1700, text: "1.0", value: "1.0" },
  { type: 3802, text: '{"a": 1.0}', value: '{"a": 1.0}' },
  { type: 17, text: "\\x00ff", value: "\\x00ff" },
])("Postgres' $text of type $type is $value", ({ type, text, value }) => {
  expect(postgresReader(type)(text)).toBe(value);
});

test.each([
  { type: "TINY", column: { columnType: 1, characterSet: 63 }, bytes: Buffer.from("1"), value: 1 },
  { type: "LONGLONG", column: { columnType: 8, characterSet: 63 }, bytes: Buffer.from("5"), value: "5" },
  { type: "DOUBLE", column: { columnType: 5, characterSet: 63 }, bytes: Buffer.from("1e300"), value: 1e300 },
  { type: "DATE", column: { columnType: 10, characterSet: 63 }, bytes: Buffer.from("0000-00-00"), value: "0000-00-00" },
  { type: "BIT", column: { columnType: 16, characterSet: 63 }, bytes: Buffer.from([1, 2]), value: "0x0102" },
  { type: "BLOB", column: { columnType: 252, characterSet: 63 }, bytes: Buffer.from([0, 255]), value: "0x00ff" },
  { type: "TEXT", column: { columnType: 252, characterSet: 45 }, bytes: Buffer.from("😀"), value: "😀" },
  { type: "NULL", column: { columnType: 253, characterSet: 45 }, bytes: null, value: null },
])("MariaDB's $type is $value", ({ column, bytes, value }) => {
  expect(mariadbReader(column)(bytes)).toBe(value);
});

test.each([
  { sql: "select 1", reads: true },
  { sql: " /* why */ -- because\n (SELECT 1)", reads: true },
  { sql: "with a as (select 1) select * from a", reads: true },
  { sql: "show tables", reads: true },
  { sql: "insert into t values (1)", reads: false },
  { sql: "/*! insert into t values (1) */", reads: false },
  { sql: "/*M! insert into t values (1) */", reads: false },
  { sql: "begin not atomic commit; insert into t values (1); end", reads: false },
  { sql: "commit", reads: false },
  { sql: "call p()", reads: false },
  { sql: "set session transaction read write", reads: false },
  { sql: "--select\ninsert into t values (1)", reads: false },
  { sql: "", reads: false },
])("a read-only query of MariaDB: $sql", ({ sql, reads }) => {
  expect(readOnlyProblem(sql) === null).toBe(reads);
});

test.each([
  { sql: "select 1; -- c", kept: "select 1;" },
  { sql: "select 1; # c", kept: "select 1;" },
  { sql: "select 1;\n/* a; */ -- b\n; ;", kept: "select 1;" },
  { sql: "select 1; --", kept: "select 1;" },
  { sql: "select 1 -- c", kept: "select 1 -- c" },
  { sql: "select 1; --2", kept: "select 1; --2" },
  { sql: "select 1; /*!50000 select 2 */", kept: "select 1; /*!50000 select 2 */" },
  { sql: "select 1; /*M! select 2 */", kept: "select 1; /*M! select 2 */" },
  { sql: "select 1; /* open", kept: "select 1; /* open" },
  { sql: "select 'a; -- b'", kept: "select 'a; -- b'" },
  { sql: "select 'it''s; -- b'", kept: "select 'it''s; -- b'" },
  { sql: "select 'a\\'; -- b'", kept: "select 'a\\'; -- b'" },
  { sql: 'select "a; # b"; # c', kept: 'select "a; # b";' },
  { sql: "select `a; # b`", kept: "select `a; # b`" },
  { sql: "select 'open; -- c", kept: "select 'open; -- c" },
  { sql: "select 6 / 2 - 1; -- c\nselect 2", kept: "select 6 / 2 - 1; -- c\nselect 2" },
  { sql: "-- c\n;", kept: "-- c\n;" },
  { sql: "", kept: "" },
])("of $sql MariaDB is sent $kept", ({ sql, kept }) => {
  expect(withoutLastRemarks(sql)).toBe(kept);
});

test.each([
  { sql: "call p()", is: true },
  { sql: "-- now\nCALL`p`() ; -- done\n;", is: true },
  { sql: "call p(';')", is: true },
  { sql: "call p(); select 1", is: false },
  { sql: "select 1; call p()", is: false },
  { sql: "; call p()", is: false },
  { sql: "callous()", is: false },
  { sql: "", is: false },
])("$sql is one call: $is", ({ sql, is }) => {
  expect(isOneCall(sql)).toBe(is);
});

test("migrations are told from a table of somebody's own", () => {
  expect(timeColumnOf(["name", "appliedAt"])).toBe("appliedAt");
  expect(timeColumnOf(["id", "applied_at", "name"])).toBe("applied_at");
  expect(timeColumnOf(["name"])).toBeNull();
  expect(timeColumnOf(["appliedAt"])).toBeNull();
  expect(migrationsOf([{ name: 1, appliedAt: null }])).toEqual([{ name: "1", appliedAt: "" }]);
});

test.each([
  { text: "2026-01-02 03:04:05.678901+00", iso: "2026-01-02T03:04:05.678Z" },
  { text: "2026-01-02 03:04:05", iso: "2026-01-02T03:04:05.000Z" },
  { text: "2026-01-02 03:04:05+05:30", iso: "2026-01-01T21:34:05.000Z" },
  { text: "infinity", iso: "infinity" },
  { text: "0000-00-00 00:00:00", iso: "0000-00-00 00:00:00" },
])("the time $text is $iso", ({ text, iso }) => {
  expect(isoTime(text)).toBe(iso);
});
