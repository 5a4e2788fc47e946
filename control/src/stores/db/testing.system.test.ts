import { sql } from "kysely";
import { expect, test } from "vitest";
import { testDatabase } from "./testing.ts";

test("each database is migrated, empty and apart from the others", async () => {
  await using first = await testDatabase();
  await using second = await testDatabase();
  await sql`insert into auth."user" (name, email, "emailVerified") values ('Ada', 'ada@svc.test', true)`.execute(
    first.db,
  );

  expect(await first.db.selectFrom("auth.user").select("email").execute()).toEqual([{ email: "ada@svc.test" }]);
  expect(await second.db.selectFrom("auth.user").select("email").execute()).toEqual([]);
  expect(await second.db.selectFrom("project").selectAll().execute()).toEqual([]);
});

test("a server starts again after the last database was disposed", async () => {
  await using database = await testDatabase();
  expect((await sql<{ one: number }>`select 1 as one`.execute(database.db)).rows).toEqual([{ one: 1 }]);
});
