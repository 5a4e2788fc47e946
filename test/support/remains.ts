import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import type { Cluster } from "../cluster.ts";
import { connectPlatformDatabase } from "./platform-database.ts";

/** Everything that a cluster keeps on behalf of projects, in every place where it keeps anything, by name. */
export interface Remains {
  containers: string[];
  networks: string[];
  /** Names of images, by tag and by digest. */
  images: string[];
  /** Bundles of the edge. */
  bundles: string[];
  /** Manifests in the registry, tagged or not. */
  manifests: string[];
  etcd: string[];
  /** `table: number of rows`. */
  rows: string[];
}

/** Not of projects: accounts, fleet, and the queue's and the API's own memory, which ends by itself. */
const tablesAside = new Set([
  ...["plan", "account", "api_token", "cluster", "leader_fence", "node", "bootstrap_token", "schema_migration"],
  ...["work_item", "log_query", "log_reply", "idempotency"],
  // What is counted against the hour's limit must not be given back by deleting a project.
  "accepted_deploy",
  // Tells what was done, and by whom.
  "audit",
  // Tells what became of machines.
  "node_event",
  // What counts against the month's limit, once an edge reports it, and what each edge reported last.
  ...["traffic_month", "traffic_batch"],
  // What all projects got together, those that are gone included.
  "traffic_total_hour",
  // Of days, the same for all projects.
  "analytics_salt",
]);
const etcdPrefixes = ["/svc/placements/", "/svc/observations/", "/svc/runs/", "/svc/routes/table/"];

export async function readRemains(cluster: Cluster): Promise<Remains> {
  const { docker, clusterId, registry, layout } = cluster.platform;
  const filters = { label: [`svc.cluster=${clusterId}`] };
  const [containers, networks, images, bundles, manifests, etcd, rows] = await Promise.all([
    docker.listContainers({ all: true, filters }),
    docker.listNetworks({ filters }),
    docker.listImages(),
    readdir(join(layout.router, "bundles")),
    manifestsIn(join(layout.registry, "data", "docker", "registry", "v2", "repositories")),
    etcdKeys(cluster),
    countRows(cluster),
  ]);
  const ours = (name: string) => name.startsWith(`${registry.host}/svc/`);
  return {
    containers: containers.map(({ Names, State }) => `${Names.join()} ${State}`).sort(),
    networks: networks.map(({ Name }) => Name).sort(),
    images: images
      .flatMap(({ RepoTags, RepoDigests }) => [...(RepoTags ?? []), ...(RepoDigests ?? [])].filter(ours))
      .sort(),
    bundles: bundles.filter((name) => !name.startsWith(".")).sort(),
    manifests,
    etcd,
    rows,
  };
}

/** What there is more of now, and what is missing, by name. */
export function differences(before: Remains, now: Remains): string[] {
  const kinds = Object.keys(now) as (keyof Remains)[];
  const notIn = (less: Remains, more: Remains) =>
    kinds.flatMap((kind) => more[kind].filter((name) => !less[kind].includes(name)).map((name) => `${kind}: ${name}`));
  return [
    ...notIn(before, now).map((name) => `${name} is more`),
    ...notIn(now, before).map((name) => `${name} is missing`),
  ];
}

/** The registry's interface tells of tagged manifests only, so its files are looked at. */
async function manifestsIn(repositories: string): Promise<string[]> {
  const files = await readdir(repositories, { recursive: true }).catch(() => []);
  return files.filter((file) => /_manifests\/revisions\/sha256\/[0-9a-f]{64}\/link$/.test(file)).sort();
}

const range = z.object({ kvs: z.array(z.object({ key: z.string() })).default([]) });

async function etcdKeys({ platform }: Cluster): Promise<string[]> {
  const found = await Promise.all(
    etcdPrefixes.map(async (prefix) => {
      const end = `${prefix.slice(0, -1)}0`;
      const reply = await fetch(`http://127.0.0.1:${platform.ports.etcd}/v3/kv/range`, {
        method: "POST",
        body: JSON.stringify({ key: btoa(prefix), range_end: btoa(end), keys_only: true }),
        signal: AbortSignal.timeout(5_000),
      });
      return range.parse(await reply.json()).kvs.map(({ key }) => atob(key));
    }),
  );
  return found.flat().sort();
}

async function countRows({ platform }: Cluster): Promise<string[]> {
  await using client = await connectPlatformDatabase(platform);
  const { rows: tables } = await client.query<{ name: string }>(
    "select table_name as name from information_schema.tables where table_schema = 'public' order by 1",
  );
  const counts: string[] = [];
  for (const { name } of tables) {
    if (tablesAside.has(name)) continue;
    const { rows } = await client.query<{ count: string }>(`select count(*) from ${client.escapeIdentifier(name)}`);
    counts.push(`${name}: ${rows[0]?.count}`);
  }
  return counts;
}
