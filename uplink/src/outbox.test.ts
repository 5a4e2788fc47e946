import { expect, test } from "vitest";
import { createOutbox } from "./outbox.ts";

async function collect<T>(source: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const one of source) all.push(one);
  return all;
}

test("messages arrive in order, also those queued before the reader came", async () => {
  const outbox = createOutbox<number>(10, () => {});
  outbox.send(1);
  outbox.send(2);
  const reading = collect(outbox);
  outbox.send(3);
  outbox.close();
  expect(await reading).toEqual([1, 2, 3]);
});

test("closing wakes a waiting reader", async () => {
  const outbox = createOutbox<number>(10, () => {});
  const reading = collect(outbox);
  await Promise.resolve();
  outbox.close();
  expect(await reading).toEqual([]);
  expect(outbox.send(1)).toBe(false);
});

test("a reader that falls behind closes the outbox once", () => {
  let overflows = 0;
  const outbox = createOutbox<number>(2, () => {
    overflows += 1;
  });
  expect([outbox.send(1), outbox.send(2), outbox.send(3), outbox.send(4)]).toEqual([true, true, false, false]);
  expect(overflows).toBe(1);
});
