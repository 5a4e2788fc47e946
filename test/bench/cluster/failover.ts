/**
 * Row 10: how long after its leader is gone a cluster of three control replicas and three members of etcd places
 * anything again. `benchFailover()` measures; run by itself (`node test/bench/cluster/failover.ts [kills] [freezes]`) this
 * file prints the samples as JSON.
 */
import { readFile } from "node:fs/promises";
import { cpus, loadavg } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import pg from "pg";
import { startCluster } from "../../cluster.ts";
import { controlReplicas, hasPlacement, liveReplicas, streamOwners } from "../../support/leaders.ts";
import { waitFor } from "../../support/wait-for.ts";
import { median } from "../table.ts";
import { countOpenTasks, createDeployments, createProjects, createTasks, endTasks } from "./apps.ts";
import { atMost, type Measurement } from "./measure.ts";

const agents = 2;
const daemons = agents + 1;
const placedMs = 60_000;
const calmMs = 120_000;
const pollMs = 10;

export interface FailoverOptions {
  /** How often the leader is killed, and how often it is stopped; 5 and 3 unless given. */
  kills?: number;
  freezes?: number;
  log?: (line: string) => void;
}

/** Seconds from the leader's end to the first placement by another one, one sample per event. */
export async function benchFailover(options: FailoverOptions = {}): Promise<Measurement[]> {
  const { kills = 5, freezes = 3, log = () => {} } = options;
  await using cluster = await startCluster({ ha: true, agents });
  const { platform } = cluster;
  const { layout, ports } = platform;
  const password = (await readFile(layout.secrets.databasePassword, "utf8")).trim();
  const pool = new pg.Pool({ host: "127.0.0.1", port: ports.postgres, user: "svc", database: "svc", password });
  const stand = { pool, platform };
  const projects = await createProjects(stand, { prefix: "failover", count: 1, type: "ociimage" });
  const projectIds = projects.map(({ id }) => id);

  /** Everybody is back: three replicas, and each stream at one of them. */
  const calm = () =>
    waitFor("the cluster to be whole", calmMs, async () => {
      const [live, owners] = await Promise.all([liveReplicas(cluster), streamOwners(cluster)]);
      return live.length === 3 && owners.length === daemons && owners.every((id) => live.includes(id));
    });

  /** Ends the leader by `signal`, asks for a container at once, and waits for its placement. */
  async function once(signal: "SIGKILL" | "SIGSTOP"): Promise<number> {
    await calm();
    const { leader } = await controlReplicas(cluster);
    const apps = await createDeployments(stand, projects, { status: "deploying", release: false });
    leader.kill(signal);
    const endedAt = performance.now();
    const [taskId = ""] = await createTasks(stand, apps);
    const giveUpAt = endedAt + placedMs;
    while (!(await hasPlacement(cluster, taskId))) {
      if (performance.now() > giveUpAt) throw new Error(`nothing was placed within ${placedMs / 1000} s`);
      await delay(pollMs);
    }
    const seconds = (performance.now() - endedAt) / 1000;
    leader.kill("SIGCONT");
    await leader.waitReady(calmMs);
    await endTasks(stand, projectIds);
    await waitFor("the container to be gone", calmMs, async () => (await countOpenTasks(stand, projectIds)) === 0);
    return seconds;
  }

  async function samplesOf(signal: "SIGKILL" | "SIGSTOP", count: number): Promise<number[]> {
    const samples: number[] = [];
    for (let at = 0; at < count; at += 1) {
      const seconds = await once(signal);
      samples.push(seconds);
      log(`${signal} ${at + 1} of ${count}: ${seconds.toFixed(2)} s`);
    }
    return samples;
  }

  try {
    const about = { row: 10, unit: "s", per: "event", note: null } as const;
    const killed = await samplesOf("SIGKILL", kills);
    const frozen = await samplesOf("SIGSTOP", freezes);
    return [
      { ...about, metric: "leader killed to first new placement", samples: killed, aim: atMost(8, "s", "median") },
      { ...about, metric: "leader frozen to first new placement", samples: frozen, aim: atMost(16, "s", "median") },
    ];
  } finally {
    await pool.end();
  }
}

if (import.meta.main) {
  const { positionals } = parseArgs({ allowPositionals: true });
  const [kills = 5, freezes = 3] = positionals.map(Number);
  const loadAtStart = loadavg();
  const measured = await benchFailover({ kills, freezes, log: console.error });
  const machine = { cores: cpus().length, loadAtStart, loadAtEnd: loadavg() };
  const results = measured.map((each) => ({ ...each, aim: each.aim?.text, median: median(each.samples) }));
  console.log(JSON.stringify({ machine, results }, null, 2));
}
