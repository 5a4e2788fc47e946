import { performance } from "node:perf_hooks";
import { sleep } from "@svc/runtime/sleep";
import { systemClock } from "@svc/runtime/system";
import { z } from "zod";
import type { Cluster } from "../cluster.ts";
import { succeeded } from "../support/api.ts";
import { controlReplicas } from "../support/leaders.ts";
import { connectPlatformDatabase } from "../support/platform-database.ts";
import { postSource, running } from "../support/source.ts";
import { waitFor } from "../support/wait-for.ts";
import { closedLoop, type LoopResult } from "./closed-loop.ts";
import type { Row } from "./table.ts";

type Database = Awaited<ReturnType<typeof connectPlatformDatabase>>;

/** As many as a manifest may have. */
const jobsEach = 50;
const singles = 60;
const atKill = 20;
const patienceMs = 1_200_000;
const command = "true";
const calmMs = 20_000;

/**
 * Scheduled jobs on three nodes and three replicas of control: how late containers start, one at a time and when the leader is killed just
 * before; and `storm` that are due at one instant, beside a site that serves. By the instants of Postgres, which are the clock's.
 */
export async function jobsLive(cluster: Cluster, storm: number): Promise<Row[]> {
  await using database = await connectPlatformDatabase(cluster.platform);
  await database.query(
    "update plan set max_projects = 1000, max_scheduled_jobs = 10000, max_deploys_per_hour = 10000, memory_mb = 128",
  );
  const apps = Math.max(2, Math.ceil(storm / jobsEach));
  let url = "";
  for (let at = 0; at < apps; at += 1) url = await deploy(cluster, at);
  const jobs = (await database.query<{ id: string }>("select id from job order by name, id")).rows.map(({ id }) => id);

  const one = await fire(database, jobs.slice(0, singles), (at) => 3_000 + at * 1_000);
  const { leader } = await controlReplicas(cluster);
  const killed = fire(
    database,
    jobs.slice(0, atKill),
    () => 6_000,
    async (dueInMs) => {
      await sleep(systemClock, dueInMs - 100);
      await leader.stop("SIGKILL");
    },
  );
  const afterKill = await killed;
  await leader.start();

  const calm = await visit(url, calmMs);
  const stormy: LoopResult[] = [];
  const from = performance.now();
  let isOver = false;
  const visits = (async () => {
    while (!isOver) stormy.push(await visit(url, 5_000));
  })();
  const all = await fire(database, jobs.slice(0, storm), () => 3_000).finally(() => {
    isOver = true;
  });
  const stormMs = performance.now() - from;
  await visits;

  const floor = { name: "create + start by hand", samples: await byHand(cluster, database) };
  const within = (ms: number) => ({ text: `<= ${ms} ms`, met: (value: number) => value <= ms });
  const row = (name: string, samples: number[], aim: Row["aim"] = null): Row => ({
    name,
    unit: "ms",
    samples,
    floor,
    aim,
  });
  const p99 = (samples: readonly number[]) => [quantile(samples, 0.99)];
  return [
    row(`a job's instant to its command's start, ${one.length} one after the other`, one, within(300)),
    row("- p99", p99(one), within(1_500)),
    row(`- ${atKill} at once, the leader killed 0.1 s before`, afterKill),
    row(`- ${all.length} at once`, all),
    { ...row(`${all.length} jobs at once, until the last has ended`, [stormMs]), floor: null },
    {
      name: "- a request to a site meanwhile, p99",
      unit: "ms",
      samples: stormy.map((each) => each.p99),
      floor: { name: "before", samples: [calm.p99] },
      aim: null,
    },
  ];
}

const created = z.looseObject({ project: z.looseObject({ id: z.string() }) });

/** Resolves with the address of an app with as many jobs as there may be; none of them is due by itself. */
async function deploy(cluster: Cluster, at: number): Promise<string> {
  const name = `Bench jobs ${at}`;
  const { project } = created.parse(await succeeded(cluster, "POST", "/projects", { name, type: "ssr" }));
  const jobs = Array.from({ length: jobsEach }, (_, n) => ({ name: `job-${n}`, schedule: "0 0 1 1 *", command }));
  const { id, url } = await postSource(cluster, {
    projectId: project.id,
    manifest: { version: 2, app: { name, type: "ssr" }, start: { command: "node index.js" }, jobs },
    files: {
      "package.json": "{}",
      "index.js": 'require("node:http").createServer((_, reply) => reply.end("up")).listen(process.env.PORT);\n',
    },
  });
  await running(cluster, id);
  return url;
}

/**
 * Makes each of `jobs` due at an instant of its own, and waits until all that this began has ended. By how much each command started late. Throws
 * unless each job began exactly one run, with one attempt, which succeeded.
 */
async function fire(
  database: Database,
  jobs: readonly string[],
  inMs: (at: number) => number,
  meanwhile: (dueInMs: number) => Promise<void> = async () => {},
): Promise<number[]> {
  const { rows: before } = await database.query<{ last: string | null }>("select max(number) as last from job_run");
  const last = before[0]?.last ?? 0;
  await database.query(
    `update job set next_fire_at = clock_timestamp() + due.ms * interval '1 ms'
     from unnest($1::uuid[], $2::float8[]) as due (id, ms) where due.id = job.id`,
    [jobs, jobs.map((_, at) => inMs(at))],
  );
  await database.query("select pg_notify('svc_jobs', '')");
  await meanwhile(inMs(0));
  const rows = await waitFor("all runs to end", patienceMs, async () => {
    const { rows: found } = await database.query<{ job_id: string; status: string; late: number | null }>(
      `select job_run.job_id, job_run.status, (extract(epoch from run.started_at - job_run.fire_at) * 1000)::float8 as late
       from job_run left join run on run.owner_id = job_run.id and run.owner_kind = 'job'
       where job_run.number > $1`,
      [last],
    );
    return found.length >= jobs.length && found.every(({ status }) => ended.has(status)) && found;
  });
  const wrong = rows.filter(({ status }) => status !== "succeeded");
  if (rows.length !== jobs.length || wrong.length > 0 || new Set(rows.map((row) => row.job_id)).size !== jobs.length)
    throw new Error(`${rows.length} attempts for ${jobs.length} jobs, of which ${wrong.length} did not succeed`);
  return rows.map(({ late }) => late ?? Number.NaN);
}

const ended: ReadonlySet<string> = new Set(["succeeded", "failed", "timed_out", "canceled", "skipped"]);

function visit(url: string, durationMs: number): Promise<LoopResult> {
  const { hostname, host, port } = new URL(url);
  const text = `GET / HTTP/1.1\r\nhost: ${host}\r\n\r\n`;
  if (!hostname.endsWith(".localhost")) throw new Error(`${hostname} does not lead here`);
  return closedLoop({ host: "127.0.0.1", port: Number(port), requests: [text], durationMs });
}

/** The same image and command by hand. */
async function byHand({ platform: { docker } }: Cluster, database: Database): Promise<number[]> {
  const { rows } = await database.query<{ digest: string }>(
    "select artifact_digest as digest from deployment where status = 'running' and artifact_kind = 'image' limit 1",
  );
  const image = (await docker.listImages({ digests: true })).find(({ RepoDigests }) =>
    RepoDigests?.some((each) => each.endsWith(`@${rows[0]?.digest}`)),
  );
  if (image === undefined) throw new Error("the engine does not have the app's image");
  const samples: number[] = [];
  for (let round = 0; round < 20; round += 1) {
    const from = performance.now();
    const container = await docker.createContainer({ Image: image.Id, Entrypoint: ["/bin/sh", "-c", command] });
    try {
      await container.start();
      samples.push(performance.now() - from);
    } finally {
      await container.remove({ force: true });
    }
  }
  return samples;
}

const quantile = (samples: readonly number[], share: number): number =>
  [...samples].sort((a, b) => a - b)[Math.min(samples.length - 1, Math.floor(samples.length * share))] ?? Number.NaN;
