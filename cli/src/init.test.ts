import { parseManifest } from "@svc/proto";
import { type DetectedApp, detect, type Facts } from "@svc/proto/frameworks";
import { packedSite } from "@svc/proto/packed-site";
import fc from "fast-check";
import { expect, test } from "vitest";
import { factsOf, fixture, fixtureNames, using } from "../../proto/src/frameworks/testing/facts.ts";
import { imageManifest, plainManifest } from "./init.ts";

const names = { package: null, directory: "shop" };

/** The app that is found in a directory, or the test fails with what is said instead. */
function appIn(facts: Facts): DetectedApp {
  const detection = detect(facts);
  if (detection.is !== "app") throw new Error(JSON.stringify(detection));
  return detection.app;
}

/** The manifest that a text is, or the test fails with what is wrong. */
function read(text: string) {
  const parsed = parseManifest(text);
  if ("problems" in parsed) throw new Error(JSON.stringify(parsed.problems));
  return parsed.manifest;
}

const page = appIn(factsOf({ "index.html": "" }));

test.each([
  { when: "there are files only", app: page, manifest: { app: { type: "static" }, build: { output: "." } } },
  {
    when: "a site is built",
    app: appIn(fixture("angular")),
    manifest: {
      app: { type: "static", spa: true },
      build: { command: "npm run build", output: "dist/angular/browser" },
    },
  },
  {
    when: "a server is built",
    app: appIn(fixture("nest")),
    manifest: {
      app: { type: "ssr", port: 3000 },
      build: { command: "npm run build" },
      start: { command: "node dist/main" },
    },
  },
  {
    when: "there is a Dockerfile",
    app: appIn(factsOf({ Dockerfile: "FROM x\nEXPOSE 8080" })),
    manifest: { app: { type: "ssr", port: 8080 }, build: { dockerfile: "Dockerfile" } },
  },
  {
    when: "the app is one of several packages",
    app: appIn(fixture("nx")),
    manifest: { source: { rootDirectory: "apps/web" }, build: { command: "vite build", output: "dist" } },
  },
])("when $when, the manifest fits", ({ app, manifest }) => {
  expect(read(plainManifest(app, names, undefined).text)).toMatchObject({ app: { name: "shop" }, ...manifest });
});

test("a server that is a traced copy is not named, so that no more than the copy is kept", () => {
  const app = { ...appIn(fixture("next")), standalone: true };
  expect(read(plainManifest(app, names, undefined).text)).toMatchObject({ start: {} });
});

const apps = fixtureNames.map((name) => detect(fixture(name))).flatMap((each) => (each.is === "app" ? [each.app] : []));

test.each(apps)("the manifest of $framework in $build says the same as what was found", (app) => {
  const manifest = read(plainManifest(app, names, undefined).text);
  expect(manifest).toMatchObject({
    app: { type: app.type },
    source: { rootDirectory: app.rootDirectory },
    build: app.build === null ? {} : { command: app.build },
    start: app.start === null ? {} : { command: app.start },
  });
  if (app.output !== null) expect(manifest).toMatchObject({ build: { output: app.output } });
});

test("the image template is a manifest", () => {
  expect(read(imageManifest(names, undefined).text)).toMatchObject({ type: "ociimage", name: "shop", port: 80 });
});

test("whatever the directory and package are called, the manifest is valid", { timeout: 120_000 }, () => {
  fc.assert(
    fc.property(
      fc.string({ unit: "grapheme" }),
      fc.string({ unit: "binary" }),
      fc.boolean(),
      (directory, name, image) => {
        const odd = { directory, package: name };
        const made = image ? imageManifest(odd, undefined) : plainManifest(page, odd, undefined);
        const manifest = read(made.text);
        expect("app" in manifest ? manifest.app.name : manifest.name).toBe(made.app);
      },
    ),
  );
});

test("a name that a person asked for is kept as it is, whatever YAML makes of its characters", () => {
  for (const name of ["yes", "1.0", "a: b", "#x", "- x", '"q"', "it's", "{}", "Größe 5"])
    expect(read(plainManifest(page, names, name).text)).toMatchObject({ app: { name } });
});

const prettier = { devDependencies: { prettier: "3.0.0" } };

/** Of these directories `svc init` makes a static site. */
const directories: [what: string, facts: Facts][] = [
  ["a page", factsOf({ "index.html": "" })],
  ["a page in public", factsOf({}, ["public/index.html"])],
  ["a page in public and packages", factsOf({ "package.json": prettier }, ["public/index.html"])],
  [
    "a page and packages for its author",
    factsOf({ "index.html": "", "package.json": prettier }, ["package-lock.json"]),
  ],
  [
    "a page and a server for its author",
    factsOf({ "index.html": "", "package.json": { scripts: { start: "live-server" }, ...using("live-server") } }),
  ],
  ["a page and a Makefile", factsOf({ "index.html": "" }, ["Makefile"])],
  ["a page and settings of an editor", factsOf({ "index.html": "" }, ["tsconfig.json", "app.js"])],
  ["a page and requirements", factsOf({ "index.html": "" }, ["requirements.txt"])],
  ["a page and a build", factsOf({ "package.json": { scripts: { build: "node make.js" } } }, ["src/index.html"])],
  ...fixtureNames
    .map((name): [string, Facts] => [`the template ${name}`, fixture(name)])
    .filter(([, facts]) => typeOf(facts) === "static"),
];

function typeOf(facts: Facts): string | null {
  const detection = detect(facts);
  return detection.is === "app" ? detection.app.type : null;
}

test.each(directories)("what is written for %s is not doubted when it is deployed", (_, facts) => {
  const manifest = read(plainManifest(appIn(facts), names, undefined).text);
  if (!("build" in manifest)) throw new Error("it is an image");
  expect(manifest.app.type).toBe("static");
  expect(packedSite(manifest, facts)?.doubts ?? []).toEqual([]);
});
