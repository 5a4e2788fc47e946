import { constants, crc32, gunzipSync, gzipSync } from "node:zlib";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createGunzip, InvalidGzipError } from "./gunzip.ts";

/** What the bytes inflate to when they arrive in pieces, or the clause that refuses them. */
async function inflated(bytes: Uint8Array, pieceBytes = bytes.length): Promise<Buffer | string> {
  const out: Buffer[] = [];
  using gunzip = createGunzip((chunk) => void out.push(Buffer.from(chunk)));
  try {
    for (let at = 0; at < bytes.length; at += pieceBytes)
      await gunzip.write(Buffer.from(bytes.subarray(at, at + pieceBytes)));
    await gunzip.end();
    return Buffer.concat(out);
  } catch (error) {
    if (error instanceof InvalidGzipError) return error.message;
    throw error;
  }
}

const hello = gzipSync("hello");
/** RFC 1952 with every optional field: extra, name, comment, header checksum. */
const fancyHeader = Buffer.concat([
  Buffer.of(0x1f, 0x8b, 8, 0x1e, 0, 0, 0, 0, 0, 3, 4, 0),
  Buffer.from("abcdname\0comment\0"),
]);
const headerSum = Buffer.alloc(2);
headerSum.writeUInt16LE(crc32(fancyHeader) & 0xffff);
const decorated = Buffer.concat([fancyHeader, headerSum, hello.subarray(10)]);

describe("one file", () => {
  test("inflates to what went in, in pieces of any size", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.uint8Array({ maxLength: 3000 }),
        fc.integer({ min: 1, max: 700 }),
        async (content, pieceBytes) => {
          expect(await inflated(gzipSync(content), pieceBytes)).toEqual(Buffer.from(content));
        },
      ),
    );
  });

  test("of many chunks, with optional fields, and stored without compression", async () => {
    const big = Buffer.alloc(3_000_000, "svc ");
    expect(big.equals(Buffer.from(await inflated(gzipSync(big), 64 * 1024)))).toBe(true);
    expect(big.equals(Buffer.from(await inflated(gzipSync(big, { level: constants.Z_NO_COMPRESSION }), 10_000)))).toBe(
      true,
    );
    expect(gunzipSync(decorated).toString()).toBe("hello");
    for (const pieceBytes of [1, 7, 1000]) expect(String(await inflated(decorated, pieceBytes))).toBe("hello");
  });
});

describe("what is no single file is refused, wherever it is cut into chunks", () => {
  const flipped = (at: number): Buffer => {
    const copy = Buffer.from(hello);
    copy[at] = (copy[at] ?? 0) ^ 0xff;
    return copy;
  };
  test.each<{ when: string; bytes: Buffer; because: string }>([
    { when: "there is nothing", bytes: Buffer.alloc(0), because: "empty" },
    { when: "it is something else", bytes: Buffer.from("PK\u0003\u0004 zip"), because: "not gzipped" },
    {
      when: "it is compressed in an unknown way",
      bytes: Buffer.from([0x1f, 0x8b, 7, ...hello.subarray(3)]),
      because: "not gzipped",
    },
    { when: "a second file follows", bytes: Buffer.concat([hello, hello]), because: "follows" },
    { when: "zeros follow", bytes: Buffer.concat([hello, Buffer.alloc(1)]), because: "follows" },
    { when: "the beginning of a file follows", bytes: Buffer.concat([hello, Buffer.of(0x1f)]), because: "follows" },
    { when: "garbage follows", bytes: Buffer.concat([hello, Buffer.from("garbage")]), because: "follows" },
    { when: "its checksum is wrong", bytes: flipped(hello.length - 8), because: "checksum" },
    { when: "its length is wrong", bytes: flipped(hello.length - 1), because: "checksum" },
    {
      when: "its header's checksum is wrong",
      bytes: Buffer.concat([fancyHeader, Buffer.alloc(2), hello.subarray(10)]),
      because: "checksum",
    },
    { when: "its data is damaged", bytes: flipped(10), because: "damaged" },
    {
      when: "its header does not end",
      bytes: Buffer.concat([Buffer.of(0x1f, 0x8b, 8, 8, 0, 0, 0, 0, 0, 3), Buffer.alloc(9000, "n")]),
      because: "header",
    },
  ])("when $when", async ({ bytes, because }) => {
    for (const pieceBytes of [1, 2, 3, 8, bytes.length || 1])
      expect(await inflated(bytes, pieceBytes)).toContain(because);
  });

  test("when it is cut anywhere", async () => {
    for (let end = 0; end < decorated.length; end++)
      expect(typeof (await inflated(decorated.subarray(0, end)))).toBe("string");
  });
});

test("whoever takes the bytes can refuse them, and is given no more", async () => {
  let calls = 0;
  using gunzip = createGunzip(() => {
    calls += 1;
    throw new RangeError("enough");
  });
  await expect(gunzip.write(gzipSync(Buffer.alloc(50_000_000)))).rejects.toThrow("enough");
  expect(calls).toBe(1);
});
