import type { NodeAxes } from "@svc/proto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type TestDatabase, testDatabase } from "../../../stores/db/testing.ts";
import { linkRows } from "./link-rows.ts";
import { createLinkHistory } from "./links.ts";
import { expireNodeEvents, insertNodeEvents, listNodeEvents } from "./store.ts";

let database: TestDatabase;
beforeAll(async () => {
  database = await testDatabase();
});
afterAll(() => database[Symbol.asyncDispose]());

let made = 0;
const newNode = async () => {
  const values = { role: "node", name: `machine-${++made}`, labels: "{}" } as const;
  return (await database.db.insertInto("node").values(values).returning("id").executeTakeFirstOrThrow()).id;
};
const kinds = async (id: string) => (await listNodeEvents(database.db, id, 100)).map(({ kind }) => kind).reverse();

test("the history of a link has each change once, whoever leads", async () => {
  const id = await newNode();
  const state: { link: Exclude<NodeAxes["link"], "quarantined">; since: Date } = {
    link: "unreachable",
    since: new Date("2030-01-01T00:00:00Z"),
  };
  const deps = { rows: linkRows(database.db), fleet: { nodeLink: () => state } };
  const look = createLinkHistory(deps);
  await look();
  expect(await kinds(id)).toEqual(["joined"]);
  for (const link of ["connected", "connected", "suspect", "connected", "suspect", "unreachable"] as const) {
    state.link = link;
    await look();
    await look();
  }
  const all = ["joined", "connected", "suspect", "connected", "suspect", "unreachable"];
  expect(await kinds(id)).toEqual(all);
  // The next leader reads where the last one stopped.
  const next = createLinkHistory(deps);
  await next();
  expect(await kinds(id)).toEqual(all);
  state.link = "connected";
  await next();
  expect(await kinds(id)).toEqual([...all, "connected"]);
  const [newest] = await listNodeEvents(database.db, id, 1);
  expect(newest?.at).toEqual(state.since);
});

test("of each machine the newest lines of each kind are kept, and those that it is told of by", async () => {
  const [busy, calm] = [await newNode(), await newNode()];
  await insertNodeEvents(database.db, [{ nodeId: busy, kind: "changed" }]);
  await insertNodeEvents(
    database.db,
    Array.from({ length: 230 }, (_, n) => ({ nodeId: busy, kind: "connected", detail: `${n}` })),
  );
  await insertNodeEvents(database.db, [{ nodeId: calm, kind: "cordoned" }]);
  expect(await expireNodeEvents(database.db)).toBe(30);
  expect(await expireNodeEvents(database.db)).toBe(0);
  const left = await listNodeEvents(database.db, busy, 300);
  // Whoever causes many lines of one kind does not make the others be forgotten.
  expect(left.map(({ kind }) => kind).lastIndexOf("changed")).toBe(200);
  expect([left.length, left[0]?.detail, left.at(-2)?.detail]).toEqual([201, "229", "30"]);
  expect(await kinds(calm)).toEqual(["cordoned"]);
});
