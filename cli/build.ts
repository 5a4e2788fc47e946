import { chmod, rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { type Plugin, rolldown } from "rolldown";
import { licencesOf } from "./build-licences.ts";
import { outlines } from "./src/commands/outlines.ts";
import { templateFiles } from "./src/templates/files.ts";
import { templatesWithFiles } from "./src/templates/names.ts";

const inCli = (path: string) => fileURLToPath(new URL(path, import.meta.url));

/** What help lists of every command, made now instead of in each run: see the file that it stands in for. */
const finishedOutlines: Plugin = {
  name: "finished-outlines",
  async load(id) {
    if (id !== inCli("src/commands/outlines.ts")) return null;
    return `const list = ${JSON.stringify(await outlines())};\nexport const outlines = async () => list;\n`;
  },
};

/** Templates as they are now: their folders are not published. */
const finishedTemplates: Plugin = {
  name: "finished-templates",
  async load(id) {
    if (id !== inCli("src/templates/files.ts")) return null;
    const all: Record<string, Record<string, string>> = {};
    for (const name of templatesWithFiles) all[name] = Object.fromEntries(await templateFiles(name));
    return `const all = ${JSON.stringify(all)};\nexport const templateFiles = async (name) => new Map(Object.entries(all[name]));\n`;
  },
};

/** What clients of the MCP server are told of its tools, likewise. */
const finishedSchemas: Plugin = {
  name: "finished-schemas",
  async load(id) {
    if (id !== inCli("src/mcp/json-schemas.ts")) return null;
    const { jsonSchemas } = await import("./src/mcp/json-schemas.ts");
    const text = JSON.stringify(JSON.stringify(await jsonSchemas()));
    return `export const jsonSchemas = async () => JSON.parse(${text});\n`;
  },
};

/** Modules of Node that commander imports and help has no use for, as modules that cost nothing until they are used. */
const instead: Readonly<Record<string, string>> = {
  // Importing it makes Node open all streams of the process.
  "node:process": "export default globalThis.process;",
  // For commands that are programs of their own, which ours are not.
  "node:child_process":
    'export default { spawn: (...given) => process.getBuiltinModule("node:child_process").spawn(...given) };',
};

const mcpSurroundings = "@modelcontextprotocol/server/_shims";

/**
 * The MCP server without packages that are inlined in it, whose licences it does not bring along, and which we have no use for: a
 * validator of JSON schemas, most of its size, since our schemas validate by themselves; and a parser of HTTP headers.
 */
const leanMcp: Plugin = {
  name: "lean-mcp",
  resolveId: (id) => (id === mcpSurroundings ? `\0${id}` : null),
  load: (id) =>
    id === `\0${mcpSurroundings}`
      ? "export const process = globalThis.process;\nexport class DefaultJsonSchemaValidator {}\n"
      : null,
  transform: (code, id) =>
    id.includes("/node_modules/@modelcontextprotocol/server/")
      ? code.replace("__toESM(require_content_type()", "__toESM(/* @__PURE__ */ require_content_type()")
      : null,
};

const cheapBuiltins: Plugin = {
  name: "cheap-builtins",
  resolveId: (id, importer) =>
    id in instead && importer?.includes("/node_modules/commander/") ? `\0instead:${id}` : null,
  load: (id) => instead[id.replace("\0instead:", "")] ?? null,
};

/**
 * Bundles the command line for publishing: everything it needs in a few files, one per command that is
 * loaded on its own, so that `npx svc-cli` starts quickly and installs nothing else. With it go the licences
 * of the packages that are in it. `directory` is emptied first; `bin/svc.mjs` starts `dist/main.mjs` where there are no sources.
 */
export async function build(directory: string): Promise<void> {
  await rm(directory, { recursive: true, force: true });
  const bundle = await rolldown({
    input: { main: inCli("src/main.ts") },
    platform: "node",
    // The oldest Node of `engines`, which does not know `using`.
    transform: { target: "node22" },
    // A file of ours does nothing by being loaded. Without this, one name of @svc/proto brings all of its schemas along.
    treeshake: {
      moduleSideEffects: [{ test: /^(?!.*\/node_modules\/).*\/(cli|proto|runtime)\/src\//, sideEffects: false }],
    },
    plugins: [finishedOutlines, finishedTemplates, finishedSchemas, leanMcp, cheapBuiltins],
    // Its callbacks load the whole program, on purpose.
    checks: { pluginTimings: false },
  });
  try {
    const { output } = await bundle.write({
      dir: directory,
      format: "esm",
      minify: { mangle: false, compress: true },
      entryFileNames: "[name].mjs",
      chunkFileNames: "chunks/[name]-[hash].mjs",
    });
    const modules = output.flatMap((file) => (file.type === "chunk" ? file.moduleIds : []));
    await writeFile(join(directory, "THIRD-PARTY-LICENCES.txt"), await licencesOf(modules));
  } finally {
    await bundle.close();
  }
  await chmod(inCli("bin/svc.mjs"), 0o755);
}

// `node cli/build.ts [directory]`
if (import.meta.main) await build(resolve(process.argv[2] ?? inCli("dist")));
