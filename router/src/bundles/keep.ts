/** A bundle on this edge that no route serves now. */
export interface IdleBundle {
  name: string;
  /** Project -> when a route of it served the bundle last; nothing for one whose uses are not known. */
  usedBy: ReadonlyMap<string, number>;
  /** When it was put in place. */
  placedAtMs: number;
}

export interface BundleBounds {
  /** Bundles per project that it can go back to without a download. */
  kept: number;
  /** Whatever was served so lately stays: a route that goes back and forth costs nothing. */
  graceMs: number;
}

/**
 * Names of bundles that may go. One stays for each project that still has a route, while it is one of the newest
 * that the project went away from, or was in use lately. A project that has no route any more is gone, since every
 * project has its address from the first day: it keeps nothing.
 *
 * @param projects those that have a route; null when the table may not be whole, and then nobody counts as gone
 */
export function uselessBundles(
  idle: readonly IdleBundle[],
  projects: ReadonlySet<string> | null,
  nowMs: number,
  { kept, graceMs }: BundleBounds,
): string[] {
  const ofProject = new Map<string, { name: string; usedAtMs: number }[]>();
  for (const { name, usedBy } of idle) {
    for (const [project, usedAtMs] of usedBy) {
      if (projects?.has(project) === false) continue;
      ofProject.set(project, [...(ofProject.get(project) ?? []), { name, usedAtMs }]);
    }
  }
  const wanted = new Set<string>();
  for (const uses of ofProject.values()) {
    const newestFirst = uses.sort((a, b) => b.usedAtMs - a.usedAtMs || (a.name < b.name ? -1 : 1));
    for (const [rank, { name, usedAtMs }] of newestFirst.entries()) {
      if (rank < kept || nowMs - usedAtMs < graceMs) wanted.add(name);
    }
  }
  const isSpared = ({ name, usedBy, placedAtMs }: IdleBundle) =>
    wanted.has(name) || (usedBy.size === 0 && nowMs - placedAtMs < graceMs);
  return idle.filter((bundle) => !isSpared(bundle)).map(({ name }) => name);
}
