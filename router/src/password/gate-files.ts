import { mkdirSync, readdirSync, rmSync, unlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/**
 * The names that Caddy looks cookies up under: `<wicket>/<cookie value>`, an empty file each. In memory, like the
 * table beside it, and so written without waiting.
 */
export interface GateFiles {
  /** Makes exactly these values open the wicket. */
  put(wicket: string, tokens: readonly string[]): void;
  /** Nobody passes any more. */
  remove(wicket: string): void;
  wickets(): string[];
}

// Whoever may look a name up need not be able to list them: each is as good as the password.
const directoryMode = 0o711;

export function openGateFiles(dir: string): GateFiles {
  mkdirSync(dir, { recursive: true, mode: directoryMode });
  return {
    put(wicket, tokens) {
      const path = join(dir, wicket);
      mkdirSync(path, { recursive: true, mode: directoryMode });
      const present = new Set(readdirSync(path));
      for (const token of tokens) if (!present.delete(token)) writeFileSync(join(path, token), "", { mode: 0o644 });
      for (const stale of present) unlinkSync(join(path, stale));
    },
    remove: (wicket) => rmSync(join(dir, wicket), { recursive: true, force: true }),
    wickets: () => readdirSync(dir),
  };
}
