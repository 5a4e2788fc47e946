/** A protocol as states and what may happen in each. */
export interface Model<State> {
  initial: State;
  /** Everything that may happen next, with a name for people. */
  next(state: State): Iterable<readonly [label: string, state: State]>;
  /** Equal for equal states. */
  key(state: State): string;
  /** What must not be, or null. */
  problem(state: State): string | null;
}

export interface Explored {
  states: number;
  steps: number;
  /** Null when nothing that must not be can be reached. */
  violation: { problem: string; path: readonly string[] } | null;
}

const statesMax = 3_000_000;

/** Every state that can be reached, the nearest first, so that a violation comes with a shortest path. */
export function explore<State>({ initial, next, key, problem }: Model<State>): Explored {
  const first = key(initial);
  const from = new Map<string, { before: string; label: string } | null>([[first, null]]);
  const pathTo = (at: string): string[] => {
    const path: string[] = [];
    for (let step = from.get(at); step != null; step = from.get(step.before)) path.push(step.label);
    return path.reverse();
  };
  let frontier: State[] = [initial];
  let steps = 0;
  while (frontier.length > 0) {
    const following: State[] = [];
    for (const state of frontier) {
      const before = key(state);
      for (const [label, after] of next(state)) {
        steps += 1;
        const at = key(after);
        if (from.has(at)) continue;
        from.set(at, { before, label });
        const found = problem(after);
        if (found !== null) return { states: from.size, steps, violation: { problem: found, path: pathTo(at) } };
        if (from.size > statesMax) throw new Error(`more than ${statesMax} states`);
        following.push(after);
      }
    }
    frontier = following;
  }
  return { states: from.size, steps, violation: null };
}
