import { expect, test } from "vitest";
import { newBranch, testRunner } from "../testing/server.ts";
import { startPostgres } from "../testing/postgres.ts";
import { startMariadb } from "../testing/mariadb.ts";

test.each([["postgres", startPostgres], ["mariadb", startMariadb]] as const)("console of %s", async (_, start) => {
  await using server = await start();
  await using runner = testRunner();
  const { target } = await newBranch(runner, server);
  for (let i = 0; i < 20; i++) {
    const t = performance.now();
    const r = await runner.ask(target, "query", { sql: "select 1 as a, 'x' as b", rollback: false, readOnly: false });
    if (i % 5 === 0) console.log(performance.now() - t, JSON.stringify(r));
  }
  console.log(JSON.stringify(await runner.ask(target, "schema", {})));
  expect(1).toBe(1);
});
