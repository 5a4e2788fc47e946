import { lstat, mkdir, readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { createDurably, isFileError, writeDurably } from "@svc/runtime/durable-file";
import { CliError } from "../errors.ts";
import { templateManifest } from "../init.ts";
import { templateFiles } from "./files.ts";
import type { TemplateWithFiles } from "./names.ts";

/** Where a template has its own manifest. */
const manifestPath = "svc.yml";
const namedMax = 5;

interface Prepared {
  /** Of the manifest. */
  text: string;
  app: string;
  /** Paths of the other files, all of them. */
  files: string[];
  /** Writes those; safe to repeat. */
  writeFiles(): Promise<void>;
}

/**
 * Looks whether a template fits into a directory: nothing of it may be there otherwise than the template has it, unless `force` replaces
 * it. Throws CLI_INVALID_USAGE. Nothing is written yet.
 */
export async function prepareTemplate(
  directory: string,
  template: TemplateWithFiles,
  { name, force }: { name: string | undefined; force: boolean },
): Promise<Prepared> {
  const texts = new Map(await templateFiles(template));
  const manifest = templateManifest(texts.get(manifestPath) ?? "", name);
  texts.delete(manifestPath);
  const inTheWay: string[] = [];
  const missing: [path: string, text: string][] = [];
  for (const [path, text] of texts) {
    await requireRealDirectories(directory, path);
    const there = await stateOf(join(directory, path), text);
    if (there === "other") inTheWay.push(path);
    if (there !== "same") missing.push([path, text]);
  }
  if (inTheWay.length > 0 && !force) throw existAlready(template, inTheWay);
  return {
    ...manifest,
    files: [...texts.keys()],
    async writeFiles() {
      for (const [path, text] of missing) {
        const file = join(directory, path);
        if (force) {
          await writeDurably(file, text, { mode: 0o644 });
          continue;
        }
        await mkdir(dirname(file), { recursive: true });
        await createDurably(file, text, { mode: 0o644 }).catch((thrown: unknown) => {
          throw isFileError(thrown, "EEXIST") ? existAlready(template, [path]) : thrown;
        });
      }
    },
  };
}

/** Whether a file is there as it would be written; anything else in its place is another one. */
async function stateOf(file: string, text: string): Promise<"missing" | "same" | "other"> {
  try {
    if (!(await lstat(file)).isFile()) return "other";
    return (await readFile(file, "utf8")) === text ? "same" : "other";
  } catch (thrown) {
    if (isFileError(thrown, "ENOENT")) return "missing";
    throw thrown;
  }
}

/** A link or a file in the place of a directory would have us write elsewhere, or not at all. */
async function requireRealDirectories(directory: string, path: string): Promise<void> {
  const parts = path.split("/").slice(0, -1);
  for (let depth = 1; depth <= parts.length; depth += 1) {
    const below = parts.slice(0, depth).join("/");
    const found = await lstat(join(directory, below)).catch((thrown: unknown) => {
      if (isFileError(thrown, "ENOENT")) return null;
      throw thrown;
    });
    if (found === null) return;
    if (!found.isDirectory())
      throw new CliError("CLI_INVALID_USAGE", `${below} is no directory of its own; nothing was written`, {
        hint: "Start in an empty directory, or remove it",
      });
  }
}

function existAlready(template: TemplateWithFiles, paths: readonly string[]): CliError {
  const named = paths.slice(0, namedMax).join(", ");
  const rest = paths.length > namedMax ? ` and ${paths.length - namedMax} more` : "";
  const exist = paths.length === 1 ? "exists already, and is another file" : "exist already, and are other files";
  return new CliError("CLI_INVALID_USAGE", `${named}${rest} ${exist} than the template's`, {
    hint: `Start in an empty directory, or replace what is here: \`svc init --template ${template} --force\``,
  });
}
