import { sql } from "kysely";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type TestDatabase, testDatabase } from "../db/testing.ts";

let database: TestDatabase;
beforeAll(async () => {
  database = await testDatabase();
});
afterAll(() => database[Symbol.asyncDispose]());

/** What the teardown deletes by itself, or leaves by intent: see `deleteRows`, and the collector for artifacts. */
const seenTo = ["accepted_deploy", "artifact", "resource_sample", "task"];

test("every table that names a project or a deployment loses its rows with the project", async () => {
  const { rows } = await sql<{ name: string }>`
    select distinct table_name as name from information_schema.columns
    where table_schema = 'public' and column_name in ('project_id', 'deployment_id') and not exists (
      select from pg_constraint
      where contype = 'f' and confdeltype = 'c' and conrelid = format('public.%I', table_name)::regclass
        and confrelid in ('project'::regclass, 'deployment'::regclass))
    order by 1`.execute(database.db);
  expect(rows.map(({ name }) => name)).toEqual(seenTo);
});
