import { expect, test } from "vitest";
import { createLimiter, LimiterFull } from "./limiter.ts";

/** Work that ends when told so. */
function held() {
  let end = (): void => {};
  const ended = new Promise<void>((resolve) => {
    end = resolve;
  });
  return { end, ended };
}

test("so much at once and no more, one account not all of it", async () => {
  const inTurn = createLimiter({ total: 3, perKey: 2 });
  const started: string[] = [];
  const works = ["a1", "a2", "a3", "b1", "c1"].map((name) => {
    const { end, ended } = held();
    const done = inTurn(
      async () => {
        started.push(name);
        await ended;
      },
      { key: name.slice(0, 1) },
    );
    return { end, done };
  });
  const finish = async (at: number) => {
    works[at]?.end();
    await works[at]?.done;
  };
  await Promise.resolve();
  expect(started).toEqual(["a1", "a2", "b1"]);
  await finish(3);
  expect(started).toEqual(["a1", "a2", "b1", "c1"]);
  await finish(0);
  expect(started.at(-1)).toBe("a3");
  for (const at of [1, 2, 4]) await finish(at);
});

test("whoever is not wanted any more leaves the queue, and a failure gives the turn on", async () => {
  const inTurn = createLimiter({ total: 1, perKey: 1 });
  const { end, ended } = held();
  const first = inTurn(async () => {
    await ended;
    throw new Error("failed");
  });
  const canceled = new AbortController();
  const second = inTurn(async () => "never", { signal: canceled.signal });
  const third = inTurn(async () => "third", { key: "c" });
  canceled.abort(new Error("canceled"));
  await expect(second).rejects.toThrow("canceled");
  end();
  await expect(first).rejects.toThrow("failed");
  expect(await third).toBe("third");
});

test("so many wait and no more, one account not all of them", async () => {
  const inTurn = createLimiter({ total: 1, perKey: 1 }, { total: 3, perKey: 2 });
  const { end, ended } = held();
  const [, ...waiting] = ["a", "a", "a", "b"].map((key) => inTurn(() => ended, { key }));
  const nothing = async () => {};
  await expect(inTurn(nothing, { key: "a" })).rejects.toThrow(LimiterFull);
  await expect(inTurn(nothing, { key: "c" })).rejects.toThrow(LimiterFull);
  end();
  await Promise.all(waiting);
  await inTurn(nothing, { key: "c" });
});

test("whoever has least at work comes first, however much of others waits", async () => {
  const inTurn = createLimiter({ total: 2, perKey: 2 });
  const started: string[] = [];
  const works = ["a1", "a2", "a3", "a4", "b1"].map((name) => {
    const { end, ended } = held();
    const work = async () => {
      started.push(name);
      await ended;
    };
    return { end, done: inTurn(work, { key: name.slice(0, 1) }) };
  });
  works[0]?.end();
  await works[0]?.done;
  expect(started).toEqual(["a1", "a2", "b1"]);
  for (const { end } of works) end();
  await Promise.all(works.map(({ done }) => done));
  expect(started).toEqual(["a1", "a2", "b1", "a3", "a4"]);
});

test("one after another per key, and keys beside one another", async () => {
  const inTurn = createLimiter({ perKey: 1 });
  const { end, ended } = held();
  const order: string[] = [];
  const first = inTurn(
    async () => {
      await ended;
      order.push("a1");
    },
    { key: "a" },
  );
  const second = inTurn(async () => order.push("a2"), { key: "a" });
  await inTurn(async () => order.push("b1"), { key: "b" });
  end();
  await Promise.all([first, second]);
  expect(order).toEqual(["b1", "a1", "a2"]);
});
