import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { buildsItself } from "@svc/proto/frameworks";
import { BuildSpecSchema } from "@svc/proto/node";
import { expect, test } from "vitest";
import type { Archive } from "./archive.ts";
import * as recipes from "./recipe.ts";
import { anArchive } from "./testing/archive.ts";

const aSpec = (changes: MessageInitShape<typeof BuildSpecSchema>) =>
  create(BuildSpecSchema, { baseImage: "node:24-slim", cacheNamespace: "p1", rootDirectory: ".", ...changes });
const image = (value: { dockerfile?: string; buildCommand?: string; startCommand?: string } = {}) => ({
  recipe: { case: "image" as const, value: { port: 3000, ...value } },
});
const site = (command: string, output: string) => ({ recipe: { case: "static" as const, value: { command, output } } });
const facts = {
  dockerfileProblem: null,
  hasDocuments: true,
  leavesStubs: false,
  platform: "linux/amd64",
  envKey: Buffer.alloc(32),
  provideBaseImage: async (reference: string) => `copy/of/${reference}`,
};
const prepareRecipe = (archive: Archive, spec: ReturnType<typeof aSpec>) => recipes.prepareRecipe(archive, spec, facts);
const dockerfileOf = (recipe: Awaited<ReturnType<typeof prepareRecipe>>): string =>
  recipe.kind === "files" ? "" : (recipe.extra.get(recipe.dockerfile) ?? "");

test.each([
  { rootDirectory: ".", output: ".", directory: "" },
  { rootDirectory: "apps/web/", output: "./public", directory: "apps/web/public" },
])("files in $output of $rootDirectory are served from '$directory'", async ({ rootDirectory, output, directory }) => {
  const archive = anArchive({ "apps/web/public/index.html": "x" });
  expect(await prepareRecipe(archive, aSpec({ rootDirectory, ...site("", output) }))).toEqual({
    kind: "files",
    directory,
  });
});

test("a project of its own is the whole context", async () => {
  const archive = anArchive({
    "apps/web/package.json": "{}",
    "apps/web/package-lock.json": "{}",
    "package-lock.json": "{}",
    "package.json": "{}",
  });
  const recipe = await prepareRecipe(archive, aSpec({ rootDirectory: "apps/web", ...site("npm run build", "dist") }));
  expect(recipe).toMatchObject({ kind: "site", root: "apps/web", output: "dist" });
  expect(dockerfileOf(recipe)).toContain('COPY --from=build ["/app/dist/","/site/"]');
});

test.each([
  { who: "somebody", value: { output: "dist", outputSaid: true }, looks: '"/app/dist/","/site/"' },
  { who: "nobody", value: { output: "dist" }, looks: "for each in build dist;" },
  { who: "somebody, of a control that does not tell who,", value: { output: "www" }, looks: '"/app/www/","/site/"' },
  { who: "somebody", value: { output: ".", outputSaid: true }, looks: '"/app/","/site/"' },
])(
  "where $who said $value.output the site is taken from there, or where the framework leaves it",
  async (situation) => {
    const archive = anArchive({ "package.json": '{"dependencies":{"@sveltejs/kit":"2"}}' });
    const spec = aSpec({ recipe: { case: "static", value: { command: "make", ...situation.value } } });
    expect(dockerfileOf(await prepareRecipe(archive, spec))).toContain(situation.looks);
  },
);

test("a control that does not tell who said it, and sends a directory alone, has it from somebody", async () => {
  const archive = anArchive({ "package.json": '{"scripts":{"build":"make"}}', "dist/index.html": "" });
  expect(await prepareRecipe(archive, aSpec(site("", "dist")))).toEqual({ kind: "files", directory: "dist" });
});

test("a project in a workspace is built with the whole workspace", async () => {
  const archive = anArchive({
    "apps/web/package.json": "{}",
    "package-lock.json": "{}",
    "package.json": '{"workspaces":["apps/*"]}',
  });
  const recipe = await prepareRecipe(
    archive,
    aSpec({ rootDirectory: "apps/web", ...image({ startCommand: "node x.js" }) }),
  );
  expect(recipe).toMatchObject({ kind: "image", root: "" });
  expect(dockerfileOf(recipe)).toContain('WORKDIR "/app/apps/web"');
  expect(dockerfileOf(recipe)).toContain("npm ci");
});

test.each([
  {
    when: "another project's lock file lies around it",
    files: { "package.json": "{}", "package-lock.json": "{}" },
    root: "apps/web",
  },
  {
    when: "it belongs to a workspace that is not at the top",
    files: { "group/pnpm-workspace.yaml": "packages: [apps/*]", "group/package.json": "{}", "pnpm-lock.yaml": "" },
    rootDirectory: "group/apps/web",
    root: "group",
  },
])("a project's packages are installed in $root when $when", async ({ files, rootDirectory = "apps/web", root }) => {
  const archive = anArchive({ ...files, [`${rootDirectory}/package.json`]: '{"main":"x.js"}' });
  expect(await prepareRecipe(archive, aSpec({ rootDirectory, ...image() }))).toMatchObject({ kind: "image", root });
});

test("installing gets the manifests of the whole workspace without their scripts", async () => {
  const archive = anArchive({
    "package.json": '{"workspaces":["apps/*"],"scripts":{"prepare":"x"}}',
    "package-lock.json": "{}",
    "apps/web/package.json": '{"name":"web","scripts":{"start":"node x.js"}}',
    "apps/web/test/package.json": "{broken",
    "apps/web/node_modules/a/package.json": "{}",
  });
  const recipe = await prepareRecipe(archive, aSpec({ rootDirectory: "apps/web", ...image() }));
  const extra = recipe.kind === "files" ? [] : [...recipe.extra].filter(([path]) => path.startsWith("manifests/"));
  expect(Object.fromEntries(extra.map(([path, text]) => [path, JSON.parse(text)]))).toEqual({
    "manifests/package.json": { workspaces: ["apps/*"] },
    "manifests/apps/web/package.json": { name: "web" },
  });
  expect(dockerfileOf(recipe)).toContain('CMD ["/bin/sh","-c","exec node x.js"]');
});

test("a site of a known framework needs no word about its build", async () => {
  const archive = anArchive({
    "package.json": '{"scripts":{"build":"next build"},"dependencies":{"next":"1"}}',
    "pnpm-lock.yaml": "lockfileVersion: '9.0'",
  });
  const recipe = await prepareRecipe(archive, aSpec(site("", ".")));
  expect(recipe).toMatchObject({ kind: "site", output: "out" });
  expect(dockerfileOf(recipe)).toContain('["/bin/sh","-c","pnpm run build"]');
});

test("a server for development is not started, and the log says what is", async () => {
  const archive = anArchive({
    "package.json": '{"scripts":{"build":"nest build","start":"nest start"},"dependencies":{"@nestjs/core":"1"}}',
  });
  for (const startCommand of ["", "npm start"]) {
    const recipe = await prepareRecipe(archive, aSpec(image({ startCommand })));
    expect(dockerfileOf(recipe)).toContain('CMD ["/bin/sh","-c","exec node dist/main.js"]');
    expect(recipe).toMatchObject({ notes: [expect.stringMatching(/"nest start", which is for development/)] });
  }
});

test("a project that is nothing but a Dockerfile is built from it", async () => {
  const archive = anArchive({ Dockerfile: "FROM scratch\n", "main.go": "package main" });
  expect(await prepareRecipe(archive, aSpec(image()))).toMatchObject({
    kind: "image",
    dockerfile: "Dockerfile",
    into: "",
  });
});

test.each([
  { when: "there is one", changes: { builderImage: "node:24" }, builder: "node:24" },
  { when: "control knows of none", changes: {}, builder: "node:24-slim" },
])("packages are installed in the builder image when $when", async ({ changes, builder }) => {
  const archive = anArchive({ "package.json": '{"main":"x.js","scripts":{"build":"x"}}' });
  const server = dockerfileOf(await prepareRecipe(archive, aSpec({ ...changes, ...image() })));
  expect(server.match(/^FROM .*/gm)).toEqual([`FROM copy/of/${builder} AS build`, "FROM copy/of/node:24-slim"]);
  const page = dockerfileOf(await prepareRecipe(archive, aSpec({ ...changes, ...site("x", "dist") })));
  expect(page.match(/^FROM .*/gm)).toEqual([`FROM copy/of/${builder} AS build`, "FROM scratch"]);
});

test("where nothing is built no builder image is asked for", async () => {
  const asked: string[] = [];
  const provideBaseImage = async (reference: string) => {
    asked.push(reference);
    return reference;
  };
  const spec = aSpec({ builderImage: "node:24", ...image({ startCommand: "node server.js" }) });
  await recipes.prepareRecipe(anArchive({ "server.js": "" }), spec, { ...facts, provideBaseImage });
  expect(asked).toEqual(["node:24-slim"]);
});

test("the CA bundle travels as a file of the platform", async () => {
  const recipe = await prepareRecipe(anArchive({ "server.js": "" }), aSpec({ caBundle: "PEM", ...image() }));
  expect(recipe.kind !== "files" && recipe.extra.get("ca.pem")).toBe("PEM");
});

test("a Dockerfile of the project is used, rewritten", async () => {
  const archive = anArchive({ "api/deploy/Dockerfile": "FROM scratch\n" });
  const recipe = await prepareRecipe(
    archive,
    aSpec({ rootDirectory: "api", ...image({ dockerfile: "./deploy/Dockerfile" }) }),
  );
  expect(recipe).toMatchObject({ root: "api", dockerfile: "deploy/Dockerfile" });
  expect(dockerfileOf(recipe)).toBe("# escape=\\\n\nFROM scratch\n");
});

test.each([
  { path: "node_modules/a/index.js", kept: false },
  { path: "packages/a/node_modules/b.js", kept: false },
  { path: ".git/config", kept: false },
  { path: "packages/a/.git/HEAD", kept: false },
  { path: "src/index.js", kept: true },
  { path: ".env.production", kept: true },
])("$path is part of a generated build: $kept", async ({ path, kept }) => {
  const recipe = await prepareRecipe(anArchive({ "server.js": "" }), aSpec(image()));
  expect(recipe.kind !== "files" && recipe.keep(path)).toBe(kept);
});

test.each([
  {
    when: "the directory is missing",
    files: { a: "" },
    spec: { rootDirectory: "web", ...image() },
    code: "SOURCE_INVALID",
    says: '"web"',
  },
  {
    when: "the Dockerfile is missing",
    files: { a: "" },
    spec: image({ dockerfile: "Dockerfile" }),
    code: "BUILD_FAILED",
    says: '"Dockerfile"',
  },
  {
    when: "package.json is broken",
    files: { "package.json": "{" },
    spec: image(),
    code: "BUILD_FAILED",
    says: "not valid JSON",
  },
  {
    when: "nothing says how to start",
    files: { "a.txt": "" },
    spec: image(),
    code: "BUILD_FAILED",
    says: "start.command",
  },
  {
    when: "only a server for development is there to start",
    files: { "package.json": '{"scripts":{"start":"nodemon x.js"}}' },
    spec: image({ startCommand: "npm start" }),
    code: "BUILD_FAILED",
    says: '"nodemon x.js"',
  },
  {
    when: "the start script runs itself",
    files: { "package.json": '{"scripts":{"build":"tsc","start":"npm run build && npm start"}}' },
    spec: image(),
    code: "BUILD_FAILED",
    says: '"start" of package.json runs itself',
  },
  {
    when: "the project is not Node's",
    files: { "requirements.txt": "", "app.py": "" },
    spec: image(),
    code: "BUILD_FAILED",
    says: "Python",
  },
])("when $when the person is told", async ({ files, spec, code, says }) => {
  const failure = await prepareRecipe(anArchive(files as Record<string, string>), aSpec(spec)).catch(
    (cause: unknown) => cause,
  );
  expect(failure).toMatchObject({ code });
  expect(String(failure)).toContain(says);
});

test("on an engine that must not, a project's own Dockerfile is not built, and one that is generated is", async () => {
  const archive = anArchive({ Dockerfile: "FROM scratch\n", "package.json": "{}" });
  const prepare = (dockerfile: string) =>
    recipes.prepareRecipe(archive, aSpec(image({ dockerfile, startCommand: "node x.js" })), {
      ...facts,
      dockerfileProblem: "Docker 20.10.24 is old",
    });
  await expect(prepare("Dockerfile")).rejects.toMatchObject({
    code: "BUILD_FAILED",
    message: expect.stringMatching(/no Dockerfiles .*operator.*Docker 20\.10\.24 is old/),
  });
  expect(await prepare("")).toMatchObject({ kind: "image" });
});

const nx = { "nx.json": "{}", "package.json": '{"workspaces":["apps/*"],"devDependencies":{"nx":"20","vite":"6"}}' };
const member = { "apps/web/package.json": '{"name":"web"}', "apps/web/vite.config.ts": "export default {}" };

test.each<{ what: string; texts: Record<string, string>; root?: string; builds: boolean }>([
  { what: "a page", texts: { "index.html": "" }, builds: false },
  { what: "a page with tools", texts: { "index.html": "", "package.json": '{"scripts":{"test":"x"}}' }, builds: false },
  { what: "a build script", texts: { "package.json": '{"scripts":{"build":"make"}}' }, builds: true },
  { what: "a framework", texts: { "package.json": '{"devDependencies":{"vite":"6"}}' }, builds: true },
  { what: "a member of Nx", texts: { ...nx, ...member, "package-lock.json": "{}" }, root: "apps/web", builds: true },
  {
    what: "a member with a lock file of its own",
    texts: { ...nx, ...member, "apps/web/package-lock.json": "{}" },
    root: "apps/web",
    builds: false,
  },
  { what: "a framework elsewhere", texts: { ...nx, "docs/index.html": "" }, root: "docs", builds: false },
])("whether $what builds itself is known before the build", async ({ texts, root = ".", builds }) => {
  const recipe = await prepareRecipe(anArchive(texts), aSpec({ rootDirectory: root, ...site("", ".") }));
  expect(recipe.kind).toBe(builds ? "site" : "files");
  const tree = { files: new Set(Object.keys(texts)), texts: new Map(Object.entries(texts)) };
  expect(buildsItself(tree, root)).toBe(builds);
});
