import { systemClock } from "@svc/runtime/system";
import { expect, test } from "vitest";
import { createLog } from "../log.ts";
import { type Append, openLogStream } from "./log-stream.ts";

/** Stores logs by offset, as control does. `failures` calls are stored and then answered with an error. */
function createStore(options: { failures?: number; before?: string } = {}) {
  let stored = Buffer.from(options.before ?? "");
  let failures = options.failures ?? 0;
  let final = false;
  const append: Append = async (request) => {
    const known = stored.length - Number(request.offset);
    stored = Buffer.concat([stored, request.data.subarray(Math.max(0, known))]);
    final ||= request.final;
    if (failures > 0) {
      failures -= 1;
      throw new Error("the answer was lost");
    }
    return BigInt(stored.length);
  };
  return { append, text: () => stored.toString(), isFinal: () => final };
}

const open = (append: Append, changes: { replays?: boolean; maxBytes?: number } = {}) =>
  openLogStream({
    clock: systemClock,
    streamId: "s",
    append,
    replays: changes.replays ?? false,
    maxBytes: changes.maxBytes ?? 1_000_000,
    signal: new AbortController().signal,
    log: createLog("silent"),
  });

test("what is written arrives in order, and the last call says so", async () => {
  const store = createStore();
  const stream = open(store.append);
  stream.write("one\n");
  stream.write("two\n");
  stream.end();
  await stream.done;
  expect(store.text()).toBe("one\ntwo\n");
  expect(store.isFinal()).toBe(true);
});

test("an answer that got lost stores nothing twice", async () => {
  const store = createStore({ failures: 3 });
  const stream = open(store.append);
  stream.write("one\n");
  stream.end();
  await stream.done;
  expect(store.text()).toBe("one\n");
});

test("output that is read again from its beginning is not stored again", async () => {
  const store = createStore({ before: "one\ntw" });
  const stream = open(store.append, { replays: true });
  stream.write("one\n");
  stream.write("two\nthree\n");
  stream.end();
  await stream.done;
  expect(store.text()).toBe("one\ntwo\nthree\n");
});

test("text that is made anew goes behind what is there", async () => {
  const store = createStore({ before: "first try\n" });
  const stream = open(store.append);
  stream.write("second try\n");
  stream.end();
  await stream.done;
  expect(store.text()).toBe("first try\nsecond try\n");
});

test("what does not fit is left out with a note, and its end is kept", async () => {
  const store = createStore();
  const stream = open(store.append, { maxBytes: 40 });
  stream.write("0123456789 123456789\n");
  for (const line of ["one is too much\n", "two\n", "three\n"]) stream.write(line);
  stream.end();
  await stream.done;
  expect(store.text()).toBe("0123456789 123456789\n[1 line left out, 16 bytes]\ntwo\nthree\n");
});

test("long text is sent in pieces of whole lines", async () => {
  const store = createStore();
  const pieces: string[] = [];
  const stream = open((request, signal) => {
    pieces.push(Buffer.from(request.data).toString("utf8"));
    return store.append(request, signal);
  });
  const text = `${"🚲".repeat(333)}\n`.repeat(500);
  stream.write(text);
  stream.end();
  await stream.done;
  expect(store.text()).toBe(text);
  expect(pieces.length).toBeGreaterThan(2);
  expect(pieces.filter((piece) => piece.includes("\uFFFD"))).toEqual([]);
});

test("what fits together is not shortened", async () => {
  const store = createStore();
  const stream = open(store.append, { maxBytes: 40 });
  stream.write("0123456789 123456789 12345\n");
  stream.write("the end\n");
  stream.end();
  await stream.done;
  expect(store.text()).toBe("0123456789 123456789 12345\nthe end\n");
});
