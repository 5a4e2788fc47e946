import fc from "fast-check";
import { expect, test } from "vitest";
import { createFrameReader, endFrame, frameBytesMax, frameOf } from "./frames.ts";

/** What a reader makes of bytes that come in portions of `size`: texts, and null for an end. */
function readIn(size: number, bytes: Buffer): (string | null)[] {
  const heard: (string | null)[] = [];
  const read = createFrameReader({
    bytes: (chunk) => heard.push(chunk.toString("latin1")),
    end: () => heard.push(null),
  });
  for (let at = 0; at < bytes.length; at += size) read(bytes.subarray(at, at + size));
  return heard;
}

/** Connections that follow one another. */
const connections = (heard: readonly (string | null)[]): string[] =>
  heard
    .map((part) => part ?? "\n")
    .join("")
    .split("\n")
    .slice(0, -1);

test("connections stay apart, in whatever portions their bytes come", () => {
  const texts = fc.array(fc.array(fc.stringMatching(/^[a-z]{1,40}$/), { maxLength: 5 }), {
    minLength: 1,
    maxLength: 5,
  });
  fc.assert(
    fc.property(texts, fc.integer({ min: 1, max: 64 }), (sent, size) => {
      const bytes = sent.flatMap((parts) => [...parts.flatMap((part) => frameOf(Buffer.from(part))), endFrame]);
      expect(connections(readIn(size, Buffer.concat(bytes)))).toEqual(sent.map((parts) => parts.join("")));
    }),
  );
});

test("a frame that is larger than any may be is none", () => {
  const header = Buffer.alloc(4);
  header.writeUInt32BE(frameBytesMax + 1);
  expect(() => readIn(8, header)).toThrow("a frame of");
});
