import { Readable } from "node:stream";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { type DetectedApp, detect } from "@svc/proto/frameworks";
import { BuildSpecSchema } from "@svc/proto/node";
import { expect, test } from "vitest";
import { fixture, fixtureNames } from "../../../proto/src/frameworks/testing/facts.ts";
import type { Archive } from "./archive.ts";
import { prepareRecipe } from "./recipe.ts";

/** The archive of a template; what its files say matters only where a fixture has it. */
function archiveOf(name: string): Archive {
  const { files, texts } = fixture(name);
  const text = (path: string): string => texts.get(path) ?? "";
  const entry = (path: string, offset: number) => ({ path, executable: false, offset, sizeBytes: text(path).length });
  return {
    files: new Map([...files].map((path, index) => [path, entry(path, index)])),
    symlinks: new Map(),
    directories: new Set(),
    read: async ({ path }) => Buffer.from(text(path)),
    stream: ({ path }) => Readable.from([Buffer.from(text(path))]),
    [Symbol.asyncDispose]: async () => {},
  };
}

const builder = {
  dockerfileProblem: null,
  hasDocuments: true,
  leavesStubs: false,
  platform: "linux/amd64",
  envKey: Buffer.alloc(32),
  provideBaseImage: async (reference: string) => reference,
};

async function dockerfileOf(
  name: string,
  rootDirectory: string,
  recipe: MessageInitShape<typeof BuildSpecSchema>["recipe"],
) {
  const spec = { baseImage: "node:24-slim", cacheNamespace: "p1", rootDirectory, ...(recipe && { recipe }) };
  const prepared = await prepareRecipe(archiveOf(name), create(BuildSpecSchema, spec), builder);
  if (prepared.kind === "files") throw new Error(`${name} is served as it is`);
  return prepared.extra.get(prepared.dockerfile) ?? "";
}

/** What a manifest says of an app: everything that was found, or nothing but its type. */
const recipeOf = ({ type, build, output, start }: DetectedApp, says: "all" | "type") => {
  const said = (text: string | null): string => (says === "all" ? (text ?? "") : "");
  if (type === "static")
    return { case: "static" as const, value: { command: said(build), output: said(output) || "." } };
  return { case: "image" as const, value: { port: 3000, buildCommand: said(build), startCommand: said(start) } };
};

const found = fixtureNames.map((name) => ({ name, detection: detect(fixture(name)) }));
const apps = found.flatMap(({ name, detection }) => (detection.is === "app" ? [{ name, app: detection.app }] : []));

test.each(apps)(
  "the template $name is built as the command line says, whether the manifest names it or not",
  async ({ name, app }) => {
    const named = await dockerfileOf(name, app.rootDirectory, recipeOf(app, "all"));
    if (app.build !== null) expect(named).toContain(JSON.stringify(["/bin/sh", "-c", app.build]));
    expect(named).toContain(app.start === null ? `/${app.output}/` : `CMD ["/bin/sh","-c","exec ${app.start}"]`);
    const bare = await dockerfileOf(name, app.rootDirectory, recipeOf(app, "type"));
    if (app.type === "ssr") expect(bare).toBe(named);
    else for (const word of [app.build ?? "", app.output ?? ""]) expect(bare).toContain(word);
  },
);

const refusals = found.flatMap(({ name, detection }) => (detection.is === "refused" ? [{ name, ...detection }] : []));

test.each(refusals)("the template $name is refused as a server, with the same cure", async ({ name, cure }) => {
  const recipe = { case: "image" as const, value: { port: 3000 } };
  await expect(dockerfileOf(name, ".", recipe)).rejects.toMatchObject({
    code: "BUILD_FAILED",
    message: expect.stringContaining(cure),
  });
});
