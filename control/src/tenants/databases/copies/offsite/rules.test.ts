import { type CopyFile, copyBytesMax } from "@svc/proto";
import { describe, expect, test } from "vitest";
import { basesAmong, nextObjects, type ShippedObject, shippedParts, versionOf, whereabouts } from "./rules.ts";

const file = (path: string, size: number, changes: Partial<CopyFile> = {}): CopyFile => ({
  ...{ path, size, ino: "7", mtimeNs: "1" },
  ...changes,
});
const object = (id: string, ...parts: [of: CopyFile, at: number, length: number][]): ShippedObject => ({
  id,
  parts: parts.map(([of, at, length]) => ({ path: of.path, version: versionOf(of), at, length })),
});
const base = file("bases/000001/base.tar.zst", 20_000_000);
const segment = file("logs/000001/000000010000000000000003", 1_048_576);
const binlog = (size: number) => file("logs/000001/binlog.000001", size, { mtimeNs: String(size) });

const toShip = (files: CopyFile[], ...objects: ShippedObject[]) =>
  [...nextObjects(files, shippedParts(objects))].map((parts) =>
    parts.map(({ path, at, length }) => [path, at, length]),
  );

describe("what is to be put off-site", () => {
  test("is all of a new copy, in objects that are full but for the last", () => {
    const objects = toShip([base, file("reading", 0), segment]);
    expect(objects).toEqual([
      [[base.path, 0, copyBytesMax]],
      [[base.path, copyBytesMax, copyBytesMax]],
      [
        [base.path, 2 * copyBytesMax, base.size - 2 * copyBytesMax],
        [segment.path, 0, segment.size],
      ],
    ]);
  });

  test("goes on in the middle of a file, and is nothing once all is there", () => {
    const first = object("a", [base, 0, copyBytesMax]);
    expect(toShip([base], first)[0]).toEqual([[base.path, copyBytesMax, copyBytesMax]]);
    const rest = object("b", [base, copyBytesMax, base.size - copyBytesMax]);
    expect(toShip([base], first, rest)).toEqual([]);
  });

  test("is all of a file that was changed, and the rest of a log that was added to", () => {
    const before = [object("a", [segment, 0, segment.size], [binlog(500), 0, 500])];
    expect(toShip([{ ...segment, mtimeNs: "2" }, binlog(800)], ...before)).toEqual([
      [
        [segment.path, 0, segment.size],
        [binlog(0).path, 500, 300],
      ],
    ]);
    expect(toShip([{ ...binlog(800), ino: "8" }], ...before)).toEqual([[[binlog(0).path, 0, 800]]]);
  });

  test("nothing is skipped over a part that is missing", () => {
    const gap = object("a", [binlog(500), 0, 100], [binlog(500), 200, 300]);
    expect(toShip([binlog(500)], gap)).toEqual([[[binlog(0).path, 100, 400]]]);
  });
});

describe("where the files are", () => {
  test("is told by object and byte, for all of them", () => {
    const shipped = shippedParts([
      object("a", [base, 0, 5_000_000], [segment, 0, segment.size]),
      object("b", [base, 5_000_000, 15_000_000]),
    ]);
    expect(whereabouts([base, file("reading", 0), segment], shipped)).toEqual([
      { path: base.path, at: 0, length: 5_000_000, objectId: "a", from: 0 },
      { path: base.path, at: 5_000_000, length: 15_000_000, objectId: "b", from: 0 },
      { path: segment.path, at: 0, length: segment.size, objectId: "a", from: 5_000_000 },
    ]);
  });

  test("is not told while part of one is missing", () => {
    expect(whereabouts([base, segment], shippedParts([object("a", [base, 0, base.size])]))).toBeNull();
  });
});

test("only bases that are there are told of", () => {
  const bases = [{ number: 1 }, { number: 2 }, { number: 12 }];
  expect(basesAmong(bases, [base, file("bases/000012/at", 3), file("logs/000002/begun", 1)])).toEqual([
    { number: 1 },
    { number: 12 },
  ]);
});
