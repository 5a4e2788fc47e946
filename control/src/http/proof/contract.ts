import type { Scope } from "@svc/proto";
import type { Method } from "../endpoint.ts";

/**
 * What a route asks of whoever calls it, as the published contract words it. Written from the contract and used to
 * judge the code: nothing in here may be derived from the endpoints.
 *
 * none: nobody is asked. any: every credential but a set-up key for CI. full: sessions and keys without scopes.
 * session: sessions alone. admin: administrators with full access.
 * Otherwise scopes: of each group in `all` the key has at least one. `ci` also admits a `ci:deploy` key: to its one
 * project, or only to deployments that the key itself created.
 */
export type RouteAccess =
  | "none"
  | "any"
  | "full"
  | "session"
  | "admin"
  | { all: readonly (readonly Scope[])[]; ci?: "project" | "created" };

export interface ContractRoute {
  method: Method;
  /** Below /api/v1, with ":name" for parameters. */
  path: string;
  access: RouteAccess;
  /**
   * The route is about the whole account, so a key that is limited to some projects is refused with FORBIDDEN_SCOPE
   * although its class would admit it. The contract is silent here, and this is the narrow reading.
   */
  refusesLimitedKeys?: boolean;
}

const scope = (...anyOf: Scope[]): RouteAccess => ({ all: [anyOf] });
const read = scope("projects:read");
const write = scope("projects:write");
const deploy = scope("deploy");

const rows = (...routes: [string, RouteAccess, Pick<ContractRoute, "refusesLimitedKeys">?][]): ContractRoute[] =>
  routes.map(([route, access, more]) => {
    const [method, path] = route.split(" ") as [Method, string];
    return { method, path, access, ...more };
  });

const wholeAccount = { refusesLimitedKeys: true };

/** Every route of the contract, by the section that names it. */
export const contract = {
  account: rows(
    ["GET /me", "any"],
    ["GET /account", "full"],
    ["POST /account/set-password", "full", wholeAccount],
    ["GET /account/usage", "full"],
    ["GET /githost/repos", "full", wholeAccount],
    ["POST /tokens", "session"],
    ["POST /waitlist", "none"],
  ),
  projects: rows(
    ["GET /projects", read],
    ["POST /projects", write, wholeAccount],
    ["GET /projects/:id", read],
    ["PUT /projects/:id", write],
    ["PATCH /projects/:id", write],
    ["DELETE /projects/:id", write],
  ),
  deployments: rows(
    ["POST /projects/:id/deployments", { all: [["deploy"]], ci: "project" }],
    ["GET /deployments/:id", { all: [["projects:read"]], ci: "created" }],
    ["GET /deployments/:id/logs", { all: [["logs:read"]], ci: "created" }],
    ["GET /deployments/:id/timeline", scope("logs:read")],
    ["POST /deployments/:id/rollback", deploy],
    ["POST /deployments/:id/promote", deploy],
  ),
  screenshots: rows(["GET /deployments/:id/screenshot", read], ["POST /deployments/:id/screenshot", write]),
  "registry credentials": rows(
    ["GET /projects/:id/registry-credentials", read],
    ["PUT /projects/:id/registry-credentials", write],
    ["DELETE /projects/:id/registry-credentials", write],
  ),
  env: rows(["GET /projects/:id/env", scope("env:read")], ["PUT /projects/:id/env", scope("env:write")]),
  runtime: rows(
    ["GET /projects/:id/runtime-logs", scope("logs:read")],
    ["POST /projects/:id/stop", scope("lifecycle")],
    ["POST /projects/:id/start", scope("lifecycle")],
  ),
  metrics: rows(
    ["GET /projects/:id/metrics", scope("metrics:read")],
    ["GET /projects/:id/resources", scope("metrics:read")],
    ["GET /projects/:id/analytics", scope("metrics:read")],
  ),
  alerts: rows(
    ["GET /projects/:id/alerts", scope("alerts:read")],
    ["PATCH /projects/:id/alerts", scope("alerts:write")],
    ["PUT /projects/:id/alerts/webhook", scope("alerts:write")],
    ["DELETE /projects/:id/alerts/webhook", scope("alerts:write")],
    ["POST /projects/:id/alerts/webhook/rotate", scope("alerts:write")],
  ),
  jobs: rows(
    ["GET /projects/:id/jobs", scope("jobs:read")],
    ["PATCH /projects/:id/jobs/:jobId", scope("jobs:write")],
    ["POST /projects/:id/jobs/:jobId/run", scope("jobs:write")],
    ["GET /projects/:id/job-runs", scope("jobs:read")],
    ["GET /projects/:id/job-runs/:runId", scope("jobs:read")],
    ["GET /projects/:id/job-runs/:runId/logs", { all: [["jobs:read"], ["logs:read"]] }],
    ["POST /projects/:id/job-runs/:runId/cancel", scope("jobs:write")],
  ),
  databases: rows(
    ["POST /projects/:id/database", write],
    // The contract gates every route of this section on the plan but those that it names, and this is not among these; its
    // own row has no gate. Somebody whose plan has shrunk must still see what there is to drop: it is not gated.
    ["GET /projects/:id/database", read],
    ["GET /projects/:id/database/branches", read],
    ["DELETE /projects/:id/database", write],
    ["POST /projects/:id/database/dev-credentials", scope("database:credentials", "projects:write")],
    ["POST /projects/:id/database/query", scope("database:query", "projects:write")],
    ["GET /projects/:id/database/schema", read],
    ["GET /projects/:id/database/tables/:table/rows", read],
    ["POST /projects/:id/database/tables/:table/rows", write],
    ["PATCH /projects/:id/database/tables/:table/rows", write],
    ["DELETE /projects/:id/database/tables/:table/rows", write],
    ["GET /projects/:id/database/tables/:table/count", read],
    ["GET /projects/:id/database/migrations", read],
    ["GET /projects/:id/database/usage", read],
    ["GET /projects/:id/database/saved-queries", read],
    ["POST /projects/:id/database/saved-queries", write],
    ["DELETE /projects/:id/database/saved-queries/:queryId", write],
    ["GET /projects/:id/database/backups", read],
    ["GET /projects/:id/database/backups/:backupId", read],
    ["POST /projects/:id/database/backups", write],
    ["DELETE /projects/:id/database/backups/:backupId", write],
    ["GET /projects/:id/database/backups/:backupId/download", read],
    ["POST /projects/:id/database/rotate-credentials", write],
  ),
  domains: rows(
    ["GET /projects/:id/domains", read],
    ["POST /projects/:id/domains", write],
    ["PATCH /projects/:id/domains/:domainId", write],
    ["POST /projects/:id/domains/:domainId/verify", write],
    ["DELETE /projects/:id/domains/:domainId", write],
  ),
  administration: rows(
    ["GET /admin/users", "admin"],
    ["DELETE /admin/users/:id", "admin"],
    ["POST /admin/users/:id/ban", "admin"],
    ["POST /admin/users/:id/unban", "admin"],
    ["POST /admin/users/:id/role", "admin"],
    ["POST /admin/users/:id/plan", "admin"],
    ["GET /admin/projects", "admin"],
    ["DELETE /admin/projects/:id", "admin"],
    ["POST /admin/projects/:id/suspend", "admin"],
    ["POST /admin/projects/:id/resume", "admin"],
    ["GET /admin/databases", "admin"],
    ["GET /admin/plans", "admin"],
    ["POST /admin/plans", "admin"],
    ["PUT /admin/plans/:id", "admin"],
    ["DELETE /admin/plans/:id", "admin"],
    ["GET /admin/stats", "admin"],
    ["GET /admin/series", "admin"],
    ["GET /admin/waitlist", "admin"],
    ["POST /admin/invites", "admin"],
    ["GET /admin/nodes", "admin"],
    ["GET /admin/nodes/:id", "admin"],
  ),
} as const satisfies Record<string, readonly ContractRoute[]>;

export type Section = keyof typeof contract;

/** Sections whose every route is served. */
export const completeSections = [
  "account",
  "projects",
  "deployments",
  "registry credentials",
  "env",
  "runtime",
  "administration",
] as const satisfies readonly Section[];

/** Routes that the contract does not have. */
export interface Addition extends ContractRoute {
  /** What people could not do without it. */
  why: string;
}

const added = (why: string, ...routes: Parameters<typeof rows>): Addition[] =>
  rows(...routes).map((route) => ({ ...route, why }));

export const additions: readonly Addition[] = [
  ...added(
    "A key that leaked has to be found and revoked, and a client that signs out revokes its own.",
    ["GET /tokens", "full", wholeAccount],
    ["DELETE /tokens/:id", "full", wholeAccount],
    ["DELETE /tokens/self", "any"],
  ),
  ...added("An image of one's own has to be pushed somewhere before it can be deployed.", [
    "POST /registry/login",
    deploy,
    wholeAccount,
  ]),
  ...added("The project's detail shows the newest deployments only.", ["GET /projects/:id/deployments", read]),
  ...added("A deploy that is known to be wrong should not have to be waited for.", [
    "POST /deployments/:id/cancel",
    deploy,
  ]),
  ...added("A preview would otherwise run until its project is deleted.", ["DELETE /deployments/:id", write]),
  ...added(
    "Machines join the fleet with a token that somebody has to create, and may have to take back.",
    ["GET /admin/nodes/bootstrap-tokens", "admin"],
    ["POST /admin/nodes/bootstrap-tokens", "admin"],
    ["DELETE /admin/nodes/bootstrap-tokens/:id", "admin"],
  ),
  ...added(
    "The contract names what refuses node mutations, and not the mutations: machines need care, and they die.",
    ["PATCH /admin/nodes/:id", "admin"],
    ["PUT /admin/nodes/:id/addresses", "admin"],
    ["POST /admin/nodes/:id/cordon", "admin"],
    ["POST /admin/nodes/:id/uncordon", "admin"],
    ["POST /admin/nodes/:id/drain", "admin"],
    ["POST /admin/nodes/:id/cancel-drain", "admin"],
    ["POST /admin/nodes/:id/force-fence", "admin"],
    ["POST /admin/nodes/:id/remove", "admin"],
  ),
  ...added(
    "An invitation to the wrong address has to be seen and taken back.",
    ["GET /admin/invites", "admin"],
    ["DELETE /admin/invites/:id", "admin"],
  ),
  ...added(
    "Whoever runs the installation has to be able to replace the authority that its machines are known by.",
    ["GET /admin/ca", "admin"],
    ["POST /admin/ca/rotate", "admin"],
  ),
  ...added("Whoever runs the fleet has to see why a container is not, or not there, where it should be.", [
    "GET /admin/placements/explain",
    "admin",
  ]),
  ...added(
    "Databases have to come back when their machine is lost, and to leave it before it is taken away.",
    ["GET /admin/databases/:id", "admin"],
    ["POST /admin/databases/:id/restore", "admin"],
    ["POST /admin/databases/:id/move", "admin"],
    ["POST /admin/databases/:id/cancel", "admin"],
    ["POST /admin/databases/:id/fetch", "admin"],
  ),
  ...added(
    "What was dropped by mistake has to come back, and what is kept for that has to be seen, and to go before its time.",
    ["POST /admin/databases/:id/undrop", "admin"],
    ["GET /admin/databases/volumes", "admin"],
    ["POST /admin/databases/volumes/:volume/keep", "admin"],
    ["DELETE /admin/databases/volumes/:volume", "admin"],
  ),
  ...added("Tools on somebody's own machine reach a database that has no address outside.", [
    "GET /projects/:id/database/tunnel",
    scope("database:credentials", "projects:write"),
  ]),
  ...added(
    "What nobody remembers to back up is lost.",
    ["GET /projects/:id/database/settings", read],
    ["PUT /projects/:id/database/settings", write],
  ),
  ...added(
    "A table of any size is taken elsewhere, and comes from there, without a tool on one's own machine.",
    ["GET /projects/:id/database/tables/:table/export", read],
    ["POST /projects/:id/database/tables/:table/import", write],
  ),
  ...added("Whoever administers has to see who did what.", ["GET /admin/audit", "admin"]),
  ...added("Whoever runs the installation has to see what is about to break.", ["GET /admin/doctor", "admin"]),
];

export const routeName = ({ method, path }: Pick<ContractRoute, "method" | "path">): string => `${method} ${path}`;

/** The key that makes the call is no more after it. */
export const endsItsCredential = ({ path }: Pick<ContractRoute, "path">): boolean => path === "/tokens/self";

/** The contract's routes and ours, by name. */
export const knownRoutes: ReadonlyMap<string, ContractRoute> = new Map(
  [...Object.values(contract).flat(), ...additions].map((route) => [routeName(route), route]),
);
