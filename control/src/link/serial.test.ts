import { expect, test } from "vitest";
import { createLimiter, createSerial, SerialFull } from "./serial.ts";

/** A piece of work that ends when told to. */
function aPiece(log: string[], name: string) {
  const { promise, resolve } = Promise.withResolvers<void>();
  const work = async () => {
    log.push(`${name} begins`);
    await promise;
    log.push(`${name} ends`);
  };
  return { work, finish: resolve };
}

test("work runs in order, one at a time, also after a failure", async () => {
  const log: string[] = [];
  const serial = createSerial(10);
  const a = aPiece(log, "a");
  const b = aPiece(log, "b");
  const first = serial(a.work);
  const failing = serial(() => Promise.reject(new Error("broken")));
  const second = serial(b.work);
  b.finish();
  a.finish();
  await first;
  await expect(failing).rejects.toThrow("broken");
  await second;
  expect(log).toEqual(["a begins", "a ends", "b begins", "b ends"]);
});

test("too much work is refused", async () => {
  const serial = createSerial(1);
  const a = aPiece([], "a");
  const first = serial(a.work);
  await expect(serial(async () => undefined)).rejects.toThrow(SerialFull);
  a.finish();
  await first;
  expect(await serial(async () => "free again")).toBe("free again");
});

test("a limiter lets only so much run at once and forgets nobody", async () => {
  const limit = createLimiter(2);
  let running = 0;
  let most = 0;
  const results = await Promise.all(
    Array.from({ length: 9 }, (_, index) =>
      limit(async () => {
        running += 1;
        most = Math.max(most, running);
        await Promise.resolve();
        running -= 1;
        return index;
      }),
    ),
  );
  expect(most).toBe(2);
  expect(results).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8]);
});
