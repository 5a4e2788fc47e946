import { expect, test } from "vitest";
import { browserCommand } from "./browser.ts";

test.each([
  ["linux", "xdg-open"],
  ["darwin", "open"],
  ["win32", "rundll32"],
] as const)("on %s the address is one argument of %s", (platform, program) => {
  const url = "https://a.test/?x=1&calc.exe;rm -rf";
  const [found, ...args] = browserCommand(platform, url);
  expect(found).toBe(program);
  expect(args.at(-1)).toBe(url);
});
