import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { repositoryRoot } from "@svc/deploy/paths";

export interface Import {
  specifier: string;
  /** Only types: gone when the program runs. */
  typeOnly: boolean;
}

export interface SourceFile {
  /** From the repository's folder, with slashes. */
  path: string;
  text: string;
  imports: Import[];
}

const statement = /^\s*(?:import|export)\s+(type\s)?(?:[^"';]*?\sfrom\s+)?"([^"]+)"/gm;
const dynamic = /\bimport\("([^"]+)"\)/g;

function importsOf(text: string): Import[] {
  return [
    ...[...text.matchAll(statement)].map(([, type, specifier = ""]) => ({ specifier, typeOnly: type !== undefined })),
    ...[...text.matchAll(dynamic)].map(([, specifier = ""]) => ({ specifier, typeOnly: false })),
  ];
}

/** Hand-written TypeScript of one workspace: its src folder, or for `test` everything. */
export const sourcesOf = (workspace: string): SourceFile[] =>
  sourcesBelow(workspace === "test" ? workspace : join(workspace, "src"), /\.ts$/);

/** Hand-written files below a folder of the repository whose name `matches`. Applications of tests and examples are not ours. */
export function sourcesBelow(dir: string, matches: RegExp): SourceFile[] {
  return readdirSync(join(repositoryRoot, dir), { recursive: true, encoding: "utf8" })
    .filter((name) => matches.test(name) && !/(^|\/)(node_modules|gen|dist|examples)\/|^apps\/[^/]+\//.test(name))
    .map((name) => {
      const path = join(dir, name);
      const text = readFileSync(join(repositoryRoot, path), "utf8");
      return { path, text, imports: importsOf(text) };
    });
}
