import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { databaseProxyTable } from "@svc/proto/database-proxy";
import { type DatabaseEntry, DatabaseEntry_State, DatabaseEntrySchema } from "@svc/proto/node";
import { expect, test } from "vitest";
import { type Here, nothingTold, proxyEntries, type Told, takeTable } from "./table.ts";

const [one, two] = ["018f3a6e-4f00-7000-8000-000000000001", "018f3a6e-4f00-7000-8000-000000000002"] as const;
const [own, other] = ["018f3a6e-4f00-7000-8000-00000000000a", "018f3a6e-4f00-7000-8000-00000000000b"] as const;

const anEntry = (changes: MessageInitShape<typeof DatabaseEntrySchema> = {}): DatabaseEntry =>
  create(DatabaseEntrySchema, {
    ...{ databaseId: one, epoch: 3n, engine: "postgres", role: "r_1", database: "d_1" },
    ...{ projectId: "p1", channel: "production", nodeId: own, address: "10.0.0.7" },
    ...{ connectionLimit: 20, state: DatabaseEntry_State.OPEN },
    ...changes,
  });
const here: Here = {
  nodeId: own,
  peerPort: 7445,
  bridges: [
    { projectId: "p1", channel: "production", address: "10.213.0.17" },
    { projectId: "p1", channel: "preview", address: "10.213.0.33" },
    { projectId: "p2", channel: "production", address: "10.213.0.49" },
  ],
  socketOf: ({ databaseId, epoch }) => (databaseId === one && epoch === 3n ? "/run/one.sock" : null),
  doorOf: (copyId, engine) => `/run/${copyId}/${engine}.sock`,
};
const take = (known: Told, entries: DatabaseEntry[], goneIds: string[] = []) => takeTable(known, { entries, goneIds });
const told = (...entries: DatabaseEntry[]): Told => take(nothingTold, entries).told;

test.each([
  { when: "its instance serves here", entry: anEntry(), at: { socket: "/run/one.sock" } },
  { when: "its instance does not serve here", entry: anEntry({ databaseId: two }), at: null },
  { when: "an instance of another epoch serves here", entry: anEntry({ epoch: 4n }), at: null },
  {
    when: "control says that it is on another node",
    entry: anEntry({ nodeId: other, address: "10.0.0.8" }),
    at: { nodeId: other, host: "10.0.0.8", port: 7445 },
  },
  { when: "the other node has no address", entry: anEntry({ nodeId: other, address: "" }), at: null },
  { when: "it is nowhere", entry: anEntry({ nodeId: "", address: "" }), at: null },
])("a database is found when $when", ({ entry, at }) => {
  expect(proxyEntries([entry], here)[0]?.at).toEqual(at);
});

test.each([
  { when: "of its channel", entry: anEntry(), bridges: ["10.213.0.17"] },
  { when: "of its other channel", entry: anEntry({ channel: "preview" }), bridges: ["10.213.0.33"] },
  { when: "of its project", entry: anEntry({ projectId: "p2" }), bridges: ["10.213.0.49"] },
  { when: "that are not here", entry: anEntry({ channel: "dev" }), bridges: [] },
])("only containers $when get in", ({ entry, bridges }) => {
  expect(proxyEntries([entry], here)[0]?.bridges).toEqual(bridges);
});

test("the keeper of a copy that is kept here has a door, and one that is kept elsewhere may be dialled for", () => {
  const copies = [
    { copyId: two, nodeId: other },
    { copyId: one, nodeId: own },
  ];
  expect(proxyEntries([anEntry({ copies })], here)[0]?.copies).toEqual([
    { copyId: one, nodeId: own, door: `/run/${one}/postgres.sock` },
    { copyId: two, nodeId: other, door: null },
  ]);
});

test("what is written is what the proxy reads, and equal tables are equal", () => {
  const entries = [anEntry({ databaseId: two, state: DatabaseEntry_State.HELD }), anEntry()];
  const table = { generation: "1", entries: proxyEntries(entries, here) };
  expect(databaseProxyTable.parse(table)).toEqual(table);
  expect(table.entries.map(({ databaseId, state }) => [databaseId, state])).toEqual([
    [one, "open"],
    [two, "held"],
  ]);
  expect(proxyEntries(entries.toReversed(), here)).toEqual(table.entries);
});

test.each([
  { when: "it is new", known: nothingTold, entry: anEntry(), epoch: 3n },
  { when: "its epoch has risen", known: told(anEntry()), entry: anEntry({ epoch: 4n }), epoch: 4n },
  { when: "its epoch is as it was", known: told(anEntry()), entry: anEntry({ role: "r_2" }), epoch: 3n },
])("an entry is taken when $when", ({ known, entry, epoch }) => {
  const { told, refused } = take(known, [entry]);
  expect(told.entries).toEqual([entry]);
  expect(told.epochs.get(one)).toBe(epoch);
  expect(refused).toEqual([]);
});

test.each([
  { when: "its epoch is lower than before", entry: anEntry({ epoch: 2n }) },
  { when: "nobody knows its engine", entry: anEntry({ engine: "other" }) },
  { when: "nobody knows its state", entry: anEntry({ state: DatabaseEntry_State.UNSPECIFIED }) },
  { when: "it names no role", entry: anEntry({ role: "" }) },
])("an entry is refused when $when, and what was known stays", ({ entry }) => {
  const before = anEntry();
  const { told: after, refused } = take(told(before), [entry]);
  expect(after.entries).toEqual([before]);
  expect(after.epochs.get(one)).toBe(3n);
  expect(refused).toEqual([one]);
});

test("an entry of a lower epoch is refused although the database was in no table meanwhile", () => {
  const without = take(told(anEntry()), []).told;
  expect(without.entries).toEqual([]);
  const { told: after, refused } = take(without, [anEntry({ epoch: 2n }), anEntry({ databaseId: two })]);
  expect(after.entries.map(({ databaseId }) => databaseId)).toEqual([two]);
  expect(refused).toEqual([one]);
});

test("of a database that is named twice the higher epoch counts, in either order", () => {
  const [low, high] = [anEntry({ epoch: 3n }), anEntry({ epoch: 4n })];
  expect(take(nothingTold, [low, high]).told.entries).toEqual([high]);
  expect(take(nothingTold, [high, low]).told.entries).toEqual([high]);
});

test("who is gone is taken as the last table says, and what is no id keeps none of the others out", () => {
  const known = take(nothingTold, [], [two]).told;
  expect(take(known, [], [own, "n7", other]).told.goneIds).toEqual([own, other]);
  expect(take(known, []).told.goneIds).toEqual([]);
});
