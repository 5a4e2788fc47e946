import { randomBytes } from "node:crypto";
import { gzipSync, zstdCompressSync } from "node:zlib";
import { expect, test } from "vitest";
import { tarOf } from "../../tenants/deployments/oci/testing/image.ts";
import { BadLayer } from "./tar-size.ts";
import { measured } from "./unpacked.ts";

const archive = tarOf([{ name: "data", content: randomBytes(30_000) }]);
const mebibyte = 1024 * 1024;

async function* inPieces(content: Buffer, size: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < content.length; at += size) yield content.subarray(at, at + size);
}

async function pass(content: Buffer, size = 65_536, max = Number.POSITIVE_INFINITY) {
  let bytes = 0;
  const parts: Buffer[] = [];
  const count = (more: number) => {
    bytes += more;
    if (bytes > max) throw new Error("too much");
  };
  for await (const part of measured(inPieces(content, size), count)) parts.push(part);
  return { bytes, passed: Buffer.concat(parts) };
}

test.each([
  { kind: "gzip", layer: gzipSync(archive) },
  {
    kind: "gzip of two members",
    layer: Buffer.concat([gzipSync(archive.subarray(0, 999)), gzipSync(archive.subarray(999))]),
  },
  { kind: "zstd", layer: zstdCompressSync(archive) },
  { kind: "uncompressed", layer: archive },
])("a layer in $kind passes unchanged and counts what it unpacks to", async ({ layer }) => {
  for (const size of [5, 1000, 65_536]) {
    const { bytes, passed } = await pass(layer, size);
    expect(bytes).toBe(archive.length);
    expect(passed.equals(layer)).toBe(true);
  }
});

test("an empty layer is one", async () => {
  expect(await pass(Buffer.alloc(0))).toEqual({ bytes: 0, passed: Buffer.alloc(0) });
});

test("a bomb is stopped as soon as it is over the limit", async () => {
  const zeros = 100 * mebibyte;
  const bomb = gzipSync(
    Buffer.concat([tarOf([{ name: "zeros", size: zeros }]).subarray(0, 512), Buffer.alloc(zeros)]),
    {
      level: 1,
    },
  );
  expect(bomb.length).toBeLessThan(mebibyte);
  let bytes = 0;
  const passing = (async () => {
    for await (const _ of measured(inPieces(bomb, 65_536), (more) => {
      bytes += more;
      if (bytes > 10 * mebibyte) throw new Error("too much");
    }));
  })();
  await expect(passing).rejects.toThrow("too much");
  expect(bytes).toBeLessThan(11 * mebibyte);
});

test.each([
  { when: "it is cut off", layer: gzipSync(archive).subarray(0, -100) },
  { when: "it is damaged", layer: Buffer.concat([gzipSync(archive).subarray(0, 1000), Buffer.alloc(1000)]) },
  { when: "it is bzip2", layer: Buffer.from("BZh91AY&SY") },
  { when: "it is a few bytes", layer: Buffer.from("abc") },
  { when: "it holds no archive", layer: gzipSync(Buffer.alloc(2000, "x")) },
])("refused when $when", async ({ layer }) => {
  await expect(pass(layer)).rejects.toThrow(BadLayer);
});

test("what is wrong with the source counts more than what is wrong with its content", async () => {
  async function* lying(): AsyncGenerator<Buffer> {
    yield Buffer.alloc(5000, "x");
    throw new Error("another digest");
  }
  const passing = (async () => {
    for await (const _ of measured(lying(), () => {}));
  })();
  await expect(passing).rejects.toThrow("another digest");
});
