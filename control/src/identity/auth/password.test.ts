import { expect, test } from "vitest";
import { passwordProblem } from "./password.ts";

test.each([
  "correct horse battery",
  "another good one",
  "tr0ub4dor&3x",
  "ada-lives-in-the-hills",
  "ünïcödé sätze",
  `${"a".repeat(60)}bcdefgh`,
  "x7k2m9qw",
])("%j is accepted", (password) => {
  expect(passwordProblem(password, "ada@svc.test")).toBeNull();
});

test.each([
  { password: "short", problem: "too-short" },
  { password: "", problem: "too-short" },
  { password: "x1y2z3w4".repeat(17), problem: "too-long" },
  { password: "password", problem: "too-easy" },
  { password: "Password123!", problem: "too-easy" },
  { password: "P@ssw0rd", problem: "too-easy" },
  { password: "p4$$w0rd99", problem: "too-easy" },
  { password: "passwordpassword", problem: "too-easy" },
  { password: "!!!welcome2024", problem: "too-easy" },
  { password: "12345678", problem: "too-easy" },
  { password: "87654321", problem: "too-easy" },
  { password: "qwertyui", problem: "too-easy" },
  { password: "ABCDEFGH", problem: "too-easy" },
  { password: "1qaz2wsx", problem: "too-easy" },
  { password: "aaaaaaaa", problem: "too-easy" },
  { password: "ababababab", problem: "too-easy" },
  { password: "lovelace@svc.test", problem: "too-easy" },
  { password: "Lovelace", problem: "too-easy" },
  { password: "lovelace1815", problem: "too-easy" },
])("$password is $problem", ({ password, problem }) => {
  expect(passwordProblem(password, "lovelace@svc.test")).toBe(problem);
});

test("without an address only the address is not compared", () => {
  expect(passwordProblem("lovelace", null)).toBeNull();
  expect(passwordProblem("password", null)).toBe("too-easy");
});
