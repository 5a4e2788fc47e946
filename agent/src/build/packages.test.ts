import { expect, test } from "vitest";
import { detectPackages, parsePackageJson } from "./packages.ts";

const detect = (files: string[], json: object = {}, yarnLock: string | null = null) =>
  detectPackages((name) => files.includes(name), parsePackageJson(JSON.stringify(json)), yarnLock);

test.each([
  { files: ["package.json", "package-lock.json"], manager: "npm", locked: true },
  { files: ["package.json", "pnpm-lock.yaml"], manager: "pnpm", locked: true },
  { files: ["package.json", "bun.lockb"], manager: "bun", locked: true },
  { files: ["package.json"], manager: "npm", locked: false },
])("$files stands for $manager", ({ files, manager, locked }) => {
  expect(detect(files)).toMatchObject({ manager, locked, manifests: files });
});

test.each([
  { lock: "# yarn lockfile v1\n", manager: "yarn", separable: true },
  { lock: "__metadata:\n  version: 8\n", manager: "yarn-berry", separable: false },
])("the two generations of Yarn are told apart: $manager", ({ lock, manager, separable }) => {
  expect(detect(["package.json", "yarn.lock"], {}, lock)).toMatchObject({ manager, separable });
});

test.each([
  { when: "there are workspaces", json: { workspaces: ["a"] } },
  { when: "a script runs on install", json: { scripts: { postinstall: "node x.js" } } },
  { when: "a dependency is a folder", json: { dependencies: { a: "file:./a" } } },
])("installing needs the whole tree when $when", ({ json }) => {
  expect(detect(["package.json", "package-lock.json"], json)?.separable).toBe(false);
});

test.each([
  { packageManager: "pnpm@9.1.0", manager: "pnpm", version: "9.1.0" },
  { packageManager: "pnpm@9.1.0+sha512.ab", manager: "pnpm", version: "9.1.0" },
  { packageManager: "pnpm@9; rm -rf /", manager: "npm", version: "" },
])("packageManager '$packageManager' means $manager $version", ({ packageManager, manager, version }) => {
  expect(detect(["package.json"], { packageManager })).toMatchObject({ manager, version });
});

test("without a package.json there is nothing to install", () => {
  expect(detectPackages(() => false, null, null)).toBeNull();
});

test.each(["", "[]", "null", "{"])("'%s' is no package.json", (text) => {
  expect(parsePackageJson(text)).toBeNull();
});

test("fields of the wrong type are as good as absent", () => {
  const parsed = parsePackageJson('{"main":1,"scripts":["x"],"dependencies":3,"packageManager":{}}');
  expect(parsed).toEqual({
    main: null,
    packageManager: null,
    scripts: new Map(),
    hasWorkspaces: false,
    hasLocalDependencies: false,
  });
});
