import type { Random } from "@svc/runtime/random";
import type { ContractRoute } from "./contract.ts";
import { knownRoutes, routeName } from "./contract.ts";

const unique = (random: Random, prefix: string): string => `${prefix}${random.uuid().slice(0, 8)}`;

const imageManifest = {
  version: 2,
  name: "Shop",
  type: "ociimage",
  port: 8080,
  image: { reference: "registry.test/shop:1" },
};

const aPlan = (random: Random) => ({
  slug: unique(random, "plan-"),
  name: "Small",
  memoryMb: 256,
  cpuMillicores: 500,
  pidsLimit: 128,
  reservedMemoryMb: 64,
  reservedCpuMillicores: 50,
  maxProjects: 5,
  maxDeploysPerHour: 10,
  maxUploadMb: 50,
  maxImageMb: 0,
  maxEnvVars: 20,
  rateLimitPerMinute: null,
  monthlyRequests: null,
  monthlyBandwidthMb: null,
  storageMb: 512,
  dbSizeMb: 100,
  dbConnectionLimit: 5,
  maxDatabases: 0,
  maxBackups: 0,
  maxSseConnections: 0,
  maxScheduledJobs: 0,
  maxCustomDomains: 0,
  maxReplicas: 2,
  maxDrainSeconds: 30,
  nodeSelector: { disk: "fast" },
  devSyncEnabled: false,
  previewsEnabled: false,
});

/** A body that each route with one accepts. Made anew each time, for what has to be unique. */
const bodies: Readonly<Record<string, (random: Random) => unknown>> = {
  "POST /account/set-password": () => ({ newPassword: "correct horse battery" }),
  "POST /tokens": () => ({ name: "laptop", scopes: ["projects:read"], expiresIn: 86_400 }),
  "POST /waitlist": (random) => ({ email: `${unique(random, "ada-")}@svc.test` }),
  "POST /projects": () => ({ name: "Shop", type: "ssr", slug: "auto" }),
  "PUT /projects/:id": (random) => ({ slug: unique(random, "shop-") }),
  "PATCH /projects/:id": () => ({
    deployMode: "preview",
    productionBranch: "main",
    repoUrl: "https://git.test/ada/shop",
  }),
  "POST /projects/:id/deployments": () => ({
    manifest: imageManifest,
    metadata: { trigger: "api", gitSha: "0123ABCdef" },
  }),
  "PUT /projects/:id/registry-credentials": () => ({ host: "registry.test", username: "ada", secret: "s3cret" }),
  "DELETE /projects/:id/registry-credentials": () => ({ host: "registry.test", confirm: true }),
  "PUT /projects/:id/env": () => ({ vars: { GREETING: "hello" } }),
  "POST /projects/:id/database": () => ({ engine: "postgres" }),
  "POST /projects/:id/database/query": () => ({ sql: "select 1" }),
  "POST /projects/:id/database/tables/:table/rows": () => ({ values: { id: 1 } }),
  "PATCH /projects/:id/database/tables/:table/rows": () => ({ pk: { id: 1 }, changes: { name: "Ada" } }),
  "DELETE /projects/:id/database/tables/:table/rows": () => ({ pk: { id: 1 } }),
  "PUT /projects/:id/database/settings": () => ({ backups: null }),
  "POST /projects/:id/database/saved-queries": (random) => ({ name: unique(random, "query-"), sql: "select 1" }),
  "PATCH /projects/:id/alerts": () => ({ enabled: true, events: { deployFailed: { mail: false, webhook: true } } }),
  "PUT /projects/:id/alerts/webhook": () => ({ url: "https://hooks.svc.test/alerts" }),
  "POST /projects/:id/domains": (random) => ({ domain: `${unique(random, "shop-")}.example` }),
  "PATCH /projects/:id/jobs/:jobId": () => ({ enabled: false }),
  "PATCH /projects/:id/domains/:domainId": () => ({ routingTarget: "disabled" }),
  "POST /admin/users/:id/ban": () => ({ reason: "spam", expiresInSeconds: 3600 }),
  "POST /admin/users/:id/role": () => ({ role: "user" }),
  "POST /admin/users/:id/plan": () => ({ plan: "standard" }),
  "POST /admin/plans": aPlan,
  "PUT /admin/plans/:id": aPlan,
  "POST /admin/invites": (random) => ({ email: `${unique(random, "ada-")}@svc.test` }),
  "POST /admin/databases/:id/restore": () => ({ at: "2030-01-31T12:00:00Z", confirm: true }),
  "DELETE /admin/databases/volumes/:volume": () => ({ confirm: true }),
  "POST /admin/databases/:id/move": (random) => ({ to: random.uuid() }),
  "POST /admin/databases/:id/fetch": (random) => ({ node: random.uuid() }),
  "POST /admin/nodes/bootstrap-tokens": () => ({ role: "node", expiresIn: 600 }),
  "PATCH /admin/nodes/:id": () => ({ labels: { disk: "fast", room: null } }),
  "PUT /admin/nodes/:id/addresses": () => ({ addresses: ["10.0.0.7", "10.0.1.7"] }),
  "POST /admin/nodes/:id/cordon": () => ({ reason: "noisy disk" }),
  "POST /admin/nodes/:id/uncordon": () => ({ reason: "quiet again" }),
  "POST /admin/nodes/:id/drain": () => ({ reason: "new kernel", deadlineSeconds: 600 }),
  "POST /admin/nodes/:id/cancel-drain": () => ({ reason: "not today" }),
  "POST /admin/nodes/:id/force-fence": () => ({ reason: "pulled the plug", confirm: true }),
  "POST /admin/nodes/:id/remove": () => ({ reason: "sold", confirm: true }),
};

/** A body that `route` accepts; undefined when it has none. */
export const exampleBody = (random: Random, route: Pick<ContractRoute, "method" | "path">): unknown =>
  bodies[routeName(route)]?.(random);

/** Whether there is an example for `route`. */
export const hasExample = (route: Pick<ContractRoute, "method" | "path">): boolean =>
  Object.hasOwn(bodies, routeName(route));

/** Routes that have an example and do not exist. */
export const strayExamples: readonly string[] = Object.keys(bodies).filter((name) => !knownRoutes.has(name));
