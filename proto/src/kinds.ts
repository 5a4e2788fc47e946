/** What tasks and runs are made for, and go with. */
export const ownerKinds = ["deployment", "database", "backup", "copy", "job", "screenshot"] as const;
export type OwnerKind = (typeof ownerKinds)[number];

/**
 * What a task can be: a build, a backup, the proof of a copy or the capture of a site, which end by themselves, a container that
 * serves until it is told to go, the server of a branch, or the keeper of a copy of it.
 */
export const taskKinds = ["build", "serve", "database", "backup", "keeper", "proof", "capture"] as const;
export type TaskKind = (typeof taskKinds)[number];

/** What a run can be: the release command of a deployment, or an attempt at a run of a scheduled job. */
export const runKinds = ["release", "job"] as const;
export type RunKind = (typeof runKinds)[number];

/** How far an edge is with sending its visitors away; the rest is in `EdgeState` of svc/edge/v1/edge.proto. */
export const edgePhases = ["serving", "leaving", "closing", "drained"] as const;
export type EdgePhase = (typeof edgePhases)[number];
