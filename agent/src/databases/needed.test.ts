import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { Desired, Observed, PlacementSchema } from "@svc/proto/node";
import { expect, test } from "vitest";
import { newRecord } from "../placements/task.ts";
import { heldCopies, neededVolumes } from "./needed.ts";

const databaseId = "018f3a6e-4f00-7000-8000-000000000001";
const copyId = "018f3a6e-4f01-7000-8000-000000000002";
const [ofDatabase, ofCopy] = ["svc-db-018f3a6e4f007000", "svc-dbcopy-018f3a6e4f017000"];

function aRecord(
  spec: NonNullable<MessageInitShape<typeof PlacementSchema>["spec"]>,
  { desired = Desired.RUNNING, observed = Observed.RUNNING }: { desired?: Desired; observed?: Observed } = {},
) {
  const record = newRecord(create(PlacementSchema, { placementId: "p", desired, spec }), new Date(0));
  record.status.observed = observed;
  return record;
}
const database = { case: "database", value: { databaseId } } as const;
const keeper = { case: "keeper", value: { copyId, databaseId } } as const;
const restored = { case: "database", value: { databaseId, generation: 2, restore: { copyId } } } as const;

test.each([
  { what: "a server", records: [aRecord(database)], volumes: [ofDatabase] },
  {
    what: "a server of a later generation, and the copy that it is restored from,",
    records: [aRecord(restored)],
    volumes: [`${ofDatabase}-2`, ofCopy],
  },
  { what: "a keeper", records: [aRecord(keeper)], volumes: [ofCopy] },
  { what: "a proof", records: [aRecord({ case: "proof", value: { copyId, databaseId } })], volumes: [ofCopy] },
  { what: "what is to go", records: [aRecord(database, { desired: Desired.REMOVED })], volumes: [ofDatabase] },
  { what: "what failed", records: [aRecord(keeper, { observed: Observed.FAILED })], volumes: [ofCopy] },
  { what: "what is gone", records: [aRecord(database, { observed: Observed.REMOVED })], volumes: [] },
  { what: "an app", records: [aRecord({ case: "serve", value: {} })], volumes: [] },
])("the volumes that $what has are needed", ({ records, volumes }) => {
  expect([...neededVolumes(records)]).toEqual(volumes);
});

test("a copy is kept until its keeper is gone", () => {
  const isKept = (observed: Observed) => heldCopies([aRecord(keeper, { desired: Desired.REMOVED, observed })]);
  expect(isKept(Observed.STOPPED)).toEqual([copyId]);
  expect(isKept(Observed.REMOVED)).toEqual([]);
  expect(heldCopies([aRecord(restored)])).toEqual([]);
});
