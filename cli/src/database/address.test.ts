import { expect, test } from "vitest";
import { parseAddress, publicAddress } from "./address.ts";

test.each<[text: string, fields: object | null]>([
  [
    "postgres://r_1:pass@db.svc.internal:5432/d_1",
    { engine: "postgres", host: "db.svc.internal", port: 5432, user: "r_1", password: "pass", database: "d_1" },
  ],
  ["postgresql://u:p%40s%3A@[::1]/x", { engine: "postgres", host: "::1", port: 5432, password: "p@s:" }],
  ["mysql://r_1:pass@127.0.0.1:3307/d_1", { engine: "mariadb", port: 3307, database: "d_1" }],
  ["mariadb://u@h/x", { engine: "mariadb", port: 3306, password: null }],
  ["postgres://u@h/x?sslmode=require&schema=public&pgbouncer=true", { parameters: { sslmode: "require" } }],
  ["postgres://u@localhost/x?host=%2Frun%2Fpg", { parameters: { host: "/run/pg" } }],
  ["postgres://u@h/x?password=secret1", { password: "secret1", parameters: {} }],
  ["redis://h", null],
  ["postgres://u:%zz@h/x", null],
  ["not an address", null],
])("%s", (text, fields) => {
  const found = parseAddress(text);
  if (fields === null) expect(found).toBeNull();
  else expect(found).toMatchObject(fields);
});

test("what is shown of an address has no password", () => {
  const found = parseAddress("postgres://u:secret1@[::1]:5433/x");
  expect(found === null ? null : publicAddress(found)).toBe("postgres://u@[::1]:5433/x");
});
