import { expect, test } from "vitest";
import { readProject } from "./project.ts";
import { asksForStandalone, serverStart } from "./start.ts";
import { factsOf, using } from "./testing/facts.ts";

interface More {
  said?: string;
  texts?: Record<string, string>;
  manager?: "npm" | "pnpm" | "yarn-berry";
}
const start = (json: object, { said = "", texts = {}, manager = "pnpm" }: More = {}) =>
  serverStart({ build: "", start: said }, readProject(factsOf({ "package.json": json, ...texts }), { manager }));
const command = (json: object, more?: More) => {
  const found = start(json, more);
  return "problem" in found ? found.problem : found.command;
};
const nothing = expect.stringMatching(/^Nothing says how to start the app: set start\.command/);

test.each([
  { when: "there is a start script", json: { scripts: { start: "node x.js" } }, is: "node x.js" },
  { when: "the start script needs a shell", json: { scripts: { start: "A=1 node x.js" } }, is: "pnpm start" },
  {
    when: "another one runs first",
    json: { scripts: { start: "node x.js", prestart: "node y.js" } },
    is: "pnpm start",
  },
  {
    when: "the start script builds first, as the build did",
    json: { scripts: { start: "npm run build && node x.js", build: "tsc" } },
    is: "node x.js",
  },
  {
    when: "the start script does something else first",
    json: { scripts: { start: "npm run migrate && node x.js", migrate: "y", build: "tsc" } },
    is: "pnpm start",
  },
  { when: "there is a main file", json: { main: "src/x.js" }, is: "node src/x.js" },
  { when: "the main file has a name of shell syntax", json: { main: "$(x)" }, is: nothing },
  { when: "the framework tells", json: using("nuxt"), is: "node .output/server/index.mjs" },
  {
    when: "the start script is the framework's own",
    json: { scripts: { start: "next start" }, ...using("next") },
    is: "next start",
  },
  {
    when: "the start script starts what lies elsewhere",
    json: { scripts: { start: "node bin/server.js" }, ...using("@adonisjs/core") },
    is: "node build/bin/server.js",
  },
  { when: "nothing tells", json: {}, is: nothing },
])("when $when a server starts with $is", ({ json, is }) => {
  expect(command(json)).toEqual(is);
});

const nest = {
  scripts: { build: "nest build", start: "nest start", "start:prod": "node dist/main" },
  ...using("@nestjs/core"),
};

test.each([
  { when: "there is a script for production", json: nest, is: "node dist/main" },
  { when: "the manifest names it, and there is one", json: nest, said: "npm start", is: "node dist/main" },
  {
    when: "the framework has its own way",
    json: { ...nest, scripts: { start: "nest start" } },
    is: "node dist/main.js",
  },
  {
    when: "the manifest names it by another name",
    json: { scripts: { web: "astro dev" }, ...using("astro", "@astrojs/node") },
    said: "npm run web",
    is: "node ./dist/server/entry.mjs",
  },
  {
    when: "the manifest writes it out",
    json: using("next"),
    said: "next dev",
    is: "next start",
  },
])("instead of a development server, when $when, $is is started and said", ({ json, said, is }) => {
  const found = start(json, said === undefined ? {} : { said });
  expect(found).toMatchObject({ command: is, note: expect.stringMatching(/is for development.*is started instead/) });
});

test.each([
  {
    json: { scripts: { start: "nodemon x.js" } },
    said: "npm start",
    says: /"nodemon x\.js".*start\.command in the manifest/,
  },
  { json: { scripts: { start: "nodemon x.js" } }, says: /start script runs "nodemon x\.js".*set start\.command/ },
  { json: { scripts: { start: "astro dev" }, ...using("astro") }, says: /app\.type: static.*npx astro add node/ },
  { json: { scripts: { start: "vite --open" }, ...using("@builder.io/qwik-city") }, says: /npm run qwik add express/ },
  { json: using("@tanstack/react-start"), says: /npm install nitro/ },
  { json: using("@sveltejs/kit", "@sveltejs/adapter-auto"), says: /npx sv add/ },
])("$json, started with '$said', is refused with what to do", ({ json, said, says }) => {
  expect(start(json, said === undefined ? {} : { said })).toEqual({ problem: expect.stringMatching(says) });
});

test.each([
  { said: "npm start", is: "node x.js" },
  { said: "pnpm run worker:web", is: "node y.js" },
  { said: "yarn run both", is: "yarn run both" },
  { said: "npm run none", is: "npm run none" },
  { said: "npm start -- --port 1", is: "npm start -- --port 1" },
  { said: "node z.js", is: "node z.js" },
  { said: "node z.js --watch-dir /data", is: "node z.js --watch-dir /data" },
])("a manifest that says '$said' starts '$is'", ({ said, is }) => {
  const scripts = { start: "node x.js", "worker:web": "node y.js", both: "node x.js && node y.js" };
  expect(start({ scripts }, { said })).toMatchObject({ command: is, standalone: false, note: null });
});

test.each([
  { scripts: { start: "npm run build && npm start", build: "tsc" }, name: "start" },
  { scripts: { start: "npm run build && npm run prod", prod: "npm start", build: "tsc" }, name: "start" },
  { scripts: { start: "npm start" }, name: "start" },
  { scripts: { start: "npm run a", a: "npm run b", b: "npm run a" }, name: "a" },
])("scripts that only run each other are refused: $scripts", ({ scripts, name }) => {
  const problem = expect.stringMatching(
    new RegExp(`^The script "${name}" of package.json runs itself.*node server.js`),
  );
  for (const manager of ["npm", "yarn-berry"] as const) {
    expect(start({ scripts }, { manager })).toEqual({ problem });
    expect(start({ scripts }, { manager, said: "npm start" })).toEqual({ problem });
  }
});

test("a script for production that only runs itself is not started", () => {
  const scripts = { start: "nest start", "start:prod": "npm run start:prod" };
  expect(command({ scripts, ...using("@nestjs/core") })).toBe("node dist/main.js");
});

test("a server that is started again when it ends is no endless script", () => {
  expect(command({ scripts: { start: "node x.js || npm start" } })).toBe("pnpm start");
});

test("a long row of scripts that build first is not followed to its end", () => {
  const names = [...Array(50_000).keys()];
  const row = names.map((name) => [`s${name}`, `npm run build && npm run s${name + 1}`]);
  const scripts = { ...Object.fromEntries(row), build: "tsc", start: "npm run s0" };
  expect(command({ scripts })).toMatch(/^npm run s\d+$/);
});

const tsx = { devDependencies: { tsx: "4", "cross-env": "10" }, dependencies: { next: "16" } };

test.each([
  { script: "tsx src/index.ts", keeps: ["tsx"] },
  { script: "node --import tsx src/index.ts", keeps: ["tsx"] },
  { script: "node --import=tsx src/index.ts", keeps: ["tsx"] },
  { script: "NODE_OPTIONS='--import tsx' node src/index.ts", keeps: ["tsx"] },
  { script: "NODE_OPTIONS=--import=tsx/esm node src/index.ts", keeps: ["tsx"] },
  { script: 'sh -c "exec tsx src/index.ts"', keeps: ["tsx"] },
  { script: "node -r tsx/cjs src/index.ts", keeps: ["tsx"] },
  { script: "node x.js --mode=tsx-like", keeps: [] },
  { script: "cross-env NODE_ENV=production npm run go", keeps: ["cross-env"] },
  { script: "next start", keeps: [] },
  { script: "node x.js", keeps: [] },
])("what $script is started with stays: $keeps", ({ script, keeps }) => {
  expect(start({ scripts: { start: script }, ...tsx })).toMatchObject({ keeps });
});

const drizzle = { "drizzle.config.ts": 'export default { out: "./drizzle", outDir: "elsewhere" }' };

test.each([
  {
    json: using("@sveltejs/kit", "@sveltejs/adapter-node"),
    texts: {
      "svelte.config.js": 'export default { kit: { adapter: adapter({ precompress: true, out: "./dist/" }) } }',
    },
    is: "node dist",
  },
  {
    json: using("@sveltejs/kit", "@sveltejs/adapter-node"),
    texts: { "svelte.config.js": "export default { kit: { adapter: adapter() } }", ...drizzle },
    is: "node build",
  },
  {
    json: using("@sveltejs/kit", "@sveltejs/adapter-node"),
    texts: { "svelte.config.js": 'export default { kit: { adapter: adapter({ out: "../dist" }) } }' },
    is: "node build",
  },
  {
    json: using("astro", "@astrojs/node"),
    texts: { "astro.config.mjs": 'export default { outDir: "./out", adapter: node({ mode: "standalone" }) }' },
    is: "node ./out/server/entry.mjs",
  },
  {
    json: using("astro", "@astrojs/node"),
    texts: { "astro.config.mjs": "export default {\n  // outDir: 'out',\n}", ...drizzle },
    is: "node ./dist/server/entry.mjs",
  },
  {
    json: using("@react-router/dev", "@react-router/serve"),
    texts: { "react-router.config.ts": "export default { buildDirectory: 'out' }" },
    is: "react-router-serve ./out/server/index.js",
  },
  {
    json: using("@remix-run/dev", "@remix-run/serve"),
    texts: { "vite.config.ts": "export default { plugins: [remix({ buildDirectory: 'out' })] }" },
    is: "remix-serve ./out/server/index.js",
  },
])("$texts leaves a server that is started by $is", ({ json, texts, is }) => {
  expect(command(json, { texts })).toBe(is);
});

test("a file of a usual name is a server", () => {
  expect(command({}, { texts: { "server.js": "" } })).toBe("node server.js");
});

test("packages that stay packed are reached through their manager", () => {
  expect(command({ scripts: { start: "node x.js" } }, { manager: "yarn-berry" })).toBe("yarn start");
});

test("a traced copy of a Next app is started by its own server, unless the manifest says another way", () => {
  const json = { scripts: { build: "next build", start: "next start" }, ...using("next") };
  const texts = { "next.config.js": 'module.exports = { output: "standalone" };' };
  expect(start(json, { texts })).toMatchObject({ command: "node server.js", standalone: true });
  expect(start(json, { texts, said: "npm start" })).toMatchObject({ command: "next start", standalone: false });
});

test("a project that is not Node's is told so", () => {
  const project = readProject(factsOf({}, ["requirements.txt"]));
  expect(serverStart({ build: "", start: "" }, project)).toEqual({
    problem: expect.stringMatching(/Python.*Dockerfile/),
  });
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
