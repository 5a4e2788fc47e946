import { expect, test } from "vitest";
import { databaseNames, databaseUrl } from "./database.ts";

const id = "0198c0de-1234-7abc-8def-0123456789ab";

test("a branch's names come from its id alone", () => {
  expect(databaseNames(id)).toEqual({
    database: "d_0198c0de12347abc",
    role: "r_0198c0de12347abc",
    volume: "svc-db-0198c0de12347abc",
  });
});

test.each([
  {
    engine: "postgres",
    at: undefined,
    url: "postgres://r_0198c0de12347abc:pw@db.svc.internal:5432/d_0198c0de12347abc",
  },
  { engine: "mariadb", at: undefined, url: "mysql://r_0198c0de12347abc:pw@db.svc.internal:3306/d_0198c0de12347abc" },
  {
    engine: "postgres",
    at: { host: "::1", port: 6000 },
    url: "postgres://r_0198c0de12347abc:pw@[::1]:6000/d_0198c0de12347abc",
  },
] as const)("the address of a $engine branch is $url", ({ engine, at, url }) => {
  expect(databaseUrl({ id, engine, password: "pw" }, at)).toBe(url);
});
