import { expect, test } from "vitest";
import { asksForStandalone, detectFramework, serverStart, siteBuild } from "./frameworks.ts";
import { parsePackageJson } from "./packages.ts";

const manifest = (json: object) => parsePackageJson(JSON.stringify(json));
const using = (...names: string[]) => ({ dependencies: Object.fromEntries(names.map((name) => [name, "1.0.0"])) });

test.each([
  { packages: ["next", "react"], name: "next" },
  { packages: ["nuxt", "vite"], name: "nuxt" },
  { packages: ["@sveltejs/kit", "vite"], name: "sveltekit" },
  { packages: ["@react-router/dev", "vite"], name: "react-router" },
  { packages: ["astro", "vite"], name: "astro" },
  { packages: ["react-scripts"], name: "create-react-app" },
  { packages: ["vite", "react"], name: "vite" },
  { packages: ["express"], name: undefined },
])("$packages give away $name", ({ packages, name }) => {
  expect(detectFramework(manifest(using(...packages)))?.name).toBe(name);
});

const build = { scripts: { build: "make" } };

test.each([
  {
    when: "nothing is said and nothing is built",
    said: { command: "", output: "." },
    json: using("vite"),
    is: null,
  },
  {
    when: "nothing is said and there is a build script",
    said: { command: "", output: "." },
    json: { ...build, ...using("next") },
    is: { command: "run build", outputs: ["out"] },
  },
  {
    when: "nothing is said and the builder is not known",
    said: { command: "", output: "." },
    json: build,
    is: { command: "run build", outputs: ["dist", "build", "out", "_site", "public"] },
  },
  {
    when: "only a directory is said",
    said: { command: "", output: "public" },
    json: build,
    is: null,
  },
  {
    when: "a command is said and the framework builds elsewhere",
    said: { command: "make", output: "dist" },
    json: using("@sveltejs/kit"),
    is: { command: "make", outputs: ["build", "dist"] },
  },
  {
    when: "a command is said and nothing is known",
    said: { command: "make", output: "dist" },
    json: {},
    is: { command: "make", outputs: ["dist"] },
  },
  {
    when: "both are said",
    said: { command: "make", output: "www" },
    json: using("astro"),
    is: { command: "make", outputs: ["www"] },
  },
])("a site when $when", ({ said, json, is }) => {
  expect(siteBuild(said, manifest(json), (name) => `run ${name}`)).toEqual(is);
});

type Facts = { said?: string; files?: string[]; standalone?: boolean; runsFromFolder?: boolean };
const start = (json: object, facts: Facts = {}) =>
  serverStart(facts.said ?? "", manifest(json), {
    has: (name) => (facts.files ?? []).includes(name),
    runScript: (name) => `pnpm ${name}`,
    standalone: facts.standalone ?? false,
    runsFromFolder: facts.runsFromFolder ?? true,
  });

test.each([
  { when: "there is a start script", json: { scripts: { start: "node x.js" } }, command: "node x.js" },
  { when: "the start script needs a shell", json: { scripts: { start: "A=1 node x.js" } }, command: "pnpm start" },
  {
    when: "the start script has one before it",
    json: { scripts: { start: "node x.js", prestart: "node y.js" } },
    command: "pnpm start",
  },
  { when: "there is a main file", json: { main: "src/x.js" }, command: "node src/x.js" },
  { when: "the main file has a name of shell syntax", json: { main: "$(x)" }, command: undefined },
  { when: "the framework tells", json: using("nuxt"), command: "node .output/server/index.mjs" },
  {
    when: "the start script is for development",
    json: { scripts: { start: "astro dev" }, ...using("astro") },
    command: "node ./dist/server/entry.mjs",
  },
  {
    when: "the start script is the framework's own",
    json: { scripts: { start: "next start" }, ...using("next") },
    command: "next start",
  },
  { when: "nothing tells", json: {}, command: undefined },
])("when $when a server starts with $command", ({ json, command }) => {
  expect(start(json)?.command).toBe(command);
});

test.each([
  { said: "npm start", command: "node x.js" },
  { said: "pnpm run worker:web", command: "node y.js" },
  { said: "yarn run both", command: "yarn run both" },
  { said: "npm run none", command: "npm run none" },
  { said: "npm start -- --port 1", command: "npm start -- --port 1" },
  { said: "node z.js", command: "node z.js" },
])("a manifest that says '$said' starts '$command'", ({ said, command }) => {
  const scripts = { start: "node x.js", "worker:web": "node y.js", both: "node x.js && node y.js" };
  expect(start({ scripts }, { said })).toEqual({ command, standalone: false });
});

test("a file of a usual name is a server", () => {
  expect(start({}, { files: ["server.js"] })?.command).toBe("node server.js");
});

test("packages that stay packed are reached through their manager", () => {
  expect(start({ scripts: { start: "node x.js" } }, { runsFromFolder: false })?.command).toBe("pnpm start");
});

test("a traced copy of a Next app is started by its own server", () => {
  const json = { scripts: { start: "next start" }, ...using("next") };
  expect(start(json, { standalone: true })).toEqual({ command: "node server.js", standalone: true });
});

test.each([
  { config: 'export default { output: "standalone" }', asks: true },
  { config: "module.exports = {\n  'output': 'standalone',\n}", asks: true },
  { config: 'const c = { output: process.env.CI ? "standalone" : undefined }', asks: true },
  { config: 'export default { output: "export" }', asks: false },
  { config: 'export default { distDir: "x", output: "standalone" }', asks: false },
  { config: "", asks: false },
])("the configuration '$config' asks for a traced copy: $asks", ({ config, asks }) => {
  expect(asksForStandalone(config)).toBe(asks);
});
