import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type TestApi, testApi } from "../../../../http/testing.ts";
import { lockWaits } from "../../../../stores/db/testing.ts";
import { until } from "../../../../stores/etcd/testing.ts";
import { lockNames } from "../../../domains/store.ts";
import { newDomain } from "../../../domains/testing.ts";
import { tearDownAll } from "./request.ts";

let api: TestApi;
beforeAll(async () => {
  api = await testApi();
});
afterAll(() => api[Symbol.asyncDispose]());

test("hundreds of projects go while somebody decides about a name that the first and the last of them claim", async () => {
  const { db } = api;
  const owner = await api.newUser();
  const ids = Array.from({ length: 501 }, () => randomUUID()).toSorted();
  const [first = "", last = ""] = [ids[0], ids.at(-1)];
  await db
    .insertInto("project")
    .values(ids.map((id) => ({ id, owner_id: owner.id, slug: `p-${id}`, name: "one of many", type: "ssr" as const })))
    .execute();
  const domain = `n${first.slice(0, 8)}.example`;
  for (const id of [first, last]) await newDomain(db, id, domain);
  let going: Promise<number> = Promise.resolve(0);
  await db.transaction().execute(async (tx) => {
    await tx.selectFrom("project").select("id").where("id", "=", last).forNoKeyUpdate().execute();
    going = db.transaction().execute((other) => tearDownAll(other, owner.id));
    going.catch(() => {});
    await until("it to wait", async () => (await lockWaits(db)) > 0);
    await lockNames(tx, [domain]);
  });
  expect(await going).toBe(501);
  const left = await db.selectFrom("custom_domain").select("id").where("domain", "=", domain).execute();
  expect(left).toEqual([]);
});
