import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type DatabaseEngine, databaseHost } from "@svc/proto";
import { z } from "zod";
import { deploy } from "../../support/deploy.ts";
import { groupName, processesIn } from "../../support/host.ts";
import { waitFor } from "../../support/wait-for.ts";
import type { Fleet } from "./fleet.ts";
import { sendSignal } from "./inside.ts";
import { act, type Placed } from "./sites.ts";

/** A project whose production channel has a database, and an app that was told of it. */
export interface DatabaseApp extends AsyncDisposable {
  engine: DatabaseEngine;
  slug: string;
  projectId: string;
  /** What writers note. On no machine of the fleet. */
  dir: string;
  /** What is deployed. */
  source: string;
}

const foundMs = 60_000;
const coveredMs = 300_000;

const listed = z.looseObject({ databases: z.array(z.looseObject({ id: z.string(), projectId: z.string() })) });
const shown = z.looseObject({
  database: z.looseObject({ copies: z.array(z.looseObject({ coveredAt: z.string().nullable() })) }),
});

/** Deploys an app that only answers. It needs no package: machines of fault tests reach no registry of packages. */
export async function deployDatabaseApp(fleet: Fleet, engine: DatabaseEngine, name = "ledger"): Promise<DatabaseApp> {
  const slug = `${name}-${engine}`;
  const dir = await mkdtemp(join(tmpdir(), "svc-fault-database-"));
  const source = join(dir, "source");
  await mkdir(source);
  const files = {
    "svc.yml": `version: 2
slug: ${slug}
app: { name: Ledger, type: ssr, port: 3000 }
start: { command: node server.js }
health: { path: /health }
database: { enabled: true, engine: ${engine} }
`,
    "package.json": JSON.stringify({ name: "ledger", version: "1.0.0", private: true, type: "module" }),
    "package-lock.json": JSON.stringify({
      ...{ name: "ledger", version: "1.0.0", lockfileVersion: 3, requires: true },
      packages: { "": { name: "ledger", version: "1.0.0" } },
    }),
    "server.js": `import http from "node:http";
      http.createServer((_, response) => response.end("well")).listen(process.env.PORT);`,
  };
  for (const [name, text] of Object.entries(files)) await writeFile(join(source, name), text);
  const { project } = await deploy(fleet, source);
  return {
    ...{ engine, slug, dir, source, projectId: project.id },
    [Symbol.asyncDispose]: () => rm(dir, { recursive: true, force: true }),
  };
}

/** Containers of the project of one kind, on every machine that answers. */
async function placed(
  fleet: Fleet,
  { projectId }: DatabaseApp,
  kind: "serve" | "database" | "keeper",
): Promise<Placed[]> {
  const reachable = fleet.nodes.filter(({ machine }) => machine.on && machine.engine?.running === true);
  const found = await Promise.all(
    reachable.map(async (node) => (await node.containers()).map((container) => ({ ...container, node }))),
  );
  return found.flat().filter((container) => container.project === projectId && container.kind === kind);
}

/** Every container of the database's server, whatever its state. */
export const serversOf = (fleet: Fleet, app: DatabaseApp): Promise<Placed[]> => placed(fleet, app, "database");

/** The one container of the server that runs; waits for one. */
export const serverOf = (fleet: Fleet, app: DatabaseApp): Promise<Placed> =>
  waitFor("a server that runs", foundMs, async () => {
    const running = (await serversOf(fleet, app)).filter(({ state }) => state === "running");
    if (running.length > 1) throw new Error(`there are ${running.length} servers`);
    return running[0];
  });

/** The keeper of the database's copy; waits for one that runs. */
export const keeperOf = (fleet: Fleet, app: DatabaseApp): Promise<Placed> =>
  waitFor("a keeper that runs", coveredMs, async () =>
    (await placed(fleet, app, "keeper")).find(({ state }) => state === "running"),
  );

export async function databaseIdOf(fleet: Fleet, { projectId }: DatabaseApp): Promise<string> {
  const { databases } = listed.parse((await fleet.api("GET", "/admin/databases")).body);
  const found = databases.find((each) => each.projectId === projectId);
  if (found === undefined) throw new Error("the project has no database");
  return found.id;
}

/** Waits for a copy that covers everything up to `sinceMs`, in milliseconds since 1970. */
export const covers = (fleet: Fleet, app: DatabaseApp, sinceMs: number): Promise<unknown> =>
  waitFor("a copy that covers what was written", coveredMs, async () => {
    const id = await databaseIdOf(fleet, app);
    const { database } = shown.parse((await fleet.api("GET", `/admin/databases/${id}`)).body);
    return database.copies.some(({ coveredAt }) => coveredAt !== null && Date.parse(coveredAt) > sinceMs);
  });

/** Sends a signal to every process of the server. */
export async function signalServer({ node, id }: Placed, signal: NodeJS.Signals): Promise<void> {
  for (const pid of await processesIn(groupName(node.machine.number), id)) sendSignal(pid, signal);
}

/** Where the app runs, its network by the number of its first process, and what it was told of its database. */
export const appOf = (fleet: Fleet, app: DatabaseApp) =>
  waitFor("the app to run", foundMs, async () => {
    const [serving] = (await placed(fleet, app, "serve")).filter(({ state }) => state === "running");
    if (serving === undefined) return null;
    const { State, Config, HostConfig } = await serving.node.machine.docker.getContainer(serving.id).inspect();
    const told = Config.Env.find((line) => line.startsWith("DATABASE_URL="))?.slice("DATABASE_URL=".length);
    const names: readonly string[] = HostConfig.ExtraHosts ?? [];
    const databaseAt = names.find((line) => line.startsWith(`${databaseHost}:`))?.slice(databaseHost.length + 1);
    if (told === undefined || databaseAt === undefined) throw new Error("it was told of no database");
    return { node: serving.node, pid: State.Pid, url: told, databaseAt };
  });

/** When the server's process was started: the same one while this stays. */
export async function serverSince(fleet: Fleet, app: DatabaseApp): Promise<string> {
  const { node, id } = await serverOf(fleet, app);
  const { State } = await node.machine.docker.getContainer(id).inspect();
  return `${id} ${State.StartedAt}`;
}

/** Sees to it that the app runs on another node than its database. */
export async function setApart(fleet: Fleet, app: DatabaseApp): Promise<void> {
  const { node } = await serverOf(fleet, app);
  if ((await appOf(fleet, app)).node !== node) return;
  await act(fleet, node, "cordon");
  await deploy(fleet, app.source);
  await act(fleet, node, "uncordon");
  await waitFor("the app to be elsewhere", foundMs, async () => (await appOf(fleet, app)).node !== node);
}
