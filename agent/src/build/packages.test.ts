import { parsePackageJson } from "@svc/proto/frameworks";
import { expect, test } from "vitest";
import { detectPackages, installManifest, type PackageFacts } from "./packages.ts";

const parse = (json: object) => parsePackageJson(JSON.stringify(json));
const detect = (
  files: string[],
  json: object = {},
  { members = [], ...facts }: Partial<Omit<PackageFacts, "members">> & { members?: object[] } = {},
) =>
  detectPackages({
    has: (name) => files.includes(name),
    manifest: parse(json),
    members: members.flatMap((member) => parse(member) ?? []),
    yarnLock: null,
    pnpmLock: null,
    settings: "",
    ...facts,
  });

test.each([
  { files: ["package-lock.json"], manager: "npm", locked: true },
  { files: ["pnpm-lock.yaml", "patches"], manager: "pnpm", locked: true },
  { files: ["bun.lockb"], manager: "bun", locked: true },
  { files: ["pnpm-workspace.yaml"], manager: "pnpm", locked: false },
  { files: [], manager: "npm", locked: false },
])("$files stands for $manager", ({ files, manager, locked }) => {
  expect(detect(files)).toMatchObject({
    manager,
    locked,
    files: files.filter((name) => name !== "patches"),
    directories: files.filter((name) => name === "patches"),
  });
});

test.each([
  { lock: "# yarn lockfile v1\n", manager: "yarn" },
  { lock: "__metadata:\n  version: 8\n", manager: "yarn-berry" },
])("the two generations of Yarn are told apart: $manager", ({ lock, manager }) => {
  expect(detect(["yarn.lock"], {}, { yarnLock: lock })).toMatchObject({ manager, separable: true });
});

test.each([
  { lock: "lockfileVersion: 5.4\n", version: "7" },
  { lock: "lockfileVersion: '6.0'\n", version: "8" },
  { lock: "lockfileVersion: '9.0'\n\nsettings:\n", version: "10" },
  { lock: "lockfileVersion: '12.0'\n", version: "" },
])("a lock file of pnpm is read by a version that knows it: $version", ({ lock, version }) => {
  expect(detect(["pnpm-lock.yaml"], {}, { pnpmLock: lock })?.version).toBe(version);
});

test("the version that the project pins goes before the one of its lock file", () => {
  const json = { packageManager: "pnpm@9.1.0" };
  expect(detect(["pnpm-lock.yaml"], json, { pnpmLock: "lockfileVersion: '9.0'" })?.version).toBe("9.1.0");
});

test.each([
  { when: "there are workspaces", json: { workspaces: ["a"] }, members: [{ name: "a" }], separable: true },
  { when: "the project runs a script on install", json: { scripts: { prepare: "x" } }, members: [], separable: true },
  { when: "a dependency is a folder", json: { dependencies: { a: "file:./a" } }, members: [], separable: false },
  {
    when: "a package of the workspace runs a script on install",
    json: {},
    members: [{ scripts: { postinstall: "x" } }],
    separable: false,
  },
  { when: "a package of the workspace has programs", json: {}, members: [{ bin: "x.js" }], separable: false },
])("when $when, manifests are enough to install: $separable", ({ json, members, separable }) => {
  expect(detect(["package-lock.json"], json, { members })?.separable).toBe(separable);
});

test.each([
  { when: "settings are a program", files: ["pnpm-lock.yaml", ".pnpmfile.cjs"], settings: "" },
  {
    when: "packages of the workspace are copied",
    files: ["pnpm-lock.yaml"],
    settings: "injectWorkspacePackages: true",
  },
])("installing needs the whole tree when $when", ({ files, settings }) => {
  expect(detect(files, {}, { settings })?.separable).toBe(false);
});

test("the project's own install scripts wait for the sources", () => {
  const scripts = { build: "b", prepare: "p", postinstall: "i" };
  expect(detect(["package-lock.json"], { scripts })?.deferred).toEqual(["postinstall", "prepare"]);
  expect(installManifest(JSON.stringify({ name: "a", scripts }))).toBe('{\n  "name": "a"\n}\n');
});

test.each([
  { packageManager: "pnpm@9.1.0", manager: "pnpm", version: "9.1.0" },
  { packageManager: "pnpm@9.1.0+sha512.ab", manager: "pnpm", version: "9.1.0" },
  { packageManager: "yarn@1.22.22", manager: "yarn", version: "1.22.22" },
  { packageManager: "yarn@4.1.0", manager: "yarn-berry", version: "4.1.0" },
  { packageManager: "pnpm@9; rm -rf /", manager: "npm", version: "" },
])("packageManager '$packageManager' means $manager $version", ({ packageManager, manager, version }) => {
  expect(detect([], { packageManager })).toMatchObject({ manager, version });
});

test("without a package.json there is nothing to install", () => {
  const facts = { members: [], yarnLock: null, pnpmLock: null, settings: "" };
  expect(detectPackages({ ...facts, has: () => false, manifest: null })).toBeNull();
});

test.each(["", "[]", "null", "{"])("'%s' is no package.json", (text) => {
  expect(parsePackageJson(text)).toBeNull();
  expect(installManifest(text)).toBeNull();
});

test("fields of the wrong type are as good as absent", () => {
  const parsed = parsePackageJson('{"main":1,"scripts":["x"],"dependencies":3,"packageManager":{}}');
  expect(parsed).toEqual({
    name: null,
    main: null,
    packageManager: null,
    scripts: new Map(),
    dependencies: new Set(),
    developmentOnly: new Set(),
    siblings: new Set(),
    hasWorkspaces: false,
    hasLocalDependencies: false,
    hasPrograms: false,
  });
});
