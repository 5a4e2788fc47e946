/** What tasks and runs are made for, and go with. */
export const ownerKinds = ["deployment"] as const;
export type OwnerKind = (typeof ownerKinds)[number];

/** What a task can be: a build that ends by itself, or a container that serves until it is told to go. */
export const taskKinds = ["build", "serve"] as const;
export type TaskKind = (typeof taskKinds)[number];

/** What a run can be: the release command of a deployment. */
export const runKinds = ["release"] as const;
export type RunKind = (typeof runKinds)[number];
