import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type TestApi, testApi } from "../../../http/testing.ts";
import { insertBranch } from "../store.ts";
import { forgetChanges } from "./forget.ts";

let api: TestApi;
beforeAll(async () => {
  api = await testApi();
});
afterAll(() => api?.[Symbol.asyncDispose]());

/** So many changes of a branch, each a minute older than the one before; the first is under way. */
async function changed(database_id: string, count: number): Promise<void> {
  const values = Array.from({ length: count }, (_, minutes) => {
    const at = new Date(Date.now() - minutes * 60_000);
    const isOver = minutes > 0;
    return {
      ...{ id: randomUUID(), database_id, from_generation: 1, requested_by: "svc", created_at: at },
      ...{ kind: "move" as const, state: isOver ? ("failed" as const) : ("copying" as const) },
      ...{ ended_at: isOver ? at : null, problem: isOver ? "It was cancelled." : null },
    };
  });
  await api.db.insertInto("database_change").values(values).execute();
}
const countOf = async (id: string) =>
  (await api.db.selectFrom("database_change").select("id").where("database_id", "=", id).execute()).length;

test("changes of a branch are kept as long as somebody may look at them, and never forgotten while they are under way", async () => {
  const project = await api.newProject(await api.newUser());
  const [there, gone] = [randomUUID(), randomUUID()];
  const of = { projectId: project.id, channel: "production", engine: "postgres" } as const;
  await insertBranch(api.db, api.context.secrets, { id: there, ...of });
  await changed(there, 110);
  await changed(gone, 3);
  expect(await forgetChanges(api.db)).toBe(12);
  expect([await countOf(there), await countOf(gone)]).toEqual([100, 1]);
  expect(await forgetChanges(api.db)).toBe(0);
});
