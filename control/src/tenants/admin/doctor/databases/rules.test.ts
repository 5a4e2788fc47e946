import { expect, test } from "vitest";
import { judgeUnknownVolumes } from "./rules.ts";

test("volumes that nobody knows are told of by node, with their names", () => {
  const names = ["svc-db-5a1d0c3700004000", "svc-dbcopy-5a1d0c3700004000"];
  expect(judgeUnknownVolumes([{ node: "node-2", names }])).toMatchObject([
    { status: "warn", text: `node-2 has 2 volumes of databases that nobody knows: ${names.join(" and ")}.` },
  ]);
  expect(judgeUnknownVolumes([])).toEqual([]);
});
