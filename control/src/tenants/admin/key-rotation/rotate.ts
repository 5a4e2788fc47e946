import type { Db } from "../../../stores/db/pool.ts";
import { CannotOpen, type Secrets } from "../../../stores/secrets.ts";
import { placeName, type SealedPlace, sealedPlaces } from "./places.ts";
import { listStale, replaceSealed } from "./store.ts";

/** What a rotation did. */
export interface Rotation {
  /** Values that are sealed with the first key now and were not before. */
  resealed: number;
  /** Values that somebody else changed or removed meanwhile; they were left to them. */
  overtaken: number;
  /** Values that do not open where they are: damaged, misplaced, or of a key that is not configured. Untouched. */
  unreadable: { place: string; key: string }[];
}

export interface RotateOptions {
  db: Db;
  /** Has the new key first, and every older one that still seals something. */
  secrets: Secrets;
  places?: readonly SealedPlace[];
  /** Values that are read at once. */
  batch?: number;
  onProgress?(place: string, resealed: number): void;
}

/** A row of which more are not told one by one. */
const unreadableMax = 1000;
/** Writers that still seal with an older key may add values behind us; each pass finds those of the one before. */
const passesMax = 3;

/**
 * Seals every value of the database with the first key, while control serves. Each value is exchanged by itself and
 * only if it is still the one that was read, so no write of anybody is undone, no row stays locked, and it may be
 * killed at any moment and run again: what is done is not looked at twice.
 */
export async function rotate({
  db,
  secrets,
  places = sealedPlaces,
  batch = 50,
  onProgress,
}: RotateOptions): Promise<Rotation> {
  const [keyId] = secrets.keyIds;
  const unreadable = new Map<string, Rotation["unreadable"][number]>();
  const total = { resealed: 0, overtaken: 0 };

  /** Whether there was anything to do. */
  async function pass(place: SealedPlace): Promise<boolean> {
    const before = total.resealed + total.overtaken;
    let after: readonly string[] | null = null;
    for (;;) {
      const values = await listStale(db, place, { keyId, after, limit: batch });
      for (const value of values) {
        const fresh = reseal(secrets, value.sealed, place.aad(...value.key));
        if (fresh === null) {
          const row = { place: placeName(place), key: value.key.join("/") };
          if (unreadable.size < unreadableMax) unreadable.set(`${row.place}/${row.key}`, row);
        } else if (await replaceSealed(db, place, value, fresh)) total.resealed += 1;
        else total.overtaken += 1;
      }
      if (values.length > 0) onProgress?.(placeName(place), total.resealed);
      after = values.at(-1)?.key ?? null;
      if (values.length < batch || after === null) return total.resealed + total.overtaken > before;
    }
  }

  for (const place of places) for (let n = 1; n <= passesMax && (await pass(place)); n += 1);
  return { ...total, unreadable: [...unreadable.values()] };
}

/** The value under the first key; null when it does not open. */
function reseal(secrets: Secrets, sealed: Buffer, aad: string): Buffer | null {
  try {
    return secrets.seal(secrets.open(sealed, aad), aad);
  } catch (error) {
    if (error instanceof CannotOpen) return null;
    throw error;
  }
}
