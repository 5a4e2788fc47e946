import { bytesOf } from "./entry.ts";

/** A range of keys as etcd takes it: `[key, rangeEnd)`, or the one key when `rangeEnd` is empty. */
export interface KeyRange {
  readonly key: Uint8Array;
  readonly rangeEnd: Uint8Array;
}

const wholeStore: KeyRange = { key: Uint8Array.of(0), rangeEnd: Uint8Array.of(0) };

/** The range of one key. */
export const oneKey = (key: string): KeyRange => ({ key: bytesOf(key), rangeEnd: new Uint8Array() });

/** The range of every key that starts with `prefix`; the empty prefix is the whole store. */
export function underPrefix(prefix: string): KeyRange {
  const key = bytesOf(prefix);
  // The end is the prefix with its last byte raised; bytes that cannot be raised are cut off first.
  for (let last = key.length - 1; last >= 0; last--) {
    const byte = key[last] ?? 0xff;
    if (byte === 0xff) continue;
    const rangeEnd = Uint8Array.from(key.subarray(0, last + 1));
    rangeEnd[last] = byte + 1;
    return { key, rangeEnd };
  }
  return key.length === 0 ? wholeStore : { key, rangeEnd: Uint8Array.of(0) };
}

/** What is left of `range` after the key `last` (the range's next page). */
export const after = (range: KeyRange, last: Uint8Array): KeyRange => {
  const key = new Uint8Array(last.length + 1);
  key.set(last);
  return { key, rangeEnd: range.rangeEnd };
};
