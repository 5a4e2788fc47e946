import { sql } from "kysely";
import { expect, test, vi } from "vitest";
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

test("outside of a test run a process has a server of its own, which starts again after it was stopped", async () => {
  vi.stubEnv("SVC_TEST_POSTGRES", undefined);
  try {
    const servers: string[] = [];
    for (let count = 1; count <= 2; count += 1) {
      await using database = await testDatabase();
      expect(await database.db.selectFrom("project").selectAll().execute()).toEqual([]);
      servers.push(new URL(database.url).searchParams.get("host") ?? "");
    }
    expect(new Set(servers).size).toBe(2);
  } finally {
    vi.unstubAllEnvs();
  }
});
