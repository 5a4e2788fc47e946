import { entryName, firstSequence, parseEntry } from "./names.ts";

/** The table of names as it is: the entries in each host's directory. */
export type Tree = ReadonlyMap<string, readonly string[]>;

export type TreeStep =
  /** Comes first and takes effect at once: it sorts before every other entry of the host. */
  | { do: "add"; host: string; name: string }
  /** Entries without effect. They stay a moment longer, for lookups that have just read the directory. */
  | { do: "retire"; host: string; names: string[] }
  | { do: "removeHost"; host: string };

/**
 * Steps that make the tree serve `wanted` for the given hosts; none for a host that it serves already.
 * A host that `wanted` lacks is removed.
 *
 * @param wanted target name by host
 * @param sequence for the entries to add; below every number in the tree
 */
export function treeSteps(
  tree: Tree,
  wanted: ReadonlyMap<string, string>,
  hosts: Iterable<string>,
  sequence: number,
): TreeStep[] {
  return [...hosts].flatMap((host): TreeStep[] => {
    const target = wanted.get(host);
    const entries = [...(tree.get(host) ?? [])].sort();
    if (target === undefined) return tree.has(host) ? [{ do: "removeHost", host }] : [];
    const [first, ...others] = entries;
    const serves = first !== undefined && parseEntry(first)?.target === target;
    const idle = serves ? others : entries;
    return [
      ...(serves ? [] : [{ do: "add", host, name: entryName(sequence, target) } as const]),
      ...(idle.length > 0 ? [{ do: "retire", host, names: idle } as const] : []),
    ];
  });
}

/** A sequence number that sorts before every entry of the tree. */
export function nextSequence(tree: Tree): number {
  let lowest = firstSequence;
  for (const entries of tree.values()) {
    for (const name of entries) lowest = Math.min(lowest, parseEntry(name)?.sequence ?? firstSequence);
  }
  return lowest - 1;
}
