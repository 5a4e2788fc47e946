import { expect, test } from "vitest";
import { paxEntry, type TarEntry, tarOf } from "../../tenants/deployments/oci/testing/image.ts";
import { BadLayer, TarSize } from "./tar-size.ts";

const file = (name: string, size: number): TarEntry => ({ name, content: Buffer.alloc(size, "x") });

/** Reads the archive in pieces of `size` bytes. */
function read(archive: Buffer, size: number): number {
  const tar = new TarSize();
  for (let at = 0; at < archive.length; at += size) tar.add(archive.subarray(at, at + size));
  tar.end();
  return tar.bytes;
}

const whole = tarOf([file("a", 700), { name: "dir/", type: "5" }, file("b", 512), file("c", 0)]);

test.each([
  { when: "it is an ordinary archive", archive: whole },
  { when: "it is empty", archive: Buffer.alloc(0) },
  { when: "it has only its end", archive: tarOf([]) },
  { when: "its end is missing", archive: whole.subarray(0, -1024) },
  { when: "something follows its end", archive: Buffer.concat([whole, Buffer.from("trailer")]) },
  {
    when: "an extended header gives the size",
    archive: tarOf([paxEntry({ mtime: "1.5", size: "600" }), { ...file("a", 600), size: 0 }, file("b", 1)]),
  },
  {
    when: "it has a long name",
    archive: tarOf([{ name: "././@LongLink", type: "L", content: Buffer.from("n") }, file("a", 3)]),
  },
  { when: "a link has a size", archive: tarOf([{ name: "link", type: "2", size: 999 }, file("a", 3)]) },
  { when: "names are not UTF-8", archive: tarOf([{ name: "\xff\xfe" }]) },
])("taken when $when, in pieces of every size", ({ archive }) => {
  for (const size of [1, 7, 512, 513, 100_000]) expect(read(archive, size)).toBe(archive.length);
});

const damaged = Buffer.from(whole);
damaged.writeUInt8(damaged.readUInt8(3) ^ 1, 3);

test.each([
  { when: "a header is damaged", archive: damaged },
  { when: "it is no archive", archive: Buffer.alloc(2048, "<html>") },
  { when: "it breaks off in a file", archive: whole.subarray(0, 1000) },
  { when: "it breaks off in a header", archive: whole.subarray(0, 300) },
  { when: "it has a sparse file of the old kind", archive: tarOf([{ name: "hole", type: "S" }]) },
  {
    when: "it has a sparse file of the new kind",
    archive: tarOf([paxEntry({ "GNU.sparse.realsize": "1099511627776" }), file("hole", 10)]),
  },
  {
    when: "an extended header is damaged",
    archive: tarOf([{ name: "pax", type: "x", content: Buffer.from("99 a=b\n") }]),
  },
  { when: "an extended header is endless", archive: tarOf([{ name: "pax", type: "x", size: 2 ** 30 }]) },
])("refused when $when", ({ archive }) => {
  expect(() => read(archive, 512)).toThrow(BadLayer);
  expect(() => read(archive, 1)).toThrow(BadLayer);
});
