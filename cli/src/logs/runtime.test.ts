import { expect, test } from "vitest";
import { type Exit, exitLine } from "./runtime.ts";

const now = new Date("2030-01-01T00:10:00Z");
const exit = (fields: Partial<Exit>): Exit => ({ code: null, oomKilled: null, reason: null, at: null, ...fields });

test.each([
  [{}, null],
  [{ state: "running", exit: null }, null],
  [{ state: "exited" }, "The app has exited"],
  [{ state: "exited", exit: exit({}) }, "The app has exited"],
  [
    { state: "exited", exit: exit({ code: 1, at: "2030-01-01T00:07:00Z" }) },
    "The app has exited with code 1, 3 min ago",
  ],
  [{ state: "exited", exit: exit({ code: 137, oomKilled: true }) }, "The app has exited with code 137, out of memory"],
  [
    { state: "exited", exit: exit({ code: 3, reason: "The app broke.\nBadly.", at: "2030-01-01T00:07:00Z" }) },
    "The app broke, 3 min ago",
  ],
] as const)("%j reads %s", (log, line) => {
  expect(exitLine(log, now)).toBe(line);
});
