import { parseManifest } from "@svc/proto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { type DirectoryFacts, imageManifest, plainManifest } from "./init.ts";

const bare: DirectoryFacts = { name: "shop", package: null, hasDockerfile: false };
const node = { name: "@ada/shop", scripts: ["build", "start"], dependencies: [] };

/** The manifest that a text is, or the test fails with what is wrong. */
function read(text: string) {
  const parsed = parseManifest(text);
  if ("problems" in parsed) throw new Error(JSON.stringify(parsed.problems));
  return parsed.manifest;
}

test.each([
  {
    when: "there is nothing",
    facts: bare,
    manifest: { app: { name: "shop", type: "static" }, build: { output: "." } },
  },
  {
    when: "a package has a start script",
    facts: { ...bare, package: node },
    manifest: {
      app: { type: "ssr", port: 3000 },
      build: { command: "npm run build" },
      start: { command: "npm start" },
    },
  },
  {
    when: "a package only builds",
    facts: { ...bare, package: { ...node, scripts: ["build"] } },
    manifest: { app: { type: "static" }, build: { command: "npm run build", output: "dist" } },
  },
  {
    when: "a package has a server in it",
    facts: { ...bare, package: { ...node, scripts: [], dependencies: ["fastify"] } },
    manifest: { app: { type: "ssr" } },
  },
  {
    when: "there is a Dockerfile",
    facts: { ...bare, hasDockerfile: true, package: node },
    manifest: { app: { type: "ssr" }, build: { dockerfile: "Dockerfile" } },
  },
])("when $when, the manifest fits", ({ facts, manifest }) => {
  expect(read(plainManifest(facts, undefined).text)).toMatchObject(manifest);
});

test("the image template is a manifest", () => {
  expect(read(imageManifest(bare, undefined).text)).toMatchObject({ type: "ociimage", name: "shop", port: 80 });
});

test("whatever the directory and package are called, the manifest is valid", () => {
  fc.assert(
    fc.property(
      fc.string({ unit: "grapheme" }),
      fc.string({ unit: "binary" }),
      fc.boolean(),
      (directory, name, image) => {
        const facts = { ...bare, name: directory, package: { ...node, name } };
        const made = (image ? imageManifest : plainManifest)(facts, undefined);
        const manifest = read(made.text);
        expect("app" in manifest ? manifest.app.name : manifest.name).toBe(made.app);
      },
    ),
  );
});

test("a name that a person asked for is kept as it is, whatever YAML makes of its characters", () => {
  for (const name of ["yes", "1.0", "a: b", "#x", "- x", '"q"', "it's", "{}", "Größe 5"])
    expect(read(plainManifest(bare, name).text)).toMatchObject({ app: { name } });
});
