import { expect, test } from "vitest";
import { createBatch } from "./batch.ts";
import { systemClock } from "./system.ts";

/** A batch whose questions are answered when the test says so. */
function held(options: { sizeMax?: number; waitingMax?: number } = {}) {
  const asked: { questions: readonly string[]; answer: PromiseWithResolvers<(string | null)[]> }[] = [];
  const arrivals: (() => void)[] = [];
  const find = createBatch<string>({
    clock: systemClock,
    sizeMax: options.sizeMax ?? 10,
    waitingMax: options.waitingMax ?? 10,
    ask(questions) {
      const answer = Promise.withResolvers<(string | null)[]>();
      asked.push({ questions, answer });
      arrivals.shift()?.();
      return answer.promise;
    },
  });
  return {
    find,
    asked,
    /** Until one more batch was asked. */
    next: () => new Promise<void>((resolve) => arrivals.push(resolve)),
    answer(at: number, values: (string | null)[]) {
      asked[at]?.answer.resolve(values);
    },
  };
}

test("what comes up in one turn goes out together, each question once", async () => {
  const { find, asked, next, answer } = held();
  const first = next();
  const found = Promise.all([find("a"), find("b"), find("a")]);
  await first;
  answer(0, ["A", null]);
  expect(await found).toEqual(["A", null, "A"]);
  expect(asked.map(({ questions }) => questions)).toEqual([["a", "b"]]);
});

test("a question that comes up while it is being asked is asked again", async () => {
  const { find, asked, next, answer } = held();
  const first = next();
  const before = find("a");
  await first;
  const second = next();
  const after = find("a");
  answer(0, ["old"]);
  expect(await before).toBe("old");
  await second;
  answer(1, ["new"]);
  expect(await after).toBe("new");
  expect(asked).toHaveLength(2);
});

test("a batch holds so many questions; the rest goes out next, in order", async () => {
  const { find, asked, next, answer } = held({ sizeMax: 2 });
  const first = next();
  const found = Promise.all(["a", "b", "c"].map(find));
  await first;
  const second = next();
  answer(0, ["A", "B"]);
  await second;
  answer(1, ["C"]);
  expect(await found).toEqual(["A", "B", "C"]);
  expect(asked.map(({ questions }) => questions)).toEqual([["a", "b"], ["c"]]);
});

test("one more than may wait is refused, and the others are not", async () => {
  const { find, next, answer } = held({ waitingMax: 2 });
  const first = next();
  const found = Promise.all([find("a"), find("b")]);
  await expect(find("c")).rejects.toThrow("too many questions wait");
  await first;
  answer(0, ["A", "B"]);
  expect(await found).toEqual(["A", "B"]);
});

test("a batch that fails fails those who asked, and nobody after them", async () => {
  const { find, asked, next, answer } = held();
  const first = next();
  const failing = Promise.allSettled([find("a"), find("b")]);
  await first;
  asked[0]?.answer.reject(new Error("away"));
  expect((await failing).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  const second = next();
  const later = find("a");
  await second;
  answer(1, ["A"]);
  expect(await later).toBe("A");
});
