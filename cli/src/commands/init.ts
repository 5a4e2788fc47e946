import { readdir } from "node:fs/promises";
import { basename, join } from "node:path";
import { parseManifest } from "@svc/proto";
import { z } from "zod";
import { command, flag } from "../command.ts";
import { CliError } from "../errors.ts";
import { createFile, isFileError, readTextFile, replaceFile } from "../files.ts";
import { type DirectoryFacts, imageManifest, plainManifest } from "../init.ts";
import { parseJson } from "../json.ts";

const packageSchema = z.looseObject({
  name: z.string().nullish(),
  scripts: z.record(z.string(), z.unknown()).nullish(),
  dependencies: z.record(z.string(), z.unknown()).nullish(),
});
const packageBytesMax = 4 * 1024 * 1024;

export const init = command({
  name: "init",
  summary: "Write a first manifest for this directory",
  details: "Reads package.json and Dockerfile to guess what the app needs. Only the manifest is written.",
  flags: {
    name: flag.text("--name <name>", "Name of the app; default: that of the package or the directory"),
    force: flag.toggle("--force", "Replace a manifest that exists"),
    template: flag.choice("--template <name>", "Start from a template instead", ["ociimage"]),
  },
  examples: ["svc init", "svc init --name Shop", "svc init --template ociimage"],
  async run(context, { name, force, template }) {
    const place = await context.manifestPlace();
    const facts = await readFacts(place.directory);
    const { text, app } = template === "ociimage" ? imageManifest(facts, name) : plainManifest(facts, name);
    const parsed = parseManifest(text, { path: place.path });
    // Only what the person typed can be wrong with it.
    if ("problems" in parsed)
      throw new CliError("CLI_INVALID_USAGE", `--name: ${parsed.problems.map(({ message }) => message).join("; ")}`, {
        hint: "Give another one: `svc init --name Shop`",
      });
    await writeManifest(place.file, text, force);
    if (template === undefined) return { manifest: place.path, app };
    return { manifest: place.path, app, template, hint: `Set image.reference in ${place.path}, then run svc deploy` };
  },
  render: (payload, { paint }) =>
    [
      `${paint("green", "✓")} Wrote ${payload.manifest} for ${payload.app}`,
      `  Next: ${"hint" in payload ? payload.hint : "look it over, then run svc deploy"}`,
    ].join("\n"),
});

async function readFacts(directory: string): Promise<DirectoryFacts> {
  const names = await readdir(directory).catch((thrown: unknown) => {
    if (!isFileError(thrown, "ENOENT", "ENOTDIR")) throw thrown;
    throw new CliError("CLI_INVALID_USAGE", `There is no directory ${directory}`, {
      hint: "Make the directory first, or name another place with --manifest <path>",
    });
  });
  const text = await readTextFile(join(directory, "package.json"), packageBytesMax);
  const parsed = text === null ? null : packageSchema.safeParse(parseJson(text));
  return {
    name: basename(directory),
    package:
      parsed?.success === true
        ? {
            name: parsed.data.name ?? null,
            scripts: Object.keys(parsed.data.scripts ?? {}),
            dependencies: Object.keys(parsed.data.dependencies ?? {}),
          }
        : null,
    hasDockerfile: names.includes("Dockerfile"),
  };
}

async function writeManifest(file: string, text: string, force: boolean): Promise<void> {
  if (force) return replaceFile(file, text, { mode: 0o644, refusal: "CLI_INVALID_USAGE" });
  try {
    await createFile(file, text, 0o644);
  } catch (thrown) {
    if (!isFileError(thrown, "EEXIST")) throw thrown;
    throw new CliError("MANIFEST_INVALID", `${file} exists already`, { hint: "Replace it with `svc init --force`" });
  }
}
