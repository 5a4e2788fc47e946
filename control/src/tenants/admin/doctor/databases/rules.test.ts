import { expect, test } from "vitest";
import { type ChangeHealth, judgeChanges, judgeServers, judgeUnknownVolumes } from "./rules.ts";

test("volumes that nobody knows are told of by node, with their names", () => {
  const names = ["svc-db-5a1d0c3700004000", "svc-dbcopy-5a1d0c3700004000"];
  expect(judgeUnknownVolumes([{ node: "node-2", names }])).toMatchObject([
    { status: "warn", text: `node-2 has 2 volumes of databases that nobody knows: ${names.join(" and ")}.` },
  ]);
  expect(judgeUnknownVolumes([])).toEqual([]);
});

test("a database that nobody can use is told of, with why and where", () => {
  const database = { project: "shop", channel: "production", node: "node-2" };
  expect(judgeServers([])).toEqual([]);
  expect(judgeServers([{ ...database, reason: null }])).toMatchObject([
    {
      status: "fail",
      text: "The server of the production database of shop does not serve.",
      hint: expect.stringContaining("node-2"),
    },
  ]);
  expect(judgeServers([{ ...database, reason: "Its data is gone." }])).toMatchObject([
    {
      status: "fail",
      text: "The production database of shop is in error: Its data is gone.",
      hint: expect.stringContaining("shop/production"),
    },
  ]);
});

test.each<{ when: string; change: Pick<ChangeHealth, "state" | "seconds">; count: number }>([
  { when: "it is just kept out", change: { state: "freezing", seconds: 20 }, count: 0 },
  { when: "it is kept out for long", change: { state: "freezing", seconds: 301 }, count: 1 },
  { when: "its server does not end", change: { state: "stopping", seconds: 900 }, count: 1 },
  { when: "its data is being read", change: { state: "restoring", seconds: 900 }, count: 0 },
  { when: "its data is not there after an hour", change: { state: "restoring", seconds: 3_660 }, count: 1 },
])("a tenant is missed when $when: $count", ({ change, count }) => {
  const found = judgeChanges([{ project: "shop", channel: "production", kind: "move", ...change }]);
  expect(found).toHaveLength(count);
  for (const { status, hint } of found)
    expect([status, hint]).toEqual(["fail", expect.stringContaining("shop/production")]);
});
