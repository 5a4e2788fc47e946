import { describe, expect, test } from "vitest";
import { buildsItself } from "./build.ts";
import { type DetectedApp, detect } from "./detect.ts";
import type { Facts } from "./facts.ts";
import { factsOf, fixture, fixtureNames, using } from "./testing/facts.ts";

const npm = "npm run build";
const nitro = "node .output/server/index.mjs";

type Expected = [type: string, framework: string, build: string | null, result: string, more?: Partial<DetectedApp>];

/** What the official templates are: a site in a directory, or a server that a command starts. */
const templates: Record<string, Expected> = {
  adonis: ["ssr", "AdonisJS", npm, "node build/bin/server.js", { needs: ["APP_KEY"] }],
  analog: ["ssr", "Analog", npm, "node dist/analog/server/index.mjs"],
  angular: ["static", "Angular", npm, "dist/angular/browser", { spa: true }],
  "angular-ssr": ["ssr", "Angular", npm, "node dist/angular-ssr/server/server.mjs"],
  astro: ["static", "Astro", npm, "dist"],
  "astro-node": ["ssr", "Astro", npm, "node ./dist/server/entry.mjs"],
  "create-react-app": ["static", "Create React App", npm, "build"],
  docusaurus: ["static", "Docusaurus", npm, "build"],
  eleventy: ["static", "Eleventy", npm, "_site"],
  elysia: ["ssr", "Elysia", null, "bun src/index.ts"],
  ember: ["static", "Ember", npm, "dist", { spa: true }],
  express: ["ssr", "Express", null, "node ./bin/www"],
  fastify: ["ssr", "fastify-cli", null, "fastify start -l info app.js"],
  "fastify-ts": ["ssr", "fastify-cli", "npm run build:ts", "fastify start -l info dist/app.js"],
  fumadocs: ["ssr", "Next.js", npm, "next start"],
  gatsby: ["static", "Gatsby", npm, "public"],
  hexo: ["static", "Hexo", npm, "public"],
  hono: ["ssr", "Hono", npm, "node dist/index.js"],
  nest: ["ssr", "NestJS", npm, "node dist/main"],
  next: ["ssr", "Next.js", npm, "next start"],
  "next-empty": ["ssr", "Next.js", npm, "next start"],
  nitro: ["ssr", "Nitro", npm, nitro],
  nuxt: ["ssr", "Nuxt", npm, nitro],
  "nuxt-spa": ["static", "Nuxt", npm, ".output/public", { spa: true }],
  nx: ["static", "Vite", "vite build", "dist", { rootDirectory: "apps/web", spa: true }],
  preact: ["static", "Vite", npm, "dist"],
  "qwik-express": ["ssr", "Qwik City", npm, "node server/entry.express.js"],
  "react-router": ["ssr", "React Router", npm, "react-router-serve ./build/server/index.js"],
  "react-router-spa": ["static", "React Router", npm, "build/client", { spa: true }],
  remix: ["ssr", "Remix", npm, "remix-serve ./build/server/index.js"],
  rsbuild: ["static", "Rsbuild", npm, "dist"],
  rspack: ["static", "Rspack", npm, "dist"],
  slidev: ["static", "Slidev", "pnpm run build", "dist"],
  "solid-start": ["ssr", "SolidStart", npm, nitro],
  "solid-start-1": ["ssr", "SolidStart", npm, nitro],
  starlight: ["static", "Astro", npm, "dist"],
  strapi: ["ssr", "Strapi", npm, "strapi start"],
  "sveltekit-node": ["ssr", "SvelteKit", npm, "node build"],
  "sveltekit-static": ["static", "SvelteKit", npm, "build"],
  t3: ["ssr", "Next.js", npm, "next start"],
  "tanstack-router": ["static", "Vite", npm, "dist", { spa: true }],
  "tanstack-start-nitro": ["ssr", "TanStack Start", npm, nitro],
  "vite-lit": ["static", "Vite", npm, "dist"],
  "vite-preact-ts": ["static", "Vite", npm, "dist"],
  "vite-qwik-ts": ["static", "Vite", npm, "dist"],
  "vite-react-ts": ["static", "Vite", npm, "dist"],
  "vite-solid-ts": ["static", "Vite", npm, "dist"],
  "vite-ssr-react": ["ssr", "Vite", npm, "node server.js"],
  "vite-svelte-ts": ["static", "Vite", npm, "dist"],
  "vite-vanilla": ["static", "Vite", npm, "dist"],
  "vite-vue-ts": ["static", "Vite", npm, "dist"],
  vitepress: ["static", "VitePress", "npm run docs:build", "docs/.vitepress/dist"],
  vue: ["static", "Vite", npm, "dist", { spa: true }],
  vuepress: ["static", "VuePress", "npm run docs:build", "docs/.vuepress/dist"],
  waku: ["ssr", "Waku", npm, "waku start"],
};

/** Templates that nothing can serve before somebody has done what is said here. */
const cures: Record<string, string> = {
  "astro-server-without-adapter": "`npx astro add node`",
  expo: "`npx expo install react-dom react-native-web`",
  "hono-workers": "`npm install @hono/node-server`",
  qwik: "`npm run qwik add express`",
  sveltekit: "`npx sv add sveltekit-adapter=adapter:node`",
  "tanstack-start": "`npm install nitro`",
};

test("every template is looked at", () => {
  expect([...Object.keys(templates), ...Object.keys(cures)].sort()).toEqual([...fixtureNames].sort());
});

test.each(Object.entries(templates))("the template %s", (name, [type, framework, build, result, more = {}]) => {
  const found = detect(fixture(name));
  const expected =
    type === "static" ? { output: result, start: null, port: null } : { start: result, output: null, port: 3000 };
  const rest = { rootDirectory: ".", spa: false, needs: expect.any(Array), standalone: false, dockerfile: null };
  expect(found).toEqual({
    is: "app",
    app: { ...rest, type, framework, build, ...expected, ...more, why: expect.arrayContaining([expect.any(String)]) },
  });
});

test.each(Object.entries(cures))("the template %s is refused with its cure", (name, cure) => {
  expect(detect(fixture(name))).toMatchObject({ is: "refused", cure: expect.stringContaining(cure) });
});

const sites = Object.entries(templates).filter(([, [type]]) => type === "static");

test.each(sites)("the template %s builds itself", (name, [, , , , { rootDirectory = "." } = {}]) => {
  expect(buildsItself(fixture(name), rootDirectory)).toBe(true);
});

const app = (more: Partial<DetectedApp>) => ({ is: "app", app: expect.objectContaining(more) });
const refused = (problem: string, cure: string) => ({
  is: "refused",
  problem: expect.stringContaining(problem),
  cure: expect.stringContaining(cure),
});
const server = { scripts: { start: "node server.js" }, ...using("express") };

describe("a directory", () => {
  test.each([
    { when: "is empty", facts: factsOf({}), is: refused("nothing in this directory", "index.html") },
    { when: "has notes only", facts: factsOf({ "notes.txt": "" }), is: refused("Nothing here tells", "--type static") },
    { when: "has a page", facts: factsOf({ "index.html": "" }), is: app({ type: "static", output: ".", build: null }) },
    {
      when: "has a page in public",
      facts: factsOf({}, ["public/index.html"]),
      is: app({ type: "static", output: "public" }),
    },
    {
      when: "has a page and packages that build nothing",
      facts: factsOf({ "index.html": "", "package.json": { devDependencies: { prettier: "3" } } }),
      is: app({ type: "static", output: ".", build: null }),
    },
    {
      when: "has a build of its own and a page",
      facts: factsOf({ "package.json": { scripts: { build: "node make.js" } } }, ["src/index.html"]),
      is: app({ type: "static", build: npm, output: null }),
    },
    {
      when: "has a build of nobody knows what",
      facts: factsOf({ "package.json": { scripts: { build: "tsc" } } }),
      is: refused("no framework that is known", "start script"),
    },
    {
      when: "has a development server only",
      facts: factsOf({ "package.json": { scripts: { start: "nodemon src/x.js" } } }),
      is: refused("no start script that serves visitors", "start script"),
    },
    {
      when: "has a start script that runs itself",
      facts: factsOf({ "package.json": { scripts: { build: "tsc", start: "npm run build && npm start" } } }),
      is: refused('The script "start" of package.json runs itself', "into package.json"),
    },
    {
      when: "only serves what a build leaves",
      facts: factsOf({ "package.json": { scripts: { build: "make", start: "serve -s dist" } } }),
      is: app({ type: "static", build: npm }),
    },
    {
      when: "has a server of its own beside a site's framework",
      facts: factsOf({
        "package.json": { scripts: { build: "vite build", start: "node server.js" }, ...using("vite") },
      }),
      is: app({ type: "ssr", start: "node server.js", build: npm }),
    },
    {
      when: "has a server that a package names",
      facts: factsOf({ "server.js": "", "package.json": { main: "server.js", ...using("fastify") } }),
      is: app({ type: "ssr", framework: "Fastify", start: "node server.js" }),
    },
    {
      when: "has packages of a server, a site's framework and a main file that nobody wrote",
      facts: factsOf({
        "index.html": "",
        "package.json": {
          main: "index.js",
          scripts: { build: "vite build", dev: "vite" },
          ...using("vite", "ws", "hono"),
        },
      }),
      is: app({ type: "static", framework: "Vite", build: npm, output: "dist" }),
    },
    {
      when: "has packages of a server, a site's framework and the file of the server",
      facts: factsOf({
        "index.html": "",
        "server.js": "",
        "package.json": { main: "server", scripts: { build: "vite build" }, ...using("vite", "express") },
      }),
      is: app({ type: "ssr", start: "node server" }),
    },
    {
      when: "has a server that its build makes",
      facts: factsOf({ "package.json": { main: "./dist/server.js", scripts: { build: "tsc" }, ...using("express") } }),
      is: app({ type: "ssr", framework: "Express", start: "node ./dist/server.js" }),
    },
    {
      when: "has packages of a server, and a main file that neither is there nor comes from the build",
      facts: factsOf({ "package.json": { main: "index.js", scripts: { build: "tsc" }, ...using("express") } }),
      is: refused("no start script that serves visitors", "start script"),
    },
    {
      when: "exports its pages",
      facts: factsOf({
        "package.json": { scripts: { build: "next build", start: "next start" }, ...using("next") },
        "next.config.mjs": 'export default { output: "export" };',
      }),
      is: app({ type: "static", output: "out" }),
    },
    {
      when: "has exporting in a comment only",
      facts: factsOf({
        "package.json": { scripts: { build: "next build", start: "next start" }, ...using("next") },
        "next.config.mjs": 'export default {\n  // output: "export",\n};',
      }),
      is: app({ type: "ssr", start: "next start" }),
    },
    {
      when: "makes a traced copy",
      facts: factsOf({
        "package.json": { scripts: { build: "next build", start: "next start" }, ...using("next") },
        "next.config.mjs": 'export default { output: "standalone" };',
      }),
      is: app({ type: "ssr", start: "node server.js", standalone: true }),
    },
    {
      when: "has an adapter installed and another one in use",
      facts: factsOf({
        "package.json": {
          scripts: { build: "vite build" },
          ...using("@sveltejs/kit", "@sveltejs/adapter-auto", "@sveltejs/adapter-node"),
        },
        "svelte.config.js": 'import adapter from "@sveltejs/adapter-node";',
      }),
      is: app({ type: "ssr", start: "node build" }),
    },
    {
      when: "tells its bundler where to leave the site",
      facts: factsOf({
        "index.html": "",
        "package.json": { scripts: { build: "vite build" }, ...using("vite") },
        "vite.config.js": 'export default { build: { outDir: "./www/" } };',
      }),
      is: app({ type: "static", output: "www" }),
    },
    {
      when: "makes a library",
      facts: factsOf({
        "package.json": { scripts: { build: "vite build" }, ...using("vite") },
        "vite.config.js": "export default { build: { lib: { entry: 'src/main.js' } } };",
      }),
      is: refused("Vite", "build.lib"),
    },
    {
      when: "needs the packages of a workspace around it",
      facts: factsOf({ "package.json": { ...server, dependencies: { express: "1", "@x/lib": "workspace:*" } } }),
      is: refused("@x/lib", "--root"),
    },
  ])("that $when", ({ facts, is }) => {
    expect(detect(facts)).toEqual(is);
  });

  test.each([
    { text: "FROM node\nEXPOSE 8080\n", port: 8080 },
    { text: "FROM node AS build\nEXPOSE 9000\nFROM nginx\n", port: 3000 },
    { text: "FROM node\nENV PORT=4000\nEXPOSE $PORT\n", port: 4000 },
    { text: `FROM node\nARG PORT=5000\nEXPOSE \${PORT}/tcp\n`, port: 5000 },
    { text: 'FROM node\nENV A=1 PORT="7000"\n', port: 7000 },
    { text: "FROM node\n", port: 3000 },
  ])("with the Dockerfile $text listens on $port", ({ text, port }) => {
    const facts = factsOf({ Dockerfile: text, "package.json": server });
    expect(detect(facts)).toEqual(app({ type: "ssr", dockerfile: "Dockerfile", start: null, build: null, port }));
  });

  test.each([
    {
      when: "the command",
      json: { scripts: { start: "next start -p 8081" }, ...using("next") },
      files: {},
      port: 8081,
    },
    { when: "the source", json: server, files: { "server.js": "app.listen(8082)" }, port: 8082 },
    { when: "a name in the source", json: server, files: { "server.js": "const port = 8083;" }, port: 8083 },
    {
      when: "the source of a build",
      json: { scripts: { build: "tsc", start: "node dist/index.js" } },
      files: { "src/index.ts": "serve({ fetch, port: 8084 })" },
      port: 8084,
    },
    { when: "PORT", json: server, files: { "server.js": "app.listen(process.env.PORT ?? 8085)" }, port: 3000 },
  ])("whose port $when tells", ({ json, files, port }) => {
    expect(detect(factsOf({ "package.json": json, ...files }))).toEqual(app({ type: "ssr", port }));
  });
});

test.each([
  { files: ["requirements.txt", "app.py"], name: "Python" },
  { files: ["main.go", "go.mod"], name: "Go" },
  { files: ["Gemfile", "config.ru", "package.json"], name: "Ruby on Rails" },
  { files: ["artisan", "composer.json", "package.json", "vite.config.js"], name: "Laravel" },
  { files: ["index.php"], name: "PHP" },
  { files: ["pom.xml"], name: "Java" },
  { files: ["Cargo.toml", "src/main.rs"], name: "Rust" },
])("a project with $files is one of $name, which needs a Dockerfile", ({ files, name }) => {
  const json = { scripts: { build: "vite build" }, ...using("vite") };
  const facts = factsOf(files.includes("package.json") ? { "package.json": json } : {}, files);
  expect(detect(facts)).toEqual(refused(`${name} project`, "Dockerfile"));
  const built = factsOf({ ...Object.fromEntries(facts.texts), Dockerfile: "FROM x\nEXPOSE 8000" }, files);
  if (!files.includes("package.json")) expect(detect(built)).toEqual(app({ dockerfile: "Dockerfile", port: 8000 }));
});

test("a generator of sites that is not Node's is told with its command", () => {
  expect(detect(factsOf({}, ["hugo.toml"]))).toEqual(refused("Hugo project", "`hugo`"));
});

describe("a workspace", () => {
  const members = {
    "package.json": {
      workspaces: ["apps/*", "packages/*"],
      scripts: { build: "turbo run build", start: "turbo run start" },
    },
    "turbo.json": "{}",
    "pnpm-lock.yaml": "",
    "packages/ui/package.json": { name: "@x/ui", scripts: { build: "tsc" } },
    "apps/web/package.json": {
      name: "web",
      scripts: { build: "next build", start: "next start" },
      ...using("next", "@x/ui"),
    },
  };
  const api = { "apps/api/package.json": { name: "api", scripts: { start: "node server.js" }, ...using("express") } };

  test("with one app is that app, built after what it is made from", () => {
    expect(detect(factsOf(members))).toEqual(
      app({ rootDirectory: "apps/web", framework: "Next.js", build: 'pnpm --filter "web..." run build' }),
    );
  });

  test("with several asks which", () => {
    expect(detect(factsOf({ ...members, ...api }))).toMatchObject({
      is: "unclear",
      choices: [
        { flags: "--root apps/api", app: { type: "ssr", framework: "Express", rootDirectory: "apps/api" } },
        { flags: "--root apps/web", app: { type: "ssr", framework: "Next.js", rootDirectory: "apps/web" } },
      ],
    });
  });

  test("with an app that may be either asks which", () => {
    const { "apps/web/package.json": _, ...rest } = members;
    const json = { main: "dist/server.js", scripts: { build: "vite build && tsc" }, ...using("vite", "express") };
    expect(detect(factsOf({ ...rest, "apps/web/package.json": json, "apps/web/index.html": "" }))).toMatchObject({
      is: "unclear",
      choices: [
        { label: "apps/web (Vite, a static site)", flags: "--root apps/web --type static" },
        { label: "apps/web (Vite, a server)", flags: "--root apps/web --type ssr" },
      ],
    });
  });

  test("of which one is named is that one", () => {
    const facts = factsOf({ ...members, ...api });
    expect(detect(facts, { root: "apps/api" })).toEqual(app({ rootDirectory: "apps/api", start: "node server.js" }));
  });

  test("without an app is refused", () => {
    const { "apps/web/package.json": _, ...libraries } = members;
    expect(detect(factsOf(libraries))).toEqual(refused("none of them is an app", "--root"));
  });

  test("whose app cannot be served says why", () => {
    const kit = { "apps/web/package.json": { ...using("@sveltejs/kit", "@sveltejs/adapter-auto") } };
    expect(detect(factsOf({ ...members, ...kit }))).toEqual(refused("npx sv add", "--root"));
  });

  test("that is none, but has a package in a directory, is that package", () => {
    const facts = factsOf({
      "web/package.json": { scripts: { build: "astro build" }, ...using("astro") },
      "README.md": "",
    });
    expect(detect(facts)).toEqual(app({ rootDirectory: "web", framework: "Astro" }));
  });

  test.each([
    { top: { "package.json": using("@sveltejs/kit", "@sveltejs/adapter-auto") }, says: "SvelteKit" },
    { top: { "requirements.txt": "" }, says: "Python" },
  ])("is not what a project that cannot be served has below it: $says", ({ top, says }) => {
    const below = { "functions/package.json": { scripts: { start: "node x.js" }, ...using("express") } };
    expect(detect(factsOf({ ...top, ...below }))).toEqual(refused(says, ""));
    expect(detect(factsOf({ ...top, ...below }), { root: "functions" })).toEqual(app({ framework: "Express" }));
  });

  test("has the package manager of its top in every package", () => {
    const { "apps/web/package.json": web, ...rest } = members;
    const lonely = { ...web, dependencies: { next: "1" } };
    expect(detect(factsOf({ ...rest, "apps/web/package.json": lonely }))).toEqual(app({ build: "pnpm run build" }));
  });
});

describe("a workspace below the top of a repository", () => {
  const below = ({ files, texts }: Facts): Facts => ({
    files: new Set(["README.md", ...[...files].map((path) => `web/${path}`)]),
    texts: new Map([...texts].map(([path, text]) => [`web/${path}`, text])),
  });
  const inside = (found: ReturnType<typeof detect>): unknown =>
    found.is === "app" ? { ...found, app: { ...found.app, rootDirectory: `web/${found.app.rootDirectory}` } } : found;

  const pnpm = factsOf({
    ...{ "package.json": {}, "pnpm-workspace.yaml": "packages:\n  - apps/*\n  - libs/*\n", "pnpm-lock.yaml": "" },
    "libs/ui/package.json": { name: "@x/ui", scripts: { build: "tsc" } },
    "apps/web/package.json": { name: "web", scripts: { build: "next build" }, ...using("next", "@x/ui") },
  });
  const npmOwn = factsOf({
    ...{ "package.json": { workspaces: ["apps/*", "libs/*"] }, "package-lock.json": "" },
    "libs/ui/package.json": { name: "@x/ui", scripts: { build: "tsc" } },
    "apps/web/package.json": { name: "web", scripts: { build: "next build" }, ...using("next", "@x/ui") },
  });

  test.each([
    { of: "Nx", facts: fixture("nx") },
    { of: "pnpm", facts: pnpm },
    { of: "npm", facts: npmOwn },
  ])("of $of holds the same app as one at the top", ({ facts }) => {
    const atTop = detect(facts, { root: "apps/web" });
    expect(atTop.is).toBe("app");
    expect(detect(below(facts), { root: "web/apps/web" })).toEqual(inside(atTop));
  });

  test.each([
    { of: "Nx", facts: fixture("nx") },
    { of: "pnpm", facts: pnpm },
    { of: "npm", facts: npmOwn },
  ])("of $of has an app that is found from the top", ({ facts }) => {
    expect(detect(below(facts))).toMatchObject({ is: "app", app: { rootDirectory: "web/apps/web" } });
  });
});

test("a site's framework beside a server that the build may leave may be either", () => {
  const json = { main: "dist/server.js", scripts: { build: "vite build && tsc" }, ...using("vite", "express") };
  expect(detect(factsOf({ "index.html": "", "package.json": json }))).toMatchObject({
    is: "unclear",
    choices: [
      { flags: "--type static", app: { type: "static", output: "dist" } },
      { flags: "--type ssr", app: { type: "ssr", start: "node dist/server.js" } },
    ],
  });
});

test("a page beside a server may be either", () => {
  const facts = factsOf({ "index.html": "", "server.js": "" });
  const types = (found: ReturnType<typeof detect>) =>
    found.is === "unclear" ? found.choices.map(({ flags }) => flags) : found;
  expect(types(detect(facts))).toEqual(["--type static", "--type ssr"]);
  const below = factsOf({ "web/index.html": "", "web/server.js": "" });
  expect(types(detect(below, { root: "web" }))).toEqual(["--root web --type static", "--root web --type ssr"]);
  expect(detect(facts, { type: "ssr" })).toEqual(app({ start: "node server.js" }));
  expect(detect(factsOf({ "index.html": "", "app.js": "" }))).toEqual(app({ type: "static" }));
});

describe("somebody who says the type", () => {
  test("gets a site of a project that starts a server", () => {
    const facts = factsOf({ "package.json": { ...server, scripts: { ...server.scripts, build: "make" } } });
    expect(detect(facts, { type: "static" })).toEqual(app({ type: "static", build: npm, output: null }));
  });

  test("publishes files as they are", () => {
    expect(detect(factsOf({ "notes.txt": "" }), { type: "static" })).toEqual(
      app({ type: "static", output: ".", build: null }),
    );
  });

  test("hears what is missing for a server", () => {
    expect(detect(fixture("astro"), { type: "ssr" })).toEqual(refused("Astro makes a site", "start"));
  });
});
