/** Last lines of a container, oldest first. */
export interface RuntimeLog {
  text: string;
  lines: number;
  /** `absent`: there is no container, and nothing is left of one that ended by itself. */
  state: "running" | "exited" | "absent";
  /** Null while it runs, and when it was told to stop. */
  exit: RuntimeExit | null;
}

/** The end of a container that nobody asked for. */
export interface RuntimeExit {
  /** Null when it still ran and was given up. */
  code: number | null;
  oomKilled: boolean;
  /** A sentence or two for the person who deployed. */
  reason: string;
  /** ISO 8601. */
  at: string;
}
