import { createConnection } from "mysql2/promise";
import { afterAll, beforeAll, expect, test } from "vitest";
import { aBranch, anEntry } from "../testing/branch.ts";
import { startMariadb, type TestMariadb } from "../testing/mariadb.ts";
import { aPlace, bridge, ports, startProxy } from "../testing/proxy.ts";
let server: TestMariadb;
beforeAll(async () => { server = await startMariadb(); });
afterAll(async () => { await server[Symbol.asyncDispose](); });
test("smoke", async () => {
  const branch = aBranch();
  await server.add(branch);
  await using place = await aPlace();
  await using _proxy = await startProxy(place);
  await place.put([anEntry(branch, { engine: "mariadb", bridges: [bridge(1)], at: { socket: server.socketPath } })]);
  const client = await createConnection({ host: bridge(1), port: ports.mariadb, user: branch.role, password: branch.password, database: branch.database });
  const [rows] = await client.query("select 1 as one");
  expect(rows).toEqual([{ one: 1 }]);
  await client.end();
});
