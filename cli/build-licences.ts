import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

/** The directory of the package in `node_modules` that a module is of; null for one that is of none. */
function packageDirectory(module: string): string | null {
  return /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(module)?.[0] ?? null;
}

/**
 * The licence texts of all packages that modules are of, by name. Throws for a package without one:
 * what may not be passed on must not be bundled.
 */
export async function licencesOf(modules: readonly string[]): Promise<string> {
  const directories = new Set(modules.map(packageDirectory).filter((each) => each !== null));
  const texts = await Promise.all([...directories].map(licenceOf));
  return `The program svc contains these packages.\n\n${texts.toSorted().join("\n")}`;
}

async function licenceOf(directory: string): Promise<string> {
  const { name, version, license } = JSON.parse(await readFile(join(directory, "package.json"), "utf8"));
  const file = (await readdir(directory)).toSorted().find((each) => /^licen[cs]e([-.].+)?$/i.test(each));
  if (file === undefined) throw new Error(`${name} comes without the text of its licence, and cannot be bundled`);
  const text = await readFile(join(directory, file), "utf8");
  return `---- ${name} ${version} (${license}) ----\n\n${text.trim()}\n`;
}
