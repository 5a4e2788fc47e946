import { Readable } from "node:stream";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { BuildSpecSchema } from "@svc/proto/node";
import { expect, test } from "vitest";
import type { Archive } from "./archive.ts";
import { prepareRecipe } from "./recipe.ts";

/** The content of an archive in memory. */
function anArchive(texts: Record<string, string>): Archive {
  const files = new Map(
    Object.entries(texts).map(([path, text], offset) => [
      path,
      { path, executable: false, offset, sizeBytes: text.length },
    ]),
  );
  return {
    files,
    symlinks: new Map(),
    directories: new Set(),
    read: async ({ path }) => Buffer.from(texts[path] ?? ""),
    stream: ({ path }) => Readable.from([Buffer.from(texts[path] ?? "")]),
    [Symbol.asyncDispose]: async () => {},
  };
}

const aSpec = (changes: MessageInitShape<typeof BuildSpecSchema>) =>
  create(BuildSpecSchema, { baseImage: "node:24-slim", cacheNamespace: "p1", rootDirectory: ".", ...changes });
const image = (value: { dockerfile?: string; buildCommand?: string; startCommand?: string } = {}) => ({
  recipe: { case: "image" as const, value: { port: 3000, ...value } },
});
const site = (command: string, output: string) => ({ recipe: { case: "static" as const, value: { command, output } } });
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
  expect(dockerfileOf(recipe)).toBe("FROM scratch\nARG SVC_CACHE_NAMESPACE\n");
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
])("when $when the person is told", async ({ files, spec, code, says }) => {
  const failure = await prepareRecipe(anArchive(files as Record<string, string>), aSpec(spec)).catch(
    (cause: unknown) => cause,
  );
  expect(failure).toMatchObject({ code });
  expect(String(failure)).toContain(says);
});
