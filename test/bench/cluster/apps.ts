import { randomUUID } from "node:crypto";
import { insertToken } from "@svc/control/identity/tokens/store";
import { manifestSchema } from "@svc/proto";
import { createRegistry } from "@svc/registry";
import { systemClock } from "@svc/runtime/system";
import type { Stand } from "./stand.ts";

/** Of an image that nobody pulls. */
const noDigest = `sha256:${"0".repeat(64)}`;
const repository = "bench/app";

/** What a task of an app asks for: little, so that room is never what decides. */
const limits = { memoryMb: 64, cpuMillicores: 50, pidsLimit: 64 } as const;

export interface App {
  projectId: string;
  deploymentId: string;
  slug: string;
}

const imageManifest = (reference: string) =>
  JSON.stringify(
    manifestSchema.parse({ version: 2, name: "Bench", type: "ociimage", port: 8080, image: { reference } }),
  );

const jobManifest = JSON.stringify(
  manifestSchema.parse({
    version: 2,
    app: { name: "Bench", type: "ssr" },
    release: { command: "node release.js", timeoutSeconds: 60 },
  }),
);

const serveSpec = JSON.stringify({
  kind: "serve",
  repository,
  digest: noDigest,
  registryHost: null,
  command: [],
  port: 8080,
  health: { path: "/", timeoutSeconds: 60 },
  maxImageMb: 2048,
});

/** Lets one account own and deploy as much as a whole bench does. */
export async function liftLimits({ pool }: Pick<Stand, "pool">): Promise<void> {
  await pool.query(
    `update plan set max_projects = 100000, max_deploys_per_hour = 100000, memory_mb = $1, cpu_millicores = $2,
       pids_limit = $3`,
    [limits.memoryMb, limits.cpuMillicores, limits.pidsLimit],
  );
}

export interface Account {
  id: string;
  /** An API key of full access. */
  key: string;
}

/** Accounts that may deploy. */
export async function createAccounts({ db }: Pick<Stand, "db">, count: number): Promise<Account[]> {
  const accounts: Account[] = [];
  for (let at = 0; at < count; at += 1) {
    const user = { id: randomUUID(), name: `Bench ${at}`, email: `bench-${at}@bench.test`, emailVerified: true };
    await db.insertInto("auth.user").values(user).execute();
    const rights = { scopes: null, projectIds: null, expiresAt: null };
    const token = { id: randomUUID(), userId: user.id, name: "bench", ...rights, createdAt: new Date() };
    const { key } = await insertToken(db, token);
    accounts.push({ id: user.id, key });
  }
  return accounts;
}

/** Projects of the administrator, or of `owners` in turn, without anything deployed. In the order in which they are numbered. */
export async function createProjects(
  { pool }: Pick<Stand, "pool">,
  {
    prefix,
    count,
    type,
    owners,
  }: { prefix: string; count: number; type: "ssr" | "ociimage"; owners?: readonly Account[] },
): Promise<{ id: string; slug: string }[]> {
  const { rows } = await pool.query<{ id: string; slug: string }>(
    `insert into project (owner_id, name, slug, type)
     select coalesce(($4::text[])[1 + n % nullif(cardinality($4::text[]), 0)]::uuid,
         (select id from auth."user" where role = 'admin' limit 1)),
       $1 || ' ' || n, $1 || '-' || n, $3
     from generate_series(0, $2::int - 1) as n returning id, slug`,
    [prefix, count, type, owners?.map(({ id }) => id) ?? []],
  );
  return rows;
}

/** Deployments of these projects, one each, with an image that needs no build; nobody carries them on. */
export async function createDeployments(
  { pool, platform }: Pick<Stand, "pool" | "platform">,
  projects: readonly { id: string; slug: string }[],
  {
    status,
    release = false,
    digest = noDigest,
  }: { status: "queued" | "deploying" | "running" | "superseded"; release?: boolean; digest?: string },
): Promise<App[]> {
  const { rows } = await pool.query<App>(
    `insert into deployment (project_id, channel, url, manifest, status, artifact_kind, artifact_repository,
       artifact_digest, artifact_size, artifact_os, artifact_architecture, release_status, phase_started_at, started_at)
     select id, 'production', 'http://' || slug || '.' || $3::text, $4::jsonb, $5, 'image', $9, $6, 1000000,
       'linux', $7, $8, now(), now()
     from unnest($1::uuid[], $2::text[]) as project (id, slug)
     returning project_id as "projectId", id as "deploymentId",
       substring(url from 'http://([^.]+)') as slug`,
    [
      projects.map(({ id }) => id),
      projects.map(({ slug }) => slug),
      platform.contentDomain,
      release ? jobManifest : imageManifest("registry.test/bench:1"),
      status,
      digest,
      process.arch === "x64" ? "amd64" : process.arch,
      release ? "pending" : "not_configured",
      repository,
    ],
  );
  return rows;
}

/** Something in the cluster's registry that deployments may have as their image; returns its digest. */
export async function pushImage({ platform }: Pick<Stand, "platform">): Promise<string> {
  const { host, pushToken } = platform.registry;
  const token = await pushToken(repository);
  await using registry = createRegistry(systemClock, {
    url: `http://${host}`,
    tokens: async () => ({ token, expiresInSeconds: 60 }),
  });
  const { digest } = await registry.pushArtifact(repository, { kind: "bundle", stream: Buffer.from("bench") });
  return digest;
}

/** Asks for one container of each in one transaction, and announces it as the product does. Returns their tasks' ids. */
export async function createTasks({ pool }: Pick<Stand, "pool">, apps: readonly App[]): Promise<string[]> {
  const client = await pool.connect();
  try {
    await client.query("begin");
    const { rows } = await client.query<{ id: string }>(
      `insert into task (project_id, owner_kind, owner_id, kind, channel, replica, spec, spec_hash, memory_mb, cpu_millicores,
         pids_limit)
       select project_id, 'deployment', id, 'serve', 'production', 0, $3::jsonb, 'bench', $4, $5, $6
       from unnest($1::uuid[], $2::uuid[]) as deployment (project_id, id) returning id`,
      [
        apps.map(({ projectId }) => projectId),
        apps.map(({ deploymentId }) => deploymentId),
        serveSpec,
        limits.memoryMb,
        limits.cpuMillicores,
        limits.pidsLimit,
      ],
    );
    await client.query("select pg_notify('svc_tasks', '')");
    await client.query("commit");
    return rows.map(({ id }) => id);
  } catch (error) {
    await client.query("rollback");
    throw error;
  } finally {
    client.release();
  }
}

/** A host for each of the projects, without anything to serve. Returns their names. */
export async function createHosts(
  { pool, platform }: Pick<Stand, "pool" | "platform">,
  projects: readonly { id: string; slug: string }[],
): Promise<string[]> {
  const { rows } = await pool.query<{ host: string }>(
    `insert into site_host (host, project_id, channel)
     select slug || '.' || $3::text, id, 'production' from unnest($1::uuid[], $2::text[]) as project (id, slug)
     returning host`,
    [projects.map(({ id }) => id), projects.map(({ slug }) => slug), platform.contentDomain],
  );
  return rows.map(({ host }) => host);
}

/** Lets visitors' hosts lead to the apps. */
export async function routeApps(stand: Pick<Stand, "pool" | "platform">, apps: readonly App[]): Promise<void> {
  await createHosts(
    stand,
    apps.map(({ projectId, slug }) => ({ id: projectId, slug })),
  );
  await stand.pool.query(
    `insert into channel_state (project_id, channel, deployment_id)
     select project_id, 'production', id from unnest($1::uuid[], $2::uuid[]) as app (project_id, id)`,
    [apps.map(({ projectId }) => projectId), apps.map(({ deploymentId }) => deploymentId)],
  );
  await stand.pool.query("select pg_notify('svc_routes', '')");
}

/** Asks for the end of all containers of these projects. */
export async function endTasks({ pool }: Pick<Stand, "pool">, projectIds: readonly string[]): Promise<void> {
  await pool.query("update task set desired = 'removed' where project_id = any($1::uuid[])", [projectIds]);
  await pool.query("select pg_notify('svc_tasks', '')");
}

/** Containers of these projects that are not known to be gone. */
export async function countOpenTasks({ pool }: Pick<Stand, "pool">, projectIds: readonly string[]): Promise<number> {
  const { rows } = await pool.query<{ count: string }>(
    "select count(*) as count from task where project_id = any($1::uuid[]) and reaped_at is null",
    [projectIds],
  );
  return Number(rows[0]?.count ?? 0);
}

/** Removes the projects with all their rows; what they ran has to be gone. */
export async function deleteProjects({ pool }: Pick<Stand, "pool">, projectIds: readonly string[]): Promise<void> {
  await pool.query("delete from task where project_id = any($1::uuid[])", [projectIds]);
  await pool.query("delete from channel_state where project_id = any($1::uuid[])", [projectIds]);
  await pool.query("delete from project where id = any($1::uuid[])", [projectIds]);
  await pool.query("select pg_notify('svc_routes', '')");
}
