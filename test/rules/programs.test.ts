import { readFileSync } from "node:fs";
import { join } from "node:path";
import { repositoryRoot } from "@svc/deploy/paths";
import { programs } from "@svc/runtime/program-list";
import { expect, test } from "vitest";
import { sourcesBelow } from "./sources.ts";

const { workspaces } = JSON.parse(readFileSync(join(repositoryRoot, "package.json"), "utf8")) as {
  workspaces: string[];
};
const files = workspaces.flatMap((workspace) => sourcesBelow(workspace, /\.(ts|mjs|js)$/));

const starters = [
  "runtime/src/programs.ts",
  // Run before anything is installed, and on versions of Node that know no TypeScript.
  "deploy/setup/run.mjs",
  "cli/bin/svc.mjs",
];

test("programs are started in one place, which knows what set-up installs", () => {
  const starting = files
    .filter(({ imports }) =>
      imports.some(({ specifier, typeOnly }) => !typeOnly && /^(node:)?child_process$/.test(specifier)),
    )
    .map(({ path }) => path);
  expect(starting.toSorted()).toEqual(starters.toSorted());
});

test("no library that starts programs is used besides", () => {
  const wrong = files.flatMap(({ path, imports }) =>
    imports
      .filter(({ specifier }) => /^(node:cluster|cluster|execa|cross-spawn|tinyexec|zx|nano-spawn)$/.test(specifier))
      .map(({ specifier }) => `${path} imports ${specifier}`),
  );
  expect(wrong).toEqual([]);
});

test("every program that a machine may lack has a Debian package", () => {
  const without = Object.entries(programs)
    .filter(([, { need, debian }]) => debian === null && need !== "optional" && need !== "setup")
    .map(([name]) => name);
  expect(without).toEqual([]);
});

test("every program of the list is started by somebody", () => {
  const code = files.filter(({ path }) => path !== "runtime/src/program-list.mjs").map(({ text }) => text);
  const unused = Object.keys(programs).filter((name) => !code.some((text) => text.includes(`"${name}"`)));
  expect(unused).toEqual([]);
});
