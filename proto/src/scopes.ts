/** What a key may be allowed to do, each with the sentence that people see when they choose. */
export const scopes = {
  "projects:read": "List and view projects, their deployments and their databases' structure, usage and backups.",
  "projects:write":
    "Change and delete projects, database branches and rows, and take backups. Also runs SQL and reveals database credentials.",
  deploy: "Create deployments, roll back and promote. Deployed code can read the project's environment and data.",
  "env:read": "Read environment variables with their values.",
  "env:write": "Replace environment variables.",
  "logs:read": "Read build logs, runtime logs and deployment timelines.",
  "jobs:read": "List scheduled jobs and their runs. Output of a run also needs logs:read.",
  "jobs:write": "Enable, disable, run and cancel scheduled jobs.",
  "alerts:read": "Read alert settings.",
  "alerts:write": "Change alert settings and the alert webhook.",
  "metrics:read": "Read traffic, resource and analytics figures.",
  lifecycle: "Stop and start the production deployment.",
  "database:credentials": "Reveal the connection URL of a database.",
  "database:query": "Run SQL on a database.",
  "ci:deploy": "Deploy one project and follow only the deployments that this key created.",
} as const;

export type Scope = keyof typeof scopes;

/** Stands alone in a key, together with exactly one project. */
export const ciDeployScope = "ci:deploy" satisfies Scope;

/** In the order in which they are shown. */
export const allScopes = Object.keys(scopes) as Scope[];

/** Scopes that may be combined freely: all but `ci:deploy`. */
export const combinableScopes = allScopes.filter((scope) => scope !== ciDeployScope);

/** Scopes that also open a route that asks for the key. */
const alsoSatisfiedBy: Partial<Record<Scope, readonly Scope[]>> = {
  "database:query": ["projects:write"],
  "database:credentials": ["projects:write"],
};

export const isScope = (value: unknown): value is Scope => typeof value === "string" && Object.hasOwn(scopes, value);

/** Whether a key with `granted` may use a route that needs `needed`. Null is full access. */
export function satisfies(granted: readonly Scope[] | null, needed: Scope): boolean {
  if (granted === null) return true;
  return granted.includes(needed) || (alsoSatisfiedBy[needed] ?? []).some((scope) => granted.includes(scope));
}

/**
 * Scopes as they were stored, read so that damage never widens access: null (full access) only for null
 * itself; anything but a list of known scopes is an empty list, and so is `ci:deploy` in any other shape
 * than alone with exactly one project.
 */
export function readStoredScopes(stored: unknown, projectIds: readonly string[] | null): Scope[] | null {
  if (stored === null) return null;
  if (!Array.isArray(stored) || !stored.every(isScope)) return [];
  return ciDeployProblem(stored, projectIds) === null ? stored : [];
}

/** What is wrong with `ci:deploy` among `granted`, or null. */
export function ciDeployProblem(granted: readonly Scope[], projectIds: readonly string[] | null): string | null {
  if (!granted.includes(ciDeployScope)) return null;
  if (granted.length !== 1) return "ci:deploy must be the only scope of a key";
  if (projectIds?.length !== 1) return "ci:deploy needs exactly one project in projectIds";
  return null;
}
