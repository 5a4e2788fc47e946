import { readFileSync } from "node:fs";
import { type PackageManager, parsePackageJson } from "@svc/proto/frameworks";
import { expect, test } from "vitest";
import { detectDevServer, type Said, type Seen, type Start } from "./detection.ts";

interface Fixture {
  files: string[];
  texts: Record<string, string>;
}

/** A project as the framework's own program makes it. */
const fixture = (name: string): Fixture =>
  JSON.parse(readFileSync(new URL(`../../../proto/src/frameworks/fixtures/${name}.json`, import.meta.url), "utf8"));

function seen({ files, texts }: Fixture, manager: PackageManager = "npm"): Seen {
  const configs = Object.entries(texts).filter(([name]) => /^(?:vite|astro|nuxt)\.config/.test(name));
  return {
    manifest: texts["package.json"] === undefined ? null : parsePackageJson(texts["package.json"]),
    manager,
    names: new Set(files.map((path) => path.split("/")[0] ?? "")),
    configs: new Map(configs),
  };
}

const a = (json: object | null, files: readonly string[] = [], texts: Record<string, string> = {}): Fixture => ({
  files: [...files, ...(json === null ? [] : ["package.json"]), ...Object.keys(texts)],
  texts: { ...(json === null ? {} : { "package.json": JSON.stringify(json) }), ...texts },
});

const nothingSaid: Said = { appPort: 3000, site: null };

function detected(
  from: Fixture,
  said: Partial<Said> = {},
  { port, manager }: { port?: number; manager?: PackageManager } = {},
) {
  const server = detectDevServer(seen(from, manager), { ...nothingSaid, ...said });
  return server === null ? null : [server.framework, server.port, lineOf(server.startAt(port ?? server.port))];
}

function lineOf(start: Start): string {
  switch (start.by) {
    case "shell":
      return `sh: ${start.command}`;
    case "program":
      return [start.program, ...start.args].join(" ");
    case "script":
      return [start.manager, "run", start.script, ...start.args].join(" ");
    case "node":
      return "node .";
    case "files":
      return `files of ${start.directory}`;
  }
}

test.each([
  ["next", "next", 3000, /^next dev .*-p 3000$|^next dev -p 3000$/],
  ["nuxt", "nuxt", 3000, "nuxt dev --port 3000"],
  ["sveltekit-node", "sveltekit", 5173, "vite dev --port 5173 --strictPort"],
  ["remix", "remix", 5173, "remix vite:dev --port 5173 --strictPort"],
  ["react-router", "react-router", 5173, "react-router dev --port 5173 --strictPort"],
  ["astro", "astro", 4321, "astro dev --port 4321"],
  ["create-react-app", "create-react-app", 3000, "react-scripts start"],
  ["vite-react-ts", "vite", 5173, "vite --port 5173 --strictPort"],
  ["vite-vue-ts", "vite", 5173, "vite --port 5173 --strictPort"],
  ["vite-svelte-ts", "vite", 5173, "vite --port 5173 --strictPort"],
  ["vite-vanilla", "vite", 5173, "vite --port 5173 --strictPort"],
  ["starlight", "astro", 4321, "astro dev --port 4321"],
  ["t3", "next", 3000, /^next dev/],
])("what makes %s is %s at %i", (name, framework, port, line) => {
  const found = detected(fixture(name));
  expect(found).toEqual([framework, port, typeof line === "string" ? line : expect.stringMatching(line)]);
});

const uses = (...names: string[]) => ({ dependencies: Object.fromEntries(names.map((name) => [name, "1"])) });

test.each([
  ["next before all", uses("vite", "react-scripts", "astro", "nuxt", "next"), "next"],
  ["nuxt before sveltekit", uses("@sveltejs/kit", "nuxt"), "nuxt"],
  ["sveltekit before remix and vite", uses("vite", "@remix-run/dev", "@sveltejs/kit"), "sveltekit"],
  ["remix before astro", uses("vite", "astro", "@remix-run/dev"), "remix"],
  ["astro before create-react-app", uses("vite", "react-scripts", "astro"), "astro"],
  ["create-react-app before vite", uses("vite", "react-scripts"), "create-react-app"],
  ["vite before scripts", { ...uses("vite"), scripts: { dev: "node server.js" } }, "vite"],
  ["the script dev before start", { scripts: { start: "node a", dev: "node b" } }, "script"],
])("%s", (_when, json, framework) => {
  expect(detected(a(json))?.[0]).toBe(framework);
});

test.each<[string, Fixture, Partial<Said>, (string | number)[] | null]>([
  ["the manifest's command wins", fixture("next"), { command: "make dev" }, ["custom", 3000, "sh: make dev"]],
  ["and its port", fixture("next"), { command: "make dev", port: 4000 }, ["custom", 4000, "sh: make dev"]],
  ["or the port that it names", a(null), { command: "serve -p 8080 ." }, ["custom", 8080, "sh: serve -p 8080 ."]],
  ["a port alone is handed on", fixture("astro"), { port: 4000 }, ["astro", 4000, "astro dev --port 4000"]],
  ["script dev", a({ scripts: { dev: "node b", start: "node a" } }), {}, ["script", 3000, "npm run dev"]],
  ["script start", a({ scripts: { start: "node a" } }), { appPort: 8080 }, ["script", 8080, "npm run start"]],
  ["a page", a(null, ["index.html"]), {}, ["static", 3000, "files of ."]],
  ["a page beside packages", a({}, ["index.html"]), {}, ["static", 3000, "files of ."]],
  ["a page where the manifest says", a(null), { site: "public" }, ["static", 3000, "files of public"]],
  ["a script before a page", a({ scripts: { start: "x" } }, ["index.html"]), {}, ["script", 3000, "npm run start"]],
  ["packages alone", a({ main: "server.js" }), {}, ["node", 3000, "node ."]],
  ["index.js alone", a(null, ["index.js"]), {}, ["node", 3000, "node ."]],
  ["nothing", a(null, ["README.md"]), {}, null],
])("%s", (_when, from, said, is) => {
  expect(detected(from, said)).toEqual(is);
});

const vite = (dev: string) => a({ ...uses("vite"), scripts: { dev } });
const next = (dev: string) => a({ ...uses("next"), scripts: { dev } });

test.each<[string, Fixture, { port?: number; manager?: PackageManager }, (string | number)[]]>([
  ["flags of the script are kept", next("next dev --turbo"), {}, ["next", 3000, "next dev --turbo -p 3000"]],
  ["so is its port", next("next dev -p 4000 --turbo"), {}, ["next", 4000, "next dev --turbo -p 4000"]],
  ["unless another is asked for", next("next dev -p 4000"), { port: 5000 }, ["next", 4000, "next dev -p 5000"]],
  ["written otherwise", vite("vite --port=4000 --host"), {}, ["vite", 4000, "vite --host --port 4000 --strictPort"]],
  ["what is around it is kept", next("prisma generate && next dev"), {}, ["next", 3000, "npm run dev"]],
  ["also where PORT says another port", next("dotenv -- next dev"), { port: 4000 }, ["next", 3000, "npm run dev"]],
  ["two programs at once", vite('concurrently "vite" "node api.js"'), {}, ["vite", 5173, "npm run dev"]],
  [
    "with another port",
    vite("tsc && vite"),
    { port: 4000, manager: "pnpm" },
    ["vite", 5173, "pnpm run dev --port 4000 --strictPort"],
  ],
  ["a script of something else", vite("node server.js"), {}, ["vite", 5173, "vite --port 5173 --strictPort"]],
  [
    "a changed program",
    a({ ...uses("react-scripts"), scripts: { start: "craco start" } }),
    {},
    ["create-react-app", 3000, "craco start"],
  ],
  ["Remix of before Vite", a(uses("@remix-run/dev")), {}, ["remix", 3000, "remix dev"]],
  [
    "a configuration's port",
    a(uses("vite"), [], { "vite.config.ts": "export default { server: { host: true, port: 4100 } }" }),
    {},
    ["vite", 4100, "vite --port 4100 --strictPort"],
  ],
  [
    "but not one in a comment",
    a(uses("astro"), [], { "astro.config.mjs": "export default {\n// server: { port: 1234 }\n}" }),
    {},
    ["astro", 4321, "astro dev --port 4321"],
  ],
  ["bun", a({ scripts: { dev: "x" } }), { manager: "bun" }, ["script", 3000, "bun run dev"]],
])("%s", (_when, from, options, is) => {
  expect(detected(from, {}, options)).toEqual(is);
});

test("a dev script that is passed over is told", () => {
  const server = detectDevServer(seen(vite("node server.js")), nothingSaid);
  expect(server?.advice).toContain("`command: npm run dev`");
});
