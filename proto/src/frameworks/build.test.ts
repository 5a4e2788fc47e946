import { expect, test } from "vitest";
import { siteBuild } from "./build.ts";
import { readProject } from "./project.ts";
import { factsOf, using } from "./testing/facts.ts";

const build = { scripts: { build: "make" } };

test.each([
  { when: "nothing is said and nothing is built", said: { command: "", output: "." }, json: {}, is: null },
  {
    when: "nothing is said, nothing is scripted and the framework has a program",
    said: { command: "", output: "." },
    json: using("@11ty/eleventy"),
    is: { command: "eleventy", outputs: ["_site"] },
  },
  {
    when: "nothing is said and there is a build script",
    said: { command: "", output: "." },
    json: { ...build, ...using("next") },
    is: { command: "npm run build", outputs: ["out"] },
  },
  {
    when: "nothing is said and the framework makes a server, but can make a site",
    said: { command: "", output: "." },
    json: { scripts: { build: "nuxt build", generate: "nuxt generate" }, ...using("nuxt") },
    is: { command: "npm run generate", outputs: [".output/public", "dist"] },
  },
  {
    when: "nothing is said and the builder is not known",
    said: { command: "", output: "." },
    json: build,
    is: { command: "npm run build", outputs: ["dist", "build", "out", "_site", "public"] },
  },
  { when: "only a directory is said", said: { command: "", output: "public" }, json: build, is: null },
  {
    when: "a command is said and the framework builds elsewhere",
    said: { command: "make", output: null },
    json: using("@sveltejs/kit"),
    is: { command: "make", outputs: ["build", "dist"] },
  },
  {
    when: "a command is said and nothing is known",
    said: { command: "make", output: null },
    json: {},
    is: { command: "make", outputs: ["dist"] },
  },
  {
    when: "both are said",
    said: { command: "make", output: "www" },
    json: using("astro"),
    is: { command: "make", outputs: ["www"] },
  },
  {
    when: "both are said, and the framework builds elsewhere than in dist",
    said: { command: "make", output: "dist" },
    json: using("@sveltejs/kit"),
    is: { command: "make", outputs: ["dist"] },
  },
  {
    when: "both are said, and dist has sources",
    said: { command: "make", output: "dist" },
    json: using("gatsby"),
    files: ["dist/old.html"],
    is: { command: "make", outputs: ["dist"] },
  },
  {
    when: "the build script says where",
    said: { command: "", output: "." },
    json: { scripts: { build: "vite build --outDir ./www/" }, ...using("vite") },
    is: { command: "npm run build", outputs: ["www", "dist"] },
  },
  {
    when: "the build script says a place outside",
    said: { command: "", output: "." },
    json: { scripts: { build: "vite build --outDir ../www" }, ...using("vite") },
    is: { command: "npm run build", outputs: ["dist"] },
  },
  {
    when: "a command is said and a directory of the framework's is one of the sources",
    said: { command: "make", output: null },
    json: using("@remix-run/dev"),
    files: ["public/favicon.ico"],
    is: { command: "make", outputs: ["build/client", "dist", "public"] },
  },
  {
    when: "a command is said and all directories were there before",
    said: { command: "make", output: null },
    json: using("gatsby"),
    files: ["public/old.html", "dist/old.html"],
    is: { command: "make", outputs: ["public", "dist"] },
  },
])("a site when $when", ({ said, json, files, is }) => {
  expect(siteBuild(said, readProject(factsOf({ "package.json": json }, files)))).toEqual(is);
});
