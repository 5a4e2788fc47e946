// @pure

/** What a list is of: a place in it means nothing in another one. */
export type Listing = readonly (string | null)[];

/** Stands for a listing without showing it (FNV-1a): what is read back is compared, and nothing rests on it. */
function markOf(listing: Listing): string {
  let mark = 0xcbf29ce484222325n;
  for (const byte of new TextEncoder().encode(JSON.stringify(listing)))
    mark = BigInt.asUintN(64, (mark ^ BigInt(byte)) * 0x100000001b3n);
  return mark.toString(16);
}

/** Where a page of runs ended, opaque to clients. */
export const writeCursor = (listing: Listing, number: number): string => btoa(`r${number}.${markOf(listing)}`);

/** The number inside a cursor of that listing; null for anything that is none. */
export function readCursor(listing: Listing, cursor: string): number | null {
  if (!/^[A-Za-z0-9+/]+=*$/.test(cursor) || cursor.length % 4 !== 0) return null;
  const [, digits, mark] = /^r([0-9]{1,15})\.([0-9a-f]+)$/.exec(atob(cursor)) ?? [];
  return digits !== undefined && mark === markOf(listing) ? Number(digits) : null;
}
