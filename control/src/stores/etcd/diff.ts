import type { Entry, WatchEvent } from "./entry.ts";

/** Entries by key. */
export type Entries = ReadonlyMap<string, Entry>;

const same = (a: Entry, b: Entry) =>
  a.modRevision === b.modRevision && a.createRevision === b.createRevision && a.value === b.value;

/**
 * The changes that lead from `known` to a snapshot: what differs is put, what is missing is deleted (at the
 * snapshot's revision, as the real one is not known). Nothing for what is the same.
 */
export function snapshotChanges(known: Entries, snapshot: readonly Entry[], revision: bigint): WatchEvent[] {
  const present = new Set(snapshot.map((entry) => entry.key));
  const gone = [...known.keys()].filter((key) => !present.has(key));
  const changed = snapshot.filter((entry) => {
    const before = known.get(entry.key);
    return before === undefined || !same(before, entry);
  });
  return [
    ...gone.map((key) => ({ type: "delete", key, modRevision: revision }) as const),
    ...changed.map((entry) => ({ type: "put", key: entry.key, modRevision: entry.modRevision, entry }) as const),
  ];
}
