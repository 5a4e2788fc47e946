import { expect, test } from "vitest";
import { snapshotChanges } from "./diff.ts";
import type { Entry } from "./entry.ts";

const entry = (key: string, modRevision: bigint, value = "v", createRevision = 1n): Entry => ({
  key,
  value,
  createRevision,
  modRevision,
  leaseId: 0n,
});
const known = new Map([entry("a", 2n), entry("b", 3n)].map((one) => [one.key, one]));

test.each([
  { when: "nothing changed", snapshot: [entry("a", 2n), entry("b", 3n)], changes: [] },
  { when: "a key changed", snapshot: [entry("a", 2n), entry("b", 8n)], changes: ["put b 8"] },
  { when: "a key went", snapshot: [entry("b", 3n)], changes: ["delete a 9"] },
  { when: "a key came", snapshot: [entry("a", 2n), entry("b", 3n), entry("c", 9n)], changes: ["put c 9"] },
  { when: "a key was made anew", snapshot: [entry("a", 7n, "v", 7n), entry("b", 3n)], changes: ["put a 7"] },
  { when: "a restored store reused a revision", snapshot: [entry("a", 2n, "w"), entry("b", 3n)], changes: ["put a 2"] },
  { when: "everything went", snapshot: [], changes: ["delete a 9", "delete b 9"] },
])("when $when", ({ snapshot, changes }) => {
  const found = snapshotChanges(known, snapshot, 9n);
  expect(found.map(({ type, key, modRevision }) => `${type} ${key} ${modRevision}`)).toEqual(changes);
});
