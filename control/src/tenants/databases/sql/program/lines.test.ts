import { Duplex } from "node:stream";
import { expect, test } from "vitest";
import { endFrame, frameOf } from "../frames.ts";
import { createLines } from "./lines.ts";

/** A pipe whose other side is the test: what it hands over, and what was written to it. */
function aPipe(): { pipe: Duplex; hand(...bytes: Buffer[]): void; written: Buffer[] } {
  const written: Buffer[] = [];
  const pipe = new Duplex({
    read() {},
    write(chunk: Buffer, _, done) {
      written.push(chunk);
      done();
    },
  });
  return { pipe, hand: (...bytes) => void pipe.push(Buffer.concat(bytes)), written };
}

const frame = (text: string) => Buffer.concat(frameOf(Buffer.from(text)));

async function textOf(stream: Duplex): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of stream) parts.push(part as Buffer);
  return Buffer.concat(parts).toString();
}

test("a server that speaks first is heard, before anybody asks for its connection", async () => {
  const { pipe, hand } = aPipe();
  const lines = createLines(pipe);
  hand(frame("hello"), frame(" you"), endFrame);
  await expect.poll(() => pipe.readableLength).toBe(0);
  expect(await textOf(lines.open())).toBe("hello you");
});

test("what comes behind the end is the next connection's, whoever ended first", async () => {
  const { pipe, hand, written } = aPipe();
  const lines = createLines(pipe);
  lines.open();
  const closed = lines.close();
  hand(frame("too late"), endFrame, frame("next"), endFrame);
  await closed;
  expect(Buffer.concat(written)).toEqual(endFrame);
  expect(await textOf(lines.open())).toBe("next");
  await lines.close();
  hand(frame("third"), endFrame);
  expect(await textOf(lines.open())).toBe("third");
});

test("a connection that the server ended is closed for the driver, too", async () => {
  const { pipe, hand } = aPipe();
  const line = createLines(pipe).open();
  const closed = new Promise<void>((resolve) => line.once("close", () => resolve()));
  line.resume();
  hand(frame("last words"), endFrame);
  await closed;
});
