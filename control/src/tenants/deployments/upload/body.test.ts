import { setImmediate as turn } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { until } from "./body.ts";

setFlagsFromString("--expose-gc");
const collectGarbage: () => void = runInNewContext("gc");

const mebibyte = 1024 * 1024;
const never = new AbortController().signal;

/** Bytes of buffers that somebody still holds. */
async function held(): Promise<number> {
  collectGarbage();
  await turn();
  collectGarbage();
  return process.memoryUsage().arrayBuffers;
}

test("what has passed is let go while more of a large body comes", async () => {
  async function* body(): AsyncGenerator<Buffer> {
    for (let count = 0; count < 1_024; count += 1) {
      // What comes from a socket comes in turns of the loop.
      if (count % 50 === 0) await turn();
      yield Buffer.alloc(64 * 1024, count & 255);
    }
  }
  const before = await held();
  let peak = 0;
  let bytes = 0;
  for await (const chunk of until(body(), never)) {
    bytes += chunk.length;
    if (bytes % (16 * mebibyte) === 0) peak = Math.max(peak, (await held()) - before);
  }
  expect(bytes).toBe(64 * mebibyte);
  expect(peak).toBeLessThan(4 * mebibyte);
});

test("a body that falls silent ends with the reason of the signal", async () => {
  const gone = new AbortController();
  async function* body(): AsyncGenerator<string> {
    yield "first";
    gone.abort(new Error("too slow"));
    await new Promise(() => {});
  }
  const seen: string[] = [];
  const reading = (async () => {
    for await (const item of until(body(), gone.signal)) seen.push(item);
  })();
  await expect(reading).rejects.toThrow("too slow");
  expect(seen).toEqual(["first"]);
});

test("a signal that was aborted while an item was worked on ends the body before the next one", async () => {
  const gone = new AbortController();
  async function* body(): AsyncGenerator<string> {
    yield "first";
    yield "second";
  }
  const items = until(body(), gone.signal);
  expect((await items.next()).value).toBe("first");
  gone.abort(new Error("the client went away"));
  await expect(items.next()).rejects.toThrow("the client went away");
});

test("a body that breaks off is refused as what it is", async () => {
  async function* body(): AsyncGenerator<string> {
    yield "first";
    throw new Error("unexpected end of the multipart data");
  }
  const items = until(body(), never);
  await items.next();
  await expect(items.next()).rejects.toMatchObject({ code: "VALIDATION" });
});
