import { expect, test } from "vitest";
import { factsOf, using } from "./frameworks/testing/facts.ts";
import { sourceManifestSchema } from "./manifest.ts";
import { packedSite } from "./packed-site.ts";

const aStatic = { version: 2, app: { name: "Docs", type: "static" } };
const built = { scripts: { build: "vite build" } };
const nx = {
  ...{ "nx.json": "{}", "package.json": { workspaces: ["apps/*"], ...using("nx", "vite") } },
  ...{ "apps/web/package.json": { name: "web" }, "apps/web/vite.config.ts": "export default {}" },
};
const inWeb = { ...aStatic, source: { rootDirectory: "apps/web" } };

test.each<{ when: string; manifest: object; packed: Record<string, string | object>; unread?: string[]; is: unknown }>([
  { when: "it is a site", manifest: aStatic, packed: { "index.html": "" }, is: { directory: ".", doubts: [] } },
  { when: "the project builds itself", manifest: aStatic, packed: { "package.json": built }, is: null },
  {
    when: "a framework has a command of its own",
    manifest: aStatic,
    packed: { "package.json": { scripts: { "docs:build": "vitepress build docs" }, ...using("vitepress") } },
    is: null,
  },
  { when: "the workspace around it has the framework", manifest: inWeb, packed: nx, is: null },
  {
    when: "there is a package.json that nobody has read",
    manifest: aStatic,
    packed: {},
    unread: ["package.json"],
    is: null,
  },
  {
    when: "its package.json was left out",
    manifest: aStatic,
    packed: { "a.css": "" },
    is: { directory: ".", doubts: [expect.stringMatching(/^There is no index\.html/)] },
  },
  {
    when: "its author has tools beside the page",
    manifest: aStatic,
    packed: { "index.html": "", "package.json": { scripts: { test: "x" } }, Makefile: "", "deploy.pem": "" },
    is: { directory: ".", doubts: [expect.stringMatching(/^deploy\.pem may hold secrets/)] },
  },
  {
    when: "the output that is named is a project",
    manifest: { ...aStatic, build: { output: "web" } },
    packed: { "web/index.html": "", "web/package.json": built },
    is: { directory: "web", doubts: [expect.stringMatching(/^package\.json is served/)] },
  },
  {
    when: "an output is named",
    manifest: { ...aStatic, build: { output: "public" } },
    packed: { "package.json": built, "public/index.html": "", id_rsa: "" },
    is: { directory: "public", doubts: [] },
  },
  {
    when: "the app lies deeper",
    manifest: { ...aStatic, source: { rootDirectory: "web" }, build: { output: "site" } },
    packed: { "web/site/index.html": "", "web/site/deploy.pem": "" },
    is: { directory: "web/site", doubts: [expect.stringMatching(/^deploy\.pem may hold secrets/)] },
  },
  { when: "a command is named", manifest: { ...aStatic, build: { command: "make" } }, packed: {}, is: null },
  { when: "it is a server", manifest: { version: 2, app: { name: "Shop", type: "ssr" } }, packed: {}, is: null },
])("what is known of a packed site when $when", ({ manifest, packed, unread, is }) => {
  expect(packedSite(sourceManifestSchema.parse(manifest), factsOf(packed, unread))).toEqual(is);
});
