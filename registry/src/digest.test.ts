import { once } from "node:events";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { describe, expect, test } from "vitest";
import { digestOf, verified } from "./digest.ts";

const content = Buffer.from("hello, artifact");
const digest = digestOf(content);
const inPieces = (bytes: Buffer): Readable => Readable.from([bytes.subarray(0, 5), bytes.subarray(5)]);

describe("a verified stream", () => {
  test("passes on what it was promised", async () => {
    const passed = await buffer(verified(inPieces(content), { digest, sizeBytes: content.length, maxSizeBytes: 100 }));
    expect(passed.equals(content)).toBe(true);
  });

  const flipped = Buffer.from(content);
  flipped[3] = 0;
  test.each([
    { when: "a byte is wrong", bytes: flipped, more: {}, code: "ARTIFACT_DIGEST_MISMATCH" },
    {
      when: "bytes are missing",
      bytes: content.subarray(1),
      more: { sizeBytes: 15 },
      code: "ARTIFACT_DIGEST_MISMATCH",
    },
    { when: "there are more than declared", bytes: content, more: { sizeBytes: 3 }, code: "ARTIFACT_DIGEST_MISMATCH" },
    { when: "there are more than allowed", bytes: content, more: { maxSizeBytes: 9 }, code: "ARTIFACT_TOO_LARGE" },
  ])("errors when $when", async ({ bytes, more, code }) => {
    await expect(buffer(verified(inPieces(bytes), { digest, ...more }))).rejects.toMatchObject({ code });
  });

  test("errors as unavailable when the source breaks off", async () => {
    const broken = Readable.from(
      (async function* () {
        yield content.subarray(0, 4);
        throw new Error("reset");
      })(),
    );
    await expect(buffer(verified(broken, { digest }))).rejects.toMatchObject({
      code: "ARTIFACT_REGISTRY_UNAVAILABLE",
      temporary: true,
    });
  });

  test("destroys its source when the reader goes away", async () => {
    const source = inPieces(content);
    for await (const _ of verified(source, { digest })) break;
    // It goes after the reader, and not at the same moment.
    if (!source.destroyed) await once(source, "close");
    expect(source.destroyed).toBe(true);
  });
});
