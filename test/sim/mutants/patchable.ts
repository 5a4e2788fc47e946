/**
 * Functions of the product that a planted bug may replace, by the file that exports them. The product knows nothing of it: what
 * loads these files in a simulation (`main.ts`, and `vitest.config.ts` in tests) puts a door before them.
 */
const patchable: Readonly<Record<string, readonly string[]>> = {
  "agent/src/placements/apply.ts": ["apply"],
  "agent/src/placements/steps.ts": ["nextStep"],
  "agent/src/runs/gate.ts": ["judge"],
  "agent/src/runs/outcome.ts": ["toStatus"],
  "agent/src/runs/transitions.ts": ["nextRun"],
  "router/src/table-feed.ts": ["createTableFeed"],
  "router/src/table-store.ts": ["createTableStore"],
  "router/src/table.ts": ["decide"],
  "router/src/tree-steps.ts": ["nextSequence"],
};

const doorUrl = new URL("./door.ts", import.meta.url);

/**
 * The source of a file of the product with a door before each function that may be replaced; null for every other file.
 *
 * @param address its URL or path
 * @throws Error when it has no such function any more
 */
export function patchedSource(address: string, read: () => string): string | null {
  const names = Object.entries(patchable).find(([path]) => address.endsWith(`/${path}`))?.[1];
  if (names === undefined) return null;
  let source = read();
  for (const name of names) {
    const declared = `export function ${name}(`;
    if (!source.includes(declared)) throw new Error(`${address} has no function ${name}: see test/sim/mutants`);
    source = source.replace(declared, `function ${name}(`);
    source += `\nconst ${name}AtDoor = door("${name}", ${name});\nexport { ${name}AtDoor as ${name} };\n`;
  }
  const from = address.startsWith("file:") ? doorUrl.href : doorUrl.pathname;
  return `${source}import { door } from ${JSON.stringify(from)};\n`;
}
