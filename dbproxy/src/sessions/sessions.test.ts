import { expect, test } from "vitest";
import { createCancelKeys } from "./cancel-keys.ts";
import { createCounts } from "./counts.ts";

test("so many are taken as may be, each database for itself", () => {
  const counts = createCounts();
  expect([counts.take("a", 2), counts.take("a", 2), counts.take("a", 2), counts.take("b", 1)]).toEqual([
    ...[true, true, false, true],
  ]);
  counts.give("a");
  expect([counts.open("a"), counts.take("a", 2), counts.take("a", 1), counts.open("b")]).toEqual([1, true, false, 1]);
  expect(counts.take("c", 0)).toBe(false);
});

test("failed logins are counted until their database is gone", () => {
  const counts = createCounts();
  counts.loginFailed("a");
  counts.loginFailed("a");
  counts.loginFailed("b");
  counts.keepOnly((databaseId) => databaseId === "a");
  expect([counts.failedLogins("a"), counts.failedLogins("b")]).toEqual([2, 0]);
});

test("a key is one database's at one bridge", () => {
  const keys = createCancelKeys();
  const key = { pid: 17, secret: "0badcafe" };
  const forgetLeft = keys.keep("172.20.0.1", key, "a");
  keys.keep("172.21.0.1", key, "b");
  expect([keys.find("172.20.0.1", key), keys.find("172.21.0.1", key), keys.find("172.22.0.1", key)]).toEqual([
    ...["a", "b", null],
  ]);
  expect(keys.find("172.20.0.1", { ...key, secret: "0badcaff" })).toBeNull();
  forgetLeft();
  expect(keys.find("172.20.0.1", key)).toBeNull();
});

test("a session that ends does not take the key of a later one along", () => {
  const keys = createCancelKeys();
  const key = { pid: 17, secret: "0badcafe" };
  const forgetFirst = keys.keep("172.20.0.1", key, "a");
  keys.keep("172.20.0.1", key, "a");
  forgetFirst();
  expect(keys.find("172.20.0.1", key)).toBe("a");
});
