// @pure
/** What a task can be: a build that ends by itself, or a container that serves until it is told to go. */
export const taskKinds = ["build", "serve"] as const;
export type TaskKind = (typeof taskKinds)[number];
