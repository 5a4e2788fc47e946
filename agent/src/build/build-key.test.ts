import { create } from "@bufbuild/protobuf";
import { BuildSpecSchema } from "@svc/proto/node";
import { expect, test } from "vitest";
import { buildKey, type KeyParts } from "./build-key.ts";
import { prepareRecipe } from "./recipe.ts";
import { anArchive } from "./testing/archive.ts";

const someParts = ({ secretId = "svc-env-1", text = "RUN make" } = {}): KeyParts => ({
  spec: { sourceDigest: "sha256:a", rootDirectory: ".", caBundle: "", envDigest: "e", maxImageMb: 100 },
  recipe: {
    ...{ kind: "image", root: "", into: "source", dockerfile: "Dockerfile", keep: () => true, isOurs: () => false },
    extra: new Map([["Dockerfile", `FROM node\nRUN --mount=type=secret,id=${secretId} ${text}\n`]]),
    secrets: new Map([[secretId, Buffer.from("A=1")]]),
  },
  baseImages: new Map([["node", "sha256:base"]]),
  platform: { os: "linux", architecture: "amd64" },
});
const usual = someParts();
const key = buildKey(usual);

test("the same build has the same key, whatever a node calls its secrets", () => {
  expect(key).toMatch(/^[0-9a-f]{64}$/);
  expect(buildKey(someParts({ secretId: "svc-env-2" }))).toBe(key);
});

test.each<{ what: string; parts: KeyParts }>([
  { what: "the source", parts: { ...usual, spec: { ...usual.spec, sourceDigest: "sha256:b" } } },
  { what: "the directory", parts: { ...usual, spec: { ...usual.spec, rootDirectory: "apps/web" } } },
  { what: "a variable", parts: { ...usual, spec: { ...usual.spec, envDigest: "f" } } },
  { what: "what it may come to", parts: { ...usual, spec: { ...usual.spec, maxImageMb: 50 } } },
  { what: "an authority", parts: { ...usual, spec: { ...usual.spec, caBundle: "PEM" } } },
  { what: "a step", parts: someParts({ text: "RUN make all" }) },
  { what: "the context", parts: { ...usual, recipe: { ...usual.recipe, root: "apps" } } },
  { what: "a base image", parts: { ...usual, baseImages: new Map([["node", "sha256:newer"]]) } },
  { what: "the processor", parts: { ...usual, platform: { os: "linux", architecture: "arm64" } } },
])("$what decides what is built", ({ parts }) => {
  expect(buildKey(parts)).not.toBe(key);
});

test("what is not known completely has no key", () => {
  expect(buildKey({ ...usual, spec: { ...usual.spec, envDigest: "" } })).toBe("");
  expect(buildKey({ ...usual, baseImages: new Map([["node", ""]]) })).toBe("");
});

/** The key of a build of the Dockerfile at `path` among these files, as a node comes to it. */
async function keyOf(texts: Record<string, string>, path: string): Promise<string> {
  const spec = create(BuildSpecSchema, {
    ...{ sourceDigest: "sha256:a", rootDirectory: ".", cacheNamespace: "p1", envDigest: "e" },
    recipe: { case: "image", value: { dockerfile: path, port: 3000 } },
  });
  const recipe = await prepareRecipe(anArchive(texts), spec, {
    ...{ dockerfileProblem: null, hasDocuments: true, leavesStubs: false, platform: "linux/amd64" },
    ...{ envKey: Buffer.alloc(32), provideBaseImage: async (reference: string) => reference },
  });
  if (recipe.kind === "files") throw new Error("the situation has no build");
  return buildKey({ ...usual, spec, recipe });
}

const dockerfile = 'FROM node\nCOPY . /app\nCMD ["node", "/app/main.js"]\n';

test.each<{ what: string; one: Record<string, string>; other?: Record<string, string>; path?: string }>([
  { what: "which of two equal Dockerfiles it is", one: { "a.Dockerfile": dockerfile, "b.Dockerfile": dockerfile } },
  {
    what: "the list of ignored files that belongs to the Dockerfile",
    one: {
      ...{ "a.Dockerfile": dockerfile, "b.Dockerfile": dockerfile },
      ...{ "a.Dockerfile.dockerignore": "worker", "b.Dockerfile.dockerignore": "web" },
    },
  },
  {
    what: "a line of .dockerignore",
    one: { "a.Dockerfile": dockerfile, ".dockerignore": "web" },
    other: { "a.Dockerfile": dockerfile, ".dockerignore": "worker" },
    path: "a.Dockerfile",
  },
  {
    what: "whose list of ignored files it is",
    one: { "a.Dockerfile": dockerfile, ".dockerignore": "web" },
    other: { "a.Dockerfile": dockerfile, "a.Dockerfile.dockerignore": "web" },
    path: "a.Dockerfile",
  },
])("$what decides what a Dockerfile builds", async ({ one, other = one, path = "b.Dockerfile" }) => {
  expect(await keyOf(one, "a.Dockerfile")).not.toBe(await keyOf(other, path));
  expect(await keyOf(one, "a.Dockerfile")).toBe(await keyOf(one, "a.Dockerfile"));
});
