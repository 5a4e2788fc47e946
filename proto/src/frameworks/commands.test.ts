import { describe, expect, test } from "vitest";
import { lookThrough, programsOf, purposeOf, runsElsewhere } from "./commands.ts";
import { parsePackageJson } from "./package-json.ts";

const manifest = (scripts: Record<string, string>) => parsePackageJson(JSON.stringify({ scripts }));

test.each([
  "astro dev",
  "vite",
  "vite --open --mode ssr",
  "vite dev --port 3000",
  "ng serve",
  "gatsby develop",
  "docusaurus start --host 0.0.0.0",
  "npx @11ty/eleventy --serve --quiet",
  "react-scripts start",
  "craco start",
  "nest start",
  "nest start --watch",
  "next dev",
  "next",
  "next -p 3000",
  "next --turbo",
  "astro --host 0.0.0.0",
  "nuxi --port 3000",
  "nuxt dev --host",
  "remix vite:dev",
  "remix watch",
  "react-router --host",
  "vinxi --port 3000",
  "waku -p 3000",
  "rspress --port 3000",
  "rsbuild --port 3000 --open",
  'concurrently "vite" "node server.js"',
  "npx concurrently -k -n web,api -c blue,red 'npm run tidy' 'next dev'",
  "concurrently npm:tidy npm:dev",
  'sh -c "npm run tidy && next dev"',
  "bash -lc 'exec nodemon server.js'",
  "run-p --race tidy dev",
  "nuxt dev",
  "vinxi dev",
  "vue-cli-service serve",
  "vitepress dev docs",
  "vitepress docs",
  "slidev --open",
  "expo start",
  "storybook dev -p 6006",
  "hexo server",
  "parcel src/index.html",
  "strapi develop",
  "node ace serve --hmr",
  "nodemon server.js",
  "ts-node-dev --respawn src/main.ts",
  "tsx watch src/index.ts",
  "tsx --env-file=.env watch src/index.ts",
  "tsx --env-file .env --tsconfig tsconfig.app.json watch src/index.ts",
  "node --import tsx --watch src/index.ts",
  "node --env-file .env --watch-path=./src --inspect server.js",
  "deno run -A --watch=main.ts main.ts",
  "node --watch server.js",
  "bun run --watch src/index.ts",
  "bun --hot src/index.ts",
  "webpack serve --mode development",
  "wrangler dev",
  "NODE_ENV=development nodemon server.js",
  "cross-env PORT=3000 react-scripts start",
  "npx --yes vite --host",
  "node node_modules/.bin/vite",
  "npm run tidy && vite",
  "dotenv -e .env -- next dev",
])("'%s' is for development", (command) => {
  expect(purposeOf(command, manifest({ tidy: "prettier .", dev: "vite" }))).toBe("development");
});

test.each(["serve -s build", "npx serve dist", "http-server public", "vite preview", "astro preview", "gatsby serve"])(
  "'%s' serves files",
  (command) => {
    expect(purposeOf(command, null)).toBe("files");
  },
);

test.each([
  "node server.js",
  "node dist/main",
  "next start",
  "next start -p 3000",
  "nuxt start",
  "remix-serve ./build/server/index.js",
  "react-router-serve ./build/server/index.js",
  "fastify start -l info app.js",
  "strapi start",
  "tsx src/index.ts",
  "bun src/index.ts",
  "vite-node server.ts",
  "vite build && node server.js",
  "NODE_ENV=production node .",
  "node watch.js",
  "node server.js --watch-dir /data",
  "node dist/server --hot-reload=off",
  "node --enable-source-maps server.js --watch",
  "node --env-file .env server.js --hot",
  "node -r dotenv/config dist/index.js --watch",
  "bun run src/index.ts --hot",
  "tsx src/index.ts watch",
  "node --watchdog server.js",
  "pm2-runtime server.js",
  "waku start",
  "vinxi start --port 3000",
  "next-server",
  "remix-serve --watch",
  'concurrently -n vite,api -c blue,red "node worker.js" "node server.js"',
  'concurrently -n "vite" "node server.js"',
  'concurrently "node server.js" "serve -s build"',
  "sh -c 'node migrate.js; node server.js'",
  "sh start.sh",
  "run-s tidy start",
])("'%s' is a server", (command) => {
  expect(purposeOf(command, null)).toBe("server");
});

test.each([
  { scripts: { start: "node x.js" }, command: "npm start", is: { command: "node x.js", direct: true } },
  { scripts: { start: "npm run prod", prod: "node x" }, command: "npm start", is: { command: "node x", direct: true } },
  { scripts: { "start:prod": "node x" }, command: "yarn start:prod", is: { command: "node x", direct: true } },
  { scripts: { start: "A=1 node x" }, command: "npm start", is: { command: "A=1 node x", direct: false } },
  { scripts: { start: "node x", prestart: "y" }, command: "npm start", is: { command: "node x", direct: false } },
  { scripts: { start: "node x" }, command: "npm start -- -p 1", is: { command: "node x", direct: false } },
  { scripts: { start: "npm start" }, command: "npm start", is: { command: "npm start", direct: true } },
  { scripts: { a: "npm run b", b: "npm run a" }, command: "npm run a", is: { direct: true } },
  { scripts: { dev: "vite" }, command: "npm dev", is: { command: "npm dev", direct: true } },
  { scripts: { build: "make" }, command: "npm run build && node x", is: { command: "npm run build && node x" } },
  { scripts: {}, command: "npm run none", is: { command: "npm run none", scripts: [] } },
])("'$command' of $scripts comes to $is.command", ({ scripts, command, is }) => {
  expect(lookThrough(command, manifest(scripts))).toMatchObject(is);
});

test.each([
  { scripts: { start: "npm run dev", dev: "vite" }, purpose: "development" },
  { scripts: { start: "npm run dev -- --open", dev: "vite" }, purpose: "development" },
  { scripts: { start: "npm run build && npm run serve", build: "make", serve: "node x.js" }, purpose: "server" },
  { scripts: { start: "npm run start:prod", "start:prod": "node dist/main" }, purpose: "server" },
])("a start script of $scripts is for $purpose", ({ scripts, purpose }) => {
  expect(purposeOf("npm start", manifest(scripts))).toBe(purpose);
});

test.each([
  { command: "turbo run start", elsewhere: true },
  { command: "npm run start --workspace web", elsewhere: true },
  { command: "pnpm --filter web start", elsewhere: true },
  { command: "yarn workspace web start", elsewhere: true },
  { command: "node server.js", elsewhere: false },
  { command: "npm run serve", elsewhere: false },
])("'$command' is run in another package: $elsewhere", ({ command, elsewhere }) => {
  expect(runsElsewhere(command)).toBe(elsewhere);
});

// With expressions that try each way to split a text, any of these takes minutes or years.
describe("a command that is made to be slow", () => {
  const mebibyte = 1024 * 1024;

  test.each([
    { is: "node and words", command: `node ${"run ".repeat(900)}!` },
    { is: "node and words, longer than any command", command: `node ${"run ".repeat(mebibyte)}!` },
    { is: "dotenv and options", command: `dotenv ${"-a run ".repeat(500)}!` },
    { is: "dotenv and options, longer than any command", command: `dotenv ${"-a run ".repeat(mebibyte)}!` },
    { is: "flags of npm", command: `npm ${"-s ".repeat(1300)}!` },
    { is: "flags of npm, longer than any command", command: `npm ${"-s ".repeat(mebibyte)}&` },
    { is: "spaces", command: `npm run x${" ".repeat(4000)}!` },
    { is: "quotes", command: `node ${`"'`.repeat(2000)}` },
    { is: "variables", command: `${"A= ".repeat(1300)}node` },
    { is: "commands", command: "npm start&".repeat(400) },
  ])("of $is, is taken as it is", ({ command }) => {
    const json = manifest({ start: command, x: command });
    expect(purposeOf(command, json)).toBe("server");
    expect(purposeOf("npm start", json)).toBe("server");
    expect(runsElsewhere(command)).toBe(false);
    expect(lookThrough(command, json).command).toBe(command.trim());
    expect(programsOf(command, json)).not.toContain("vite");
  });

  test("of scripts that run each other, is looked through so far", () => {
    const names = [...Array(300).keys()];
    const all = names.map((name) => `npm run s${name}`).join("&");
    const json = manifest(Object.fromEntries(names.map((name) => [`s${name}`, all])));
    expect(purposeOf(all, json)).toBe("server");
  });
});
