import { readFileSync } from "node:fs";
import { fromLines, violations } from "./history.ts";

/** Judges the histories in the files that it is given, and prints what cannot be: `node test/faults/support/judge-history.ts <file>...`. */
let wrong = 0;
for (const path of process.argv.slice(2)) {
  const history = fromLines(readFileSync(path, "utf8"));
  const found = violations(history);
  console.log(`${path}: ${history.length} operations, ${found.length} violations`);
  for (const each of found) console.log(`  ${each}`);
  wrong += found.length;
}
process.exitCode = wrong > 0 ? 1 : 0;
