import { describe, expect, test } from "vitest";
import { siteBuild } from "./build.ts";
import { codeOf } from "./framework.ts";
import { readProject } from "./project.ts";
import { serverStart } from "./start.ts";
import { factsOf, using } from "./testing/facts.ts";

test.each([
  { config: 'a // "b"\nc', code: "a \nc" },
  { config: "a /* b\n// c */ d", code: "a  d" },
  { config: "// a /* b\nc */", code: "\nc */" },
  { config: "{//a\r\nb}", code: "{\nb}" },
  { config: "// a", code: "" },
  { config: 'site: "https://x.test", base: "/*", to: "x"', code: 'site: "https://x.test", base: "/*", to: "x"' },
  { config: "a /* b", code: "a /* b" },
  { config: "a /*/ b", code: "a /*/ b" },
  { config: "/**/a", code: "a" },
])("'$config' is the code '$code'", ({ config, code }) => {
  expect(codeOf(config)).toBe(code);
});

// With expressions that try each way to split a text, any of these takes minutes.
describe("a configuration that is made to be slow", () => {
  test.each([
    "spa:{",
    " /*",
    " //",
    "output:",
    'output:"',
    "vite build ",
    "preset:'a-",
    "/",
    "outDir:'",
    "input ",
    "adapter({",
    "buildDirectory:",
  ])("of '%s' again and again, tells nothing", (piece) => {
    const texts = Object.fromEntries(
      ["vite", "astro", "svelte", "react-router", ..."abcdef"].map((name) => [
        `${name}.config.ts`,
        piece.repeat((1024 * 1024) / piece.length),
      ]),
    );
    for (const name of ["@tanstack/react-start", "next", "vite", "astro", "@sveltejs/kit", "@react-router/dev"]) {
      const more = ["@astrojs/node", "@sveltejs/adapter-node", "@react-router/serve"];
      const json = { scripts: { build: piece.repeat(1024 * 1024) }, ...using(name, ...more) };
      const project = readProject(factsOf({ "package.json": json, ...texts, "next.config.js": piece }));
      expect(project.framework?.packages).toContain(name);
      expect(siteBuild({ command: "", output: null }, project)).toMatchObject({ command: "npm run build" });
      expect(serverStart({ build: "", start: "" }, project)).not.toMatchObject({ standalone: true });
    }
  });

  test("of a path, names that path", () => {
    const json = { scripts: { build: "vite build" }, ...using("vite") };
    const config = `export default { build: { outDir: "${"/".repeat(60_000)}www${"/".repeat(1000)}" } }`;
    const project = readProject(factsOf({ "package.json": json, "vite.config.ts": config }));
    expect(siteBuild({ command: "", output: null }, project)).toMatchObject({ outputs: ["www", "dist"] });
  });
});
