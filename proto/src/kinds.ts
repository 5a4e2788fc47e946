/** What tasks and runs are made for, and go with. */
export const ownerKinds = ["deployment", "database", "backup"] as const;
export type OwnerKind = (typeof ownerKinds)[number];

/**
 * What a task can be: a build or a backup, which ends by itself, a container that serves until it is told to go, or the server
 * of a branch.
 */
export const taskKinds = ["build", "serve", "database", "backup"] as const;
export type TaskKind = (typeof taskKinds)[number];

/** What a run can be: the release command of a deployment. */
export const runKinds = ["release"] as const;
export type RunKind = (typeof runKinds)[number];
