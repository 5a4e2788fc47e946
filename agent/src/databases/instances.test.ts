import { create } from "@bufbuild/protobuf";
import { Desired, Observed, PlacementSchema } from "@svc/proto/node";
import { expect, test } from "vitest";
import { newRecord } from "../placements/task.ts";
import { servingInstance } from "./instances.ts";

const databaseId = "018f3a6e-4f00-7000-8000-000000000001";
interface Changes {
  epoch?: bigint;
  desired?: Desired;
  observed?: Observed;
  engine?: string;
}
function aRecord(changes: Changes = {}) {
  const { epoch = 3n, desired = Desired.RUNNING, observed = Observed.RUNNING, engine = "postgres" } = changes;
  const spec = { case: "database", value: { databaseId, engine } } as const;
  const record = newRecord(create(PlacementSchema, { placementId: "p", epoch, desired, spec }), new Date(0));
  record.status.observed = observed;
  return record;
}

test.each([
  { when: "it runs under the epoch", records: [aRecord()], is: "postgres" },
  { when: "it is of the other engine", records: [aRecord({ engine: "mariadb" })], is: "mariadb" },
  { when: "only one of an earlier epoch runs", records: [aRecord({ epoch: 2n })], is: null },
  { when: "it is still starting", records: [aRecord({ observed: Observed.STARTING })], is: null },
  { when: "it is to stop", records: [aRecord({ desired: Desired.STOPPED })], is: null },
  { when: "nobody knows its engine", records: [aRecord({ engine: "other" })], is: null },
  { when: "there is none", records: [], is: null },
] as const)("a database is found on the node when $when", ({ records, is }) => {
  expect(servingInstance(records, { databaseId, epoch: 3n })).toBe(is);
});
