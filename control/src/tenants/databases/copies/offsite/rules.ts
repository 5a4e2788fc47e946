// @pure
import { type CopyFile, type CopyPart, copyBytesMax, copyPartsMax } from "@svc/proto";

/** Part of a file that is, or is to be, off-site: of the file as it was in that version. */
export interface VersionedPart extends CopyPart {
  version: string;
}

/** An object with what is in it, one part after the other. */
export interface ShippedObject {
  id: string;
  parts: readonly VersionedPart[];
}

/** Where a part is: in which object, and from which of its bytes on. */
interface PlacedPart extends CopyPart {
  objectId: string;
  from: number;
}

/** Files of MariaDB's log are only ever added to, and one that is received anew has the same bytes. */
const isAppended = (path: string): boolean => /^logs\/[0-9]{6}\/binlog\.[0-9]{6}$/.test(path);

/** Parts of one version go together, whenever they were read. */
export const versionOf = ({ path, ino, size, mtimeNs }: CopyFile): string =>
  isAppended(path) ? ino : `${ino} ${size} ${mtimeNs}`;

/** The newest file of PostgreSQL's log, which has another name once it is whole. */
export const isPartial = (path: string): boolean => path.endsWith(".partial");

/** Which parts there are of each version of each file. */
export type Shipped = ReadonlyMap<string, ReadonlyMap<number, PlacedPart>>;

const keyOf = (path: string, version: string): string => `${path} ${version}`;

export function shippedParts(objects: readonly ShippedObject[]): Shipped {
  const shipped = new Map<string, Map<number, PlacedPart>>();
  for (const { id: objectId, parts } of objects) {
    let from = 0;
    for (const { version, ...part } of parts) {
      const key = keyOf(part.path, version);
      const known = shipped.get(key) ?? new Map<number, PlacedPart>();
      shipped.set(key, known.set(part.at, { ...part, objectId, from }));
      from += part.length;
    }
  }
  return shipped;
}

/** The parts of a file that are off-site from its beginning on, without a gap. */
function placedParts(shipped: Shipped, file: CopyFile): PlacedPart[] {
  const known = shipped.get(keyOf(file.path, versionOf(file)));
  const placed: PlacedPart[] = [];
  for (let at = 0, part = known?.get(0); part !== undefined && part.length > 0; part = known?.get(at)) {
    placed.push(part);
    at += part.length;
  }
  return placed;
}

const lengthOf = (parts: readonly CopyPart[]): number => parts.reduce((sum, { length }) => sum + length, 0);

/**
 * What is still to be put off-site of these files, in order, in portions of one object each. One at a time: how many they are is a
 * node's word.
 */
export function* nextObjects(files: readonly CopyFile[], shipped: Shipped): Generator<VersionedPart[]> {
  let open: VersionedPart[] = [];
  let room = copyBytesMax;
  for (const file of files) {
    for (let at = lengthOf(placedParts(shipped, file)); at < file.size; ) {
      const length = Math.min(file.size - at, room);
      open.push({ path: file.path, version: versionOf(file), at, length });
      at += length;
      room -= length;
      if (room > 0 && open.length < copyPartsMax) continue;
      yield open;
      open = [];
      room = copyBytesMax;
    }
  }
  if (open.length > 0) yield open;
}

/** Where every byte of these files is; null: of some of them not all is off-site. */
export function whereabouts(files: readonly CopyFile[], shipped: Shipped): PlacedPart[] | null {
  const placed: PlacedPart[] = [];
  for (const file of files) {
    const parts = placedParts(shipped, file);
    if (lengthOf(parts) < file.size) return null;
    placed.push(...parts);
  }
  return placed;
}

/** Bases of which the files are among these. */
export function basesAmong<Base extends { number: number }>(
  bases: readonly Base[],
  files: readonly CopyFile[],
): Base[] {
  const there = new Set(files.flatMap(({ path }) => /^bases\/([0-9]{6})\//.exec(path)?.[1] ?? []));
  return bases.filter(({ number }) => there.has(String(number).padStart(6, "0")));
}
