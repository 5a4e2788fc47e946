import { systemRandom } from "@svc/runtime/system";
import { fixedRandom } from "@svc/runtime/testing/random";
import { expect, test } from "vitest";
import {
  createEndpoints,
  endpointListProblem,
  nextEndpoint,
  roundsFailed,
  shuffled,
  splitEndpoints,
} from "./endpoints.ts";

const [a, b, c] = ["https://a.test:7443", "https://b.test:7443", "https://c.test:7443"] as const;

test.each([
  { when: "the one in use fails", used: a, failed: a, next: b },
  { when: "the last in order fails", used: c, failed: c, next: a },
  { when: "one fails that was left before", used: b, failed: a, next: b },
])("when $when, $next is used", ({ used, failed, next }) => {
  expect(nextEndpoint([a, b, c], used, failed)).toBe(next);
});

test("the only endpoint stays in use, whatever happens", () => {
  const endpoints = createEndpoints([a], systemRandom);
  endpoints.moveOn(a);
  expect(endpoints.current()).toBe(a);
});

test("of two who found the same endpoint dead only one moves on", () => {
  const endpoints = createEndpoints([a, b, c], fixedRandom(0));
  endpoints.moveOn(a);
  endpoints.moveOn(a);
  expect(endpoints.current()).toBe(b);
});

test("all of them are told, and the one in use comes first", () => {
  const endpoints = createEndpoints([a, b, c], fixedRandom(0));
  endpoints.moveOn(a);
  expect(endpoints.all()).toEqual([b, a, c]);
});

test("the order is the random numbers' and nothing is lost", () => {
  expect(shuffled([a, b, c], [0.9, 0.1, 0.5])).toEqual([b, c, a]);
  expect(shuffled([a, b, c], [0.2, 0.2, 0.2])).toEqual([a, b, c]);
});

test("a fleet spreads: each endpoint comes first, and each comes second after each, about as often", () => {
  const pairs = new Map<string, number>();
  for (let daemon = 0; daemon < 3_000; daemon += 1) {
    const endpoints = createEndpoints([a, b, c], systemRandom);
    const first = endpoints.current();
    endpoints.moveOn(first);
    const pair = `${first} ${endpoints.current()}`;
    pairs.set(pair, (pairs.get(pair) ?? 0) + 1);
  }
  expect(pairs.size).toBe(6);
  // 500 expected, with a deviation of some 20.
  for (const count of pairs.values()) expect(count).toBeGreaterThan(350);
});

test.each([
  { when: "the only endpoint failed once", failures: 1, endpoints: 1, rounds: 1 },
  { when: "the only endpoint failed five times", failures: 5, endpoints: 1, rounds: 5 },
  { when: "two of three are still to be tried", failures: 1, endpoints: 3, rounds: 1 },
  { when: "one of three is still to be tried", failures: 2, endpoints: 3, rounds: 1 },
  { when: "a whole round failed", failures: 3, endpoints: 3, rounds: 1 },
  { when: "the second round has begun", failures: 4, endpoints: 3, rounds: 1 },
  { when: "two rounds failed", failures: 6, endpoints: 3, rounds: 2 },
  { when: "nine rounds failed", failures: 27, endpoints: 3, rounds: 9 },
])("when $when, the pause is that of $rounds failures", ({ failures, endpoints, rounds }) => {
  expect(roundsFailed(failures, endpoints)).toBe(rounds);
});

test.each([
  { list: a, problem: null },
  { list: `${a},${b}, ${c}`, problem: null },
  { list: `${a},http://b.test:7443`, problem: "https" },
  { list: `${a},`, problem: "https" },
  { list: "", problem: "https" },
  { list: `${a}/path`, problem: "https" },
  { list: "https://user@a.test", problem: "https" },
  { list: `${a},${a}`, problem: "twice" },
  { list: `https://a.test,https://a.test:443`, problem: "twice" },
  { list: Array.from({ length: 10 }, (_, n) => `https://${n}.test`).join(","), problem: "at most 9" },
])("of the list $list the problem is $problem", ({ list, problem }) => {
  if (problem === null) expect(endpointListProblem(list)).toBeNull();
  else expect(endpointListProblem(list)).toContain(problem);
});

test("spaces around the commas do not matter", () => {
  expect(splitEndpoints(`${a} , ${b}`)).toEqual([a, b]);
});
