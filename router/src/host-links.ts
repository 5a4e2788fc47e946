import { mkdirSync, readdirSync, readlinkSync, renameSync, rmdirSync, rmSync, symlinkSync } from "node:fs";
import { dirname, join } from "node:path";

/** Links by which Caddy finds files for a host. In memory, like the table beside them, and so written without waiting. */
export interface HostLinks {
  /** Makes the link lead to `target`; null is nowhere. Takes effect at once, and nothing is done where it does already. */
  put(name: string, target: string | null): void;
  /** Names of links that there are. */
  names(): Iterable<string>;
}

/** No host ends like this. */
const unfinished = "~";

/** @param dir what an earlier process left in it counts; whatever is no link is removed */
export function openHostLinks(dir: string): HostLinks {
  mkdirSync(dir, { recursive: true, mode: 0o755 });
  const known = new Map<string, string>();
  const read = (below: string): void => {
    for (const entry of readdirSync(join(dir, below), { withFileTypes: true })) {
      const name = join(below, entry.name);
      if (entry.isDirectory()) read(name);
      else if (entry.isSymbolicLink() && !entry.name.endsWith(unfinished))
        known.set(name, readlinkSync(join(dir, name)));
      else rmSync(join(dir, name));
    }
  };
  read("");
  return {
    names: () => known.keys(),
    put(name, target) {
      if ((known.get(name) ?? null) === target) return;
      const path = join(dir, name);
      if (target === null) {
        rmSync(path, { force: true });
        known.delete(name);
        const directory = dirname(path);
        if (directory !== dir && readdirSync(directory).length === 0) rmdirSync(directory);
        return;
      }
      mkdirSync(dirname(path), { recursive: true, mode: 0o755 });
      rmSync(`${path}${unfinished}`, { force: true });
      symlinkSync(target, `${path}${unfinished}`);
      renameSync(`${path}${unfinished}`, path);
      known.set(name, target);
    },
  };
}
