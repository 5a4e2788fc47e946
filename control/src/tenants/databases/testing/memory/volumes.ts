import type { VolumePlace } from "../../volumes/store.ts";
import { type Tx, type VolumeRow, volumeKey } from "./tables.ts";

export const inHours = ({ now }: Pick<Tx, "now">, hours: number): Date => new Date(now.getTime() + hours * 3_600_000);

/** See `placeVolume` of `volumes/store.ts`. */
export const placeVolume = ({ tables }: Tx, place: VolumePlace): void =>
  void tables.branches.volumes.set(volumeKey(place.databaseId, place.generation), {
    ...{ ...place, state: "current", purgeAt: null, goneAt: null },
  });

/** See `retireVolume` there. */
export const retireVolume = (
  tx: Tx,
  place: VolumePlace,
  { state, keptHours }: { state: "salvage" | "dropped"; keptHours: number },
): void =>
  void tx.tables.branches.volumes.set(volumeKey(place.databaseId, place.generation), {
    ...{ ...place, state, purgeAt: inHours(tx, keptHours) },
    goneAt: tx.tables.branches.volumes.get(volumeKey(place.databaseId, place.generation))?.goneAt ?? null,
  });

const volumesOf = ({ tables }: Tx, databaseId: string): VolumeRow[] =>
  [...tables.branches.volumes.values()].filter((volume) => volume.databaseId === databaseId);

/** See `keepVolumes` there. */
export function keepVolumes(tx: Tx, databaseId: string, keptHours: number): void {
  const least = inHours(tx, keptHours);
  for (const volume of volumesOf(tx, databaseId)) {
    const { state, goneAt, purgeAt } = volume;
    const isThere = state === "salvage" && goneAt === null && purgeAt !== null && purgeAt > tx.now;
    if (isThere && purgeAt < least) volume.purgeAt = least;
  }
}

/** See `findOwnVolume` there. */
export function findOwnVolume({ tables, now }: Tx, databaseId: string, generation: number): VolumeRow | null {
  const volume = tables.branches.volumes.get(volumeKey(databaseId, generation));
  if (volume === undefined || tables.nodes.get(volume.nodeId)?.lifecycle !== "active") return null;
  return volume.goneAt === null && (volume.purgeAt === null || volume.purgeAt > now) ? volume : null;
}

/** See `nextGeneration` of `changes/store.ts`. */
export const nextGeneration = (tx: Tx, { id, generation }: { id: string; generation: number }): number =>
  Math.max(
    generation,
    ...volumesOf(tx, id).map((volume) => volume.generation),
    ...[...tx.tables.branches.changes.values()].flatMap((change) =>
      change.database_id === id ? [change.from_generation] : [],
    ),
  ) + 1;
