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
export function sourcesOf(workspace: string): SourceFile[] {
  const dir = workspace === "test" ? workspace : join(workspace, "src");
  return readdirSync(join(repositoryRoot, dir), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts") && !name.includes("node_modules") && !name.startsWith("gen/"))
    .map((name) => {
      const path = join(dir, name);
      const text = readFileSync(join(repositoryRoot, path), "utf8");
      return { path, text, imports: importsOf(text) };
    });
}
