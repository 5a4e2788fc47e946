import { readdirSync, readFileSync } from "node:fs";
import type { Facts } from "../facts.ts";

const directory = new URL("../fixtures/", import.meta.url);

/** Names of the templates that were made with their frameworks' own create tools. */
export const fixtureNames: readonly string[] = readdirSync(directory).map((name) => name.replace(/\.json$/, ""));

/** What one of them holds. */
export function fixture(name: string): Facts {
  const { files, texts } = JSON.parse(readFileSync(new URL(`${name}.json`, directory), "utf8")) as {
    files: string[];
    texts: Record<string, string>;
  };
  return { files: new Set(files), texts: new Map(Object.entries(texts)) };
}

/** A directory with these texts; a value that is no text is written as JSON. */
export function factsOf(texts: Record<string, string | object>, files: readonly string[] = []): Facts {
  const written = Object.entries(texts).map(
    ([path, text]) => [path, typeof text === "string" ? text : JSON.stringify(text)] as const,
  );
  return { files: new Set([...Object.keys(texts), ...files]), texts: new Map(written) };
}

/** Dependencies of a `package.json`. */
export const using = (...names: string[]) => ({
  dependencies: Object.fromEntries(names.map((name) => [name, "1.0.0"])),
});
