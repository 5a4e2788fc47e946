import { once } from "node:events";
import { mkdir } from "node:fs/promises";
import { cpus, loadavg, totalmem } from "node:os";
import { join } from "node:path";
import { nodeBinary, repositoryRoot } from "@svc/deploy/paths";
import { spawnProgram } from "@svc/runtime/programs";
import { startCluster } from "../cluster.ts";
import { streamsOverForeignDeploys } from "../support/streams.ts";
import { authenticatedReads } from "./auth.ts";
import { bareStatic } from "./bare-static.ts";
import { startsOfCli } from "./cli.ts";
import { consoleStatements } from "./console.ts";
import { bareCrashes, crashes } from "./crashes.ts";
import { databases } from "./databases/all.ts";
import { databasesProxy } from "./databases/proxy.ts";
import { databasesReadOnly } from "./databases/read-only.ts";
import { bareContainers, imageDeploys, memoryAtRest, serverDeploys, staticDeploys, writeReport } from "./deploys.ts";
import { developing } from "./dev.ts";
import { domainsServed } from "./domains.ts";
import { clockOfJobs } from "./jobs.ts";
import { jobsLive } from "./jobs-live.ts";
import { longRequests } from "./long-requests.ts";
import { figuresOfYears } from "./metrics.ts";
import { readsOfOne } from "./reads.ts";
import { realtimeStreams } from "./realtime.ts";
import { median, type Row, renderTable } from "./table.ts";
import { firstDeploysTogether } from "./together.ts";

// These need no platform: of the edge, `npm run bench -- edge`, `-- edge-changes`, `-- edges`, `-- analytics`,
// `-- certificates`, `-- edge-node`; `-- scale` is what a cluster costs as it grows.
const alone = new Map([
  ["edge", "router/src/testing/bench.ts"],
  ["edge-changes", "router/src/testing/bench-changes.ts"],
  ["edges", "router/src/testing/bench-edges.ts"],
  ["analytics", "router/src/testing/bench-analytics.ts"],
  ["certificates", "router/src/testing/bench-certificates.ts"],
  ["edge-node", "test/bench/edge-node.ts"],
  ["scale", "test/bench/scale.ts"],
]).get(process.argv[2] ?? "");
if (alone !== undefined) {
  const bench = join(repositoryRoot, alone);
  const measuring = spawnProgram([nodeBinary(), bench, ...process.argv.slice(3)], { stdio: "inherit" });
  const [status] = await once(measuring, "exit");
  process.exit(status ?? 1);
}

// Requests of half a minute while their app is redeployed; some minutes: `npm run bench -- drain`.
if (process.argv[2] === "drain") process.exit((await longRequestsAreKept()) ? 0 : 1);

// Streams of one app while other sites are deployed a hundred times; some minutes: `npm run bench -- streams`.
if (process.argv[2] === "streams") process.exit((await streamsAreKept()) ? 0 : 1);

/** Runs of each measurement; the first deployment of a project warms up and is not counted. */
const times = Number(process.env["BENCH_TIMES"] ?? 5);
/** Starts of the command line are short, and a busy machine's medians need more of them. */
const startsOfCliTimes = 4 * times;
const loadAtStart = loadavg();
const rows: Row[] = [];
// `npm run bench -- auth` measures the API's choke point alone, `-- together` many first deploys at once,
// `-- cli` how fast the command line starts, `-- dev` what `svc dev` adds and what watching takes, `-- jobs` the clock of scheduled jobs,
// `-- jobs-live [1000]` how late jobs start on three nodes, and so many at once, some ten minutes; `-- console` SQL, `-- metrics` figures of two years, `-- domains` domains until
// they have certificates, `-- realtime` streams of `@svc/realtime`, `-- databases-proxy` what the database proxy adds to a
// query, `-- databases` all of managed databases.
const only = process.argv[2] ?? null;

if (only === "together") {
  await using cluster = await startCluster({ agents: 3 });
  rows.push(...(await firstDeploysTogether(cluster, times)));
} else if (only === "console") {
  rows.push(...(await consoleStatements()));
} else if (only === "cli") {
  rows.push(...(await startsOfCli(startsOfCliTimes)));
} else if (only === "dev") {
  rows.push(...(await developing(times)));
} else if (only === "metrics") {
  rows.push(...(await figuresOfYears()));
} else if (only === "jobs") {
  rows.push(...(await clockOfJobs()));
} else if (only === "jobs-live") {
  await using cluster = await startCluster({ agents: 3, ha: true });
  rows.push(...(await jobsLive(cluster, Number(process.argv[3] ?? 1_000))));
} else if (only === "domains") {
  await using cluster = await startCluster({ agents: 1, acme: true });
  rows.push(...(await domainsServed(cluster, times)));
} else if (only === "realtime") {
  rows.push(...(await realtimeStreams(times)));
} else if (only === "databases-proxy") {
  rows.push(...(await databasesProxy(times)));
} else if (only === "databases") {
  rows.push(...(await databases(times)));
} else if (only === "auth" || only === null) {
  rows.push(...(await authenticatedReads(times)), ...(await readsOfOne(times)));
} else {
  console.error(`There is no benchmark "${only}": see the table in CONTRIBUTING.md.`);
  process.exit(2);
}
if (only === null) {
  rows.push(...(await consoleStatements()));
  rows.unshift(...(await startsOfCli(startsOfCliTimes)));
  await using cluster = await startCluster({ agents: 3 });
  const memory = await memoryAtRest(cluster);
  for (const [name, limitMb] of [
    ["control", 200],
    ["agent", 110],
    ["router", 110],
  ] as const) {
    const aim = { text: `<= ${limitMb} MB`, met: (value: number) => value <= limitMb };
    rows.push({ name: `memory of ${name} at rest`, unit: "MB", samples: memory[name], floor: null, aim });
  }
  const statics = await staticDeploys(cluster, times);
  rows.unshift({
    name: "static deploy, accepted to served",
    unit: "ms",
    samples: statics,
    floor: { name: "copy + Caddy reload", samples: await bareStatic(times) },
    aim: { text: "<= 1 s", met: (value) => value <= 1_000 },
  });
  const images = await imageDeploys(cluster, times);
  const floor = { name: "docker run until healthy", samples: await bareContainers(cluster, times) };
  rows.unshift(
    {
      name: "image deploy, accepted to served",
      unit: "ms",
      samples: images,
      floor,
      aim: { text: "<= floor + 1.5 s", met: (value, bare) => value <= bare + 1_500 },
    },
    {
      name: "server deploy with build and release",
      unit: "ms",
      samples: await serverDeploys(cluster, times),
      floor,
      aim: null,
    },
    ...(await firstDeploysTogether(cluster, times)),
    ...(await databasesProxy(times)),
    ...(await databasesReadOnly(cluster, times)),
    {
      name: "a container that was killed answers again",
      unit: "ms",
      samples: await crashes(cluster, times),
      floor: { name: "docker run --restart always", samples: await bareCrashes(cluster, times) },
      aim: { text: "<= floor + 0.3 s", met: (value, bare) => value <= bare + 300 },
    },
  );
}

const dir = join(repositoryRoot, ".svc-local");
await mkdir(dir, { recursive: true });
const file = join(dir, only === null ? "bench.json" : `bench-${only}.json`);
const machine = {
  cores: cpus().length,
  memoryGb: Math.round(totalmem() / 1024 ** 3),
  loadAtStart,
  loadAtEnd: loadavg(),
};
await writeReport(file, rows, { at: new Date().toISOString(), machine, times });
console.log(`\n${renderTable(rows)}\n`);
console.log(
  `${machine.cores} cores, load average ${loadAtStart[0]?.toFixed(2)} at the start, ${machine.loadAtEnd[0]?.toFixed(2)} at the end; samples in ${file}`,
);

async function longRequestsAreKept(): Promise<boolean> {
  await using cluster = await startCluster({ agents: 3 });
  const { sent, lost, deployMs } = await longRequests(cluster);
  const deploys = `${deployMs.length} redeploys (median ${Math.round(median(deployMs))} ms)`;
  console.log(`${sent} requests of 30 s over ${deploys}: ${lost.length} lost`);
  for (const each of lost.slice(0, 20)) console.log(`  ${each}`);
  return lost.length === 0;
}

async function streamsAreKept(): Promise<boolean> {
  await using cluster = await startCluster({ agents: 1 });
  const streams = 100;
  const { cut, deployMs } = await streamsOverForeignDeploys(cluster, { streams, deploys: 100 });
  const deploys = `${deployMs.length} deploys of other sites (median ${Math.round(median(deployMs))} ms)`;
  console.log(`${streams} streams over ${deploys}: ${cut.length} cut`);
  for (const each of cut.slice(0, 20)) console.log(`  ${each}`);
  return cut.length === 0;
}
