import { expect, test } from "vitest";
import { createTurns, NoTurn } from "./turns.ts";

const never = new AbortController().signal;

/** Work that ends when told so. */
function held() {
  let end = (): void => {};
  const ended = new Promise<void>((resolve) => {
    end = resolve;
  });
  return { end, ended };
}

test("so much at once and no more, one account not all of it", async () => {
  const inTurn = createTurns({ total: 3, perKey: 2 });
  const started: string[] = [];
  const works = ["a1", "a2", "a3", "b1", "c1"].map((name) => {
    const { end, ended } = held();
    const done = inTurn(name.slice(0, 1), never, async () => {
      started.push(name);
      await ended;
    });
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
  const inTurn = createTurns({ total: 1, perKey: 1 });
  const { end, ended } = held();
  const first = inTurn("a", never, async () => {
    await ended;
    throw new Error("failed");
  });
  const canceled = new AbortController();
  const second = inTurn("b", canceled.signal, async () => "never");
  const third = inTurn("c", never, async () => "third");
  canceled.abort(new Error("canceled"));
  await expect(second).rejects.toThrow("canceled");
  end();
  await expect(first).rejects.toThrow("failed");
  expect(await third).toBe("third");
});

test("so many wait and no more, one account not all of them", async () => {
  const inTurn = createTurns({ total: 1, perKey: 1 }, { total: 3, perKey: 2 });
  const { end, ended } = held();
  const [, ...waiting] = ["a", "a", "a", "b"].map((key) => inTurn(key, never, () => ended));
  const nothing = async () => {};
  await expect(inTurn("a", never, nothing)).rejects.toThrow(NoTurn);
  await expect(inTurn("c", never, nothing)).rejects.toThrow(NoTurn);
  end();
  await Promise.all(waiting);
  await inTurn("c", never, nothing);
});
