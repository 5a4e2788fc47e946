import { hash } from "@node-rs/bcrypt";
import { beforeAll, expect, test } from "vitest";
import { createPasswordChecker, type PasswordChecker } from "./checker.ts";

let hashed: string;
beforeAll(async () => {
  hashed = await hash("open sesame", 4);
});

/** Wrong passwords at each of so many sites from each of so many networks, all of them before the first was looked at. */
const flood = (checker: PasswordChecker, sites: number, networks: number) =>
  Array.from({ length: sites * networks }, (_, n) =>
    checker.check({ site: `theirs-${n % sites}`, network: `198.51.${Math.floor(n / sites)}.0/24` }, "wrong", hashed),
  );
const visitor = { site: "shop", network: "192.0.2.0/24" };

test.each([
  { sites: 20, networks: 4 },
  { sites: 1, networks: 100 },
  { sites: 100, networks: 1 },
  { sites: 16, networks: 40 },
])("guesses at $sites other sites from $networks networks keep no visitor out", async ({ sites, networks }) => {
  const checker = createPasswordChecker(1);
  const guesses = flood(checker, sites, networks);
  expect(await checker.check(visitor, "open sesame", hashed)).toBe("right");
  const verdicts = await Promise.all(guesses);
  expect(verdicts.filter((verdict) => verdict === "wrong").length).toBeLessThanOrEqual(33);
  // What they had is free again.
  expect(await Promise.all(flood(checker, 1, 1))).toEqual(["wrong"]);
});

test("one network has few under way, at however many sites", async () => {
  const verdicts = await Promise.all(flood(createPasswordChecker(1), 100, 1));
  expect(verdicts.filter((verdict) => verdict === "wrong")).toHaveLength(4);
});

test("nobody gives way to whoever has as much", async () => {
  const checker = createPasswordChecker(1);
  const visitors = Array.from({ length: 40 }, (_, n) =>
    checker.check({ site: `shop-${n}`, network: `192.0.${n}.0/24` }, "open sesame", hashed),
  );
  const verdicts = await Promise.all(visitors);
  expect(verdicts.slice(0, 33).every((verdict) => verdict === "right")).toBe(true);
  expect(verdicts.slice(33).every((verdict) => verdict === "busy")).toBe(true);
});
