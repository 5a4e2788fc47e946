// @pure
import { copyVolume, databaseVolume } from "@svc/proto";
import { Observed } from "@svc/proto/node";
import type { PlacementRecord } from "../journal/records.ts";

/** Copies that placements of this node keep, or have yet to end keeping. */
export const heldCopies = (records: readonly PlacementRecord[]): string[] =>
  records.filter(isThere).flatMap(({ placement: { spec } }) => (spec.case === "keeper" ? [spec.value.copyId] : []));

/** Names of the volumes that placements of this node have or may yet ask for, those that are to stop included. */
export const neededVolumes = (records: readonly PlacementRecord[]): Set<string> =>
  new Set(records.filter(isThere).flatMap(volumesOf));

const isThere = ({ status }: PlacementRecord): boolean => status.observed !== Observed.REMOVED;

function volumesOf({ placement: { spec } }: PlacementRecord): string[] {
  switch (spec.case) {
    case "database": {
      const { databaseId, generation, restore } = spec.value;
      const own = databaseVolume(databaseId, generation);
      return restore === undefined ? [own] : [own, copyVolume(restore.copyId)];
    }
    case "keeper":
    case "proof":
      return [copyVolume(spec.value.copyId)];
    default:
      return [];
  }
}
