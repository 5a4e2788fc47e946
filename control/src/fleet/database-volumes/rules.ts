// @pure
import { copyVolume, databaseVolume } from "@svc/proto";

/** A volume that is known to be, or to have been, on a node, with everything that decides whether it may go. */
export interface KnownVolume {
  of: "database" | "copy";
  /** Of the branch or the copy. */
  id: string;
  /** Of a branch's volume; of a copy it says nothing. */
  generation: number;
  /** Another volume took its place, its branch was dropped, or the copy has ended. */
  isOver: boolean;
  /** The time for which it is kept is over, and with it whatever was begun while it lasted. */
  isDue: boolean;
  /** A branch that is there has its data in it, whatever else is said. */
  isCurrent: boolean;
  /** A change is under way that may go back to it, or comes out of it. */
  isChanging: boolean;
  /** A server, keeper or proof that is not over has it, or may ask for it. */
  isUsed: boolean;
  /** Its node was seen without it after its time. */
  isGone: boolean;
}

export const volumeName = ({ of, id, generation }: Pick<KnownVolume, "of" | "id" | "generation">): string =>
  of === "copy" ? copyVolume(id) : databaseVolume(id, generation);

/** Each alone keeps a volume where it is. */
const keeping: readonly ((volume: KnownVolume) => boolean)[] = [
  ({ isOver }) => !isOver,
  ({ isDue }) => !isDue,
  ({ isCurrent }) => isCurrent,
  ({ isChanging }) => isChanging,
  ({ isUsed }) => isUsed,
];

/** Volumes told of at once; the next ones follow when these are gone. */
export const removedMax = 1_000;

/**
 * Names of the volumes that a node is to remove, sorted, of all that are known of it. Names are shorter than ids: one that
 * anything kept has, too, is not told.
 */
export function volumesToRemove(volumes: readonly KnownVolume[]): string[] {
  const isKept = (volume: KnownVolume): boolean => keeping.some((keeps) => keeps(volume));
  const kept = new Set(volumes.filter(isKept).map(volumeName));
  const useless = volumes.filter((volume) => !volume.isGone && !isKept(volume)).map(volumeName);
  return [...new Set(useless)]
    .filter((name) => !kept.has(name))
    .sort()
    .slice(0, removedMax);
}

/** What a node's word on its volumes changes. */
export interface VolumeNews {
  /** Had their time, and are there no more. */
  gone: KnownVolume[];
  /** Were gone, and are there again: the node may have been without a disk. */
  back: KnownVolume[];
  /** Names of those that nobody knows. */
  unknown: string[];
}

/** @param names of all volumes that the node has, as it says */
export function volumeNews(names: readonly string[], volumes: readonly KnownVolume[]): VolumeNews {
  const present = new Set(names);
  const known = new Set(volumes.map(volumeName));
  const isThere = (volume: KnownVolume): boolean => present.has(volumeName(volume));
  return {
    gone: volumes.filter((volume) => volume.isOver && volume.isDue && !volume.isGone && !isThere(volume)),
    back: volumes.filter((volume) => volume.isGone && isThere(volume)),
    unknown: [...present].filter((name) => !known.has(name)).sort(),
  };
}

const shape = /^svc-db(?:-([0-9a-f]{16})(?:-[0-9]{1,10})?|copy-([0-9a-f]{16}))$/;

/** What agents take for a volume of a database or a copy. */
export const isVolumeName = (name: string): boolean => shape.test(name);

/** What a volume is of, and the first 16 digits of that one's id; null: it is the name of none. */
export function volumeNamed(name: string): { of: KnownVolume["of"]; digits: string } | null {
  const [, ofDatabase, ofCopy] = shape.exec(name) ?? [];
  if (ofCopy !== undefined) return { of: "copy", digits: ofCopy };
  return ofDatabase === undefined ? null : { of: "database", digits: ofDatabase };
}
