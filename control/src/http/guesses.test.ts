import { expect, test } from "vitest";
import { createGuesses } from "./guesses.ts";

const at = (seconds: number) => new Date(seconds * 1000);

test("beyond the limit the client is told how long its minute still takes, and then begins anew", () => {
  const guesses = createGuesses(2);
  expect(guesses.wrong("192.0.2.1", at(0))).toBeNull();
  expect(guesses.wrong("192.0.2.1", at(10))).toBeNull();
  expect(guesses.wrong("192.0.2.1", at(20))).toBe(40);
  expect(guesses.wrong("192.0.2.1", at(59.5))).toBe(1);
  expect(guesses.wrong("192.0.2.1", at(60))).toBeNull();
});

test("clients are counted apart; an IPv6 client is its whole network", () => {
  const guesses = createGuesses(1);
  expect(guesses.wrong("192.0.2.1", at(0))).toBeNull();
  expect(guesses.wrong("192.0.2.2", at(0))).toBeNull();
  expect(guesses.wrong("::ffff:192.0.2.1", at(0))).toBe(60);
  expect(guesses.wrong("2001:db8:1:2::1", at(0))).toBeNull();
  expect(guesses.wrong("2001:db8:1:2:ffff::9", at(0))).toBe(60);
  expect(guesses.wrong("2001:db8:1:3::1", at(0))).toBeNull();
});

test("remembers so many clients and no more", () => {
  const guesses = createGuesses(1);
  guesses.wrong("first", at(0));
  for (let client = 0; client < 20_000; client += 1) guesses.wrong(`c${client}`, at(1));
  expect(guesses.wrong("first", at(2))).toBeNull();
  expect(guesses.wrong("c19999", at(2))).toBe(59);
});
