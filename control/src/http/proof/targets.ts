import { randomBytes } from "node:crypto";
import { databaseVolume } from "@svc/proto";
import { createBootstrapToken } from "../../fleet/nodes/tokens.ts";
import { replaceInvite } from "../../identity/invites/store.ts";
import { newWebhook } from "../../tenants/alerts/testing.ts";
import { newBranch, newDroppedBranch } from "../../tenants/databases/testing/branch.ts";
import { newDomain } from "../../tenants/domains/testing.ts";
import { newJob } from "../../tenants/jobs/testing/job.ts";
import { newJobRun } from "../../tenants/jobs/testing/run.ts";
import type { TestApi, TestUser } from "../testing.ts";
import type { ContractRoute } from "./contract.ts";

/** Something real that a path's parameters name. */
export interface Target {
  /** By the name of the parameter. */
  params: Readonly<Record<string, string>>;
  /** The project that it belongs to; null for what belongs to none. */
  projectId: string | null;
  /** A CI key of the project that created the deployment which the path names, or created none. */
  creatorKey: string | null;
}

const none: Target = { params: {}, projectId: null, creatorKey: null };

async function aProject(api: TestApi, owner: TestUser): Promise<Target> {
  // The one type whose every route takes JSON.
  const { id } = await api.newProject(owner, { type: "ociimage" });
  const { key } = await api.newKey(owner, { scopes: ["ci:deploy"], projectIds: [id] });
  const credential = { project_id: id, host: "registry.test", sealed: Buffer.alloc(1) };
  await api.db.insertInto("registry_credential").values(credential).execute();
  return { params: { id }, projectId: id, creatorKey: key };
}

/** A project whose production has a database that can be used. */
async function aBranch(api: TestApi, owner: TestUser): Promise<Target> {
  const target = await aProject(api, owner);
  await newBranch(api, { id: target.projectId ?? "" });
  return target;
}

async function aSavedQuery(api: TestApi, owner: TestUser): Promise<Target> {
  const { params, ...target } = await aProject(api, owner);
  const queryId = api.context.random.uuid();
  const query = { id: queryId, project_id: target.projectId ?? "", name: "all", sql: "select 1" };
  await api.db.insertInto("saved_query").values(query).execute();
  return { ...target, params: { ...params, queryId } };
}

async function aDomain(api: TestApi, owner: TestUser): Promise<Target> {
  const { params, ...target } = await aProject(api, owner);
  const { id: domainId } = await newDomain(api.db, target.projectId ?? "", `${api.context.random.uuid()}.example`);
  return { ...target, params: { ...params, domainId } };
}

async function aJob(api: TestApi, owner: TestUser): Promise<Target> {
  const { params, ...target } = await aProject(api, owner);
  const { id: jobId } = await newJob(api.db, { project_id: target.projectId ?? "" });
  return { ...target, params: { ...params, jobId } };
}

async function aJobRun(api: TestApi, owner: TestUser): Promise<Target> {
  const { params, ...target } = await aProject(api, owner);
  const { id: runId } = await newJobRun(api.db, await newJob(api.db, { project_id: target.projectId ?? "" }));
  return { ...target, params: { ...params, runId } };
}

async function aTable(api: TestApi, owner: TestUser): Promise<Target> {
  const { params, ...target } = await aBranch(api, owner);
  return { ...target, params: { ...params, table: "orders" } };
}

/** One that can be deleted, and has no file. */
async function aBackup(api: TestApi, owner: TestUser): Promise<Target> {
  const { params, ...target } = await aProject(api, owner);
  const { random, clock } = api.context;
  const backupId = random.uuid();
  const of = { project_id: target.projectId ?? "", database_id: random.uuid(), channel: "production" } as const;
  const end = { engine: "postgres", status: "failed", error: "it broke off", ended_at: clock.now() } as const;
  await api.db
    .insertInto("database_backup")
    .values({ id: backupId, ...of, ...end })
    .execute();
  return { ...target, params: { ...params, backupId } };
}

async function aDeployment(api: TestApi, owner: TestUser): Promise<Target> {
  const project = await api.newProject(owner, { type: "ociimage" });
  const creator = await api.newKey(owner, { scopes: ["ci:deploy"], projectIds: [project.id] });
  const { id } = await api.newDeployment(project, { status: "superseded", created_by_token: creator.id });
  return { params: { id }, projectId: project.id, creatorKey: creator.key };
}

/** A deployment that was captured, with no picture in the registry. */
async function aCapture(api: TestApi, owner: TestUser): Promise<Target> {
  const target = await aDeployment(api, owner);
  const file = { repository: "svc/x/screenshot", digest: `sha256:${"a".repeat(64)}`, size_bytes: 7 };
  const of = { deployment_id: target.params["id"] ?? "", project_id: target.projectId ?? "", pending: false };
  await api.db
    .insertInto("screenshot")
    .values({ ...of, ...file, captured_at: api.context.clock.now() })
    .execute();
  return target;
}

const aToken = async (api: TestApi, owner: TestUser): Promise<Target> => ({
  ...none,
  params: { id: (await api.newKey(owner)).id },
});

const aUser = async (api: TestApi): Promise<Target> => ({ ...none, params: { id: (await api.newUser()).id } });

async function aPlan({ db, context }: TestApi): Promise<Target> {
  const { id: _, ...standard } = await db
    .selectFrom("plan")
    .selectAll()
    .where("is_default", "=", true)
    .executeTakeFirstOrThrow();
  const { id } = await db
    .insertInto("plan")
    .values({ ...standard, slug: `plan-${context.random.uuid().slice(0, 13)}`, is_default: false })
    .returning("id")
    .executeTakeFirstOrThrow();
  return { ...none, params: { id } };
}

async function aNode({ db, context }: TestApi): Promise<Target> {
  const { id } = await db
    .insertInto("node")
    .values({ role: "node", name: `node-${context.random.uuid().slice(0, 8)}` })
    .returning("id")
    .executeTakeFirstOrThrow();
  return { ...none, params: { id } };
}

async function aBootstrapToken({ db, context }: TestApi): Promise<Target> {
  const { clusterId, caSha256 } = context.cluster;
  const { id } = await createBootstrapToken(db, {
    role: "node",
    ttlSeconds: 600,
    createdBy: null,
    clusterId,
    caSha256,
    now: context.clock.now(),
  });
  return { ...none, params: { id } };
}

async function anInvite({ db, context }: TestApi, creator: TestUser): Promise<Target> {
  const id = context.random.uuid();
  const expiresAt = new Date(context.clock.now().getTime() + 3_600_000);
  await replaceInvite(db, { id, email: `${id}@svc.test`, hash: randomBytes(32), createdBy: creator.id, expiresAt });
  return { ...none, params: { id } };
}

async function aDatabase(api: TestApi, owner: TestUser): Promise<Target> {
  const id = await newBranch(api, await api.newProject(owner));
  return { ...none, params: { id } };
}

/** The volume of a database that was dropped. */
async function aVolume(api: TestApi, owner: TestUser): Promise<Target> {
  const [{ id }, node] = [await api.newProject(owner), await aNode(api)];
  const databaseId = await newDroppedBranch(api, { id, nodeId: node.params["id"] ?? "" });
  return { ...none, params: { volume: databaseVolume(databaseId, 1) } };
}

/** A database that was dropped. */
async function aDroppedDatabase(api: TestApi, owner: TestUser): Promise<Target> {
  const [{ id }, node] = [await api.newProject(owner), await aNode(api)];
  return { ...none, params: { id: await newDroppedBranch(api, { id, nodeId: node.params["id"] ?? "" }) } };
}

/** A project whose alerts go to a webhook as well. */
async function aWebhook(api: TestApi, owner: TestUser): Promise<Target> {
  const target = await aProject(api, owner);
  await newWebhook(api, target.projectId ?? "");
  return target;
}

/** The longest beginning of a path tells what its parameters name. */
const makers: readonly [prefix: string, make: (api: TestApi, owner: TestUser) => Promise<Target>][] = [
  ["/admin/nodes/bootstrap-tokens/:id", aBootstrapToken],
  ["/admin/nodes/:id", aNode],
  ["/admin/databases/volumes/:volume", aVolume],
  ["/admin/databases/:id/undrop", aDroppedDatabase],
  ["/admin/databases/:id", aDatabase],
  ["/admin/users/:id", aUser],
  ["/admin/plans/:id", aPlan],
  ["/admin/projects/:id", aProject],
  ["/admin/invites/:id", anInvite],
  ["/projects/:id/database/saved-queries/:queryId", aSavedQuery],
  ["/projects/:id/database/tables/:table", aTable],
  ["/projects/:id/database/backups/:backupId", aBackup],
  ["/projects/:id/database", aBranch],
  ["/projects/:id/domains/:domainId", aDomain],
  ["/projects/:id/alerts/webhook", aWebhook],
  ["/projects/:id/jobs/:jobId", aJob],
  ["/projects/:id/job-runs/:runId", aJobRun],
  ["/projects/:id", aProject],
  ["/deployments/:id/screenshot", aCapture],
  ["/deployments/:id", aDeployment],
  ["/tokens/:id", aToken],
];

/** Something new that `route` can be called for, `owner`'s if it belongs to anybody. Throws for a parameter that nobody taught it. */
export async function newTarget(api: TestApi, owner: TestUser, { path }: Pick<ContractRoute, "path">): Promise<Target> {
  const names = parametersOf(path);
  if (names.length === 0) return none;
  const make = makers.find(([prefix]) => path.startsWith(prefix))?.[1];
  const target = await make?.(api, owner);
  const unknown = names.filter((name) => target?.params[name] === undefined);
  if (target === undefined || unknown.length > 0) {
    throw new Error(`targets.ts has to learn what :${unknown.join(", :") || names.join(", :")} of ${path} is`);
  }
  return target;
}

export const parametersOf = (path: string): string[] =>
  [...path.matchAll(/:([A-Za-z]+)/g)].map(([, name = ""]) => name);

/** `path` with `params` in it. */
export const fillPath = (path: string, params: Readonly<Record<string, string>>): string =>
  path.replaceAll(/:([A-Za-z]+)/g, (_, name: string) => encodeURIComponent(params[name] ?? ""));
