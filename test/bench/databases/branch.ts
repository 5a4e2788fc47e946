import { performance } from "node:perf_hooks";
import { setTimeout as delay } from "node:timers/promises";
import type { DatabaseEngine } from "@svc/proto";
import type Docker from "dockerode";
import pg from "pg";
import type { Cluster } from "../../cluster.ts";
import { succeeded, takePlan } from "../../support/api.ts";
import { waitFor } from "../../support/wait-for.ts";
import { project } from "../deploys.ts";

const readyMs = 120_000;
const goneMs = 300_000;
const pollMs = 10;

export interface Branch {
  projectId: string;
  databaseId: string;
  /** Of the path and query of its routes. */
  channel: string;
  engine: DatabaseEngine;
}

/** The account gets a plan that so many databases, of any size that is measured, and their backups fit into. */
export async function makeRoom(cluster: Cluster): Promise<void> {
  const plan = { slug: "databases", name: "Databases", maxProjects: 1_000, maxDatabases: 1_000, maxBackups: 1_000 };
  await succeeded(cluster, "POST", "/admin/plans", { ...plan, dbSizeMb: 1_024, dbConnectionLimit: 20 });
  await takePlan(cluster, plan.slug);
}

/** A new project without anything. */
export const emptyProject = async (cluster: Cluster): Promise<string> =>
  (await project(cluster, "Bench database", "ssr")).id;

/** Asks for the branch of a channel and polls until it is ready; how long that took since the request was sent, in ms. */
export async function makeBranch(
  cluster: Cluster,
  projectId: string,
  { engine, channel = "production" }: { engine: DatabaseEngine; channel?: string },
): Promise<Branch & { tookMs: number }> {
  const path = `/projects/${projectId}/database?channel=${channel}`;
  const from = performance.now();
  const { databaseId } = (await succeeded(cluster, "POST", path, { engine })) as { databaseId: string };
  for (;;) {
    const { status, reason } = (await succeeded(cluster, "GET", path)) as { status: string; reason: string | null };
    const tookMs = performance.now() - from;
    if (status === "ready") return { projectId, databaseId, channel, engine, tookMs };
    if (status !== "provisioning" || tookMs > readyMs) throw new Error(`${path} is ${status}: ${reason}`);
    await delay(pollMs);
  }
}

/** Deletes the project, and waits for the end of its servers: what ends beside a measurement takes from it. */
export async function dropProject(cluster: Cluster, projectId: string): Promise<void> {
  await succeeded(cluster, "DELETE", `/projects/${projectId}`);
  await waitFor(`the servers of ${projectId} to end`, goneMs, async () =>
    (await cluster.containers()).every(({ labels }) => labels["svc.project"] !== projectId),
  );
}

/** The container of its server. */
export async function serverOf(cluster: Cluster, { databaseId }: Branch): Promise<Docker.Container> {
  const found = (await cluster.containers()).find(
    ({ labels, state }) => labels["svc.database"] === databaseId && state === "running",
  );
  if (found === undefined) throw new Error(`${databaseId} has no server`);
  return cluster.platform.docker.getContainer(found.id);
}

/** Where its server listens, on this machine. */
export async function socketDirOf(cluster: Cluster, branch: Branch): Promise<string> {
  const { Mounts } = await (await serverOf(cluster, branch)).inspect();
  const mount = Mounts.find(({ Destination }) => Destination === "/socket");
  if (mount === undefined) throw new Error(`${branch.databaseId} has no socket`);
  return mount.Source;
}

export interface Login {
  user: string;
  password: string;
  database: string;
}

/** What its owner logs in with. */
export async function loginOf(cluster: Cluster, { projectId, channel }: Branch): Promise<Login> {
  const path = `/projects/${projectId}/database/dev-credentials?channel=${channel}`;
  const { databaseUrl } = (await succeeded(cluster, "POST", path)) as { databaseUrl: string };
  const { username: user, password, pathname } = new URL(databaseUrl);
  return { user, password, database: pathname.slice(1) };
}

/** Whether Postgres lets the login in; throws when the answer is neither. */
export async function isLetIn(host: string, login: Login): Promise<boolean> {
  const client = new pg.Client({ host, ...login });
  client.on("error", () => {});
  try {
    await client.connect();
    return true;
  } catch (error) {
    if (error instanceof pg.DatabaseError && error.code === "28P01") return false;
    throw error;
  } finally {
    await client.end().catch(() => {});
  }
}
