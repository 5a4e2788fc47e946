import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { environmentOf } from "@svc/deploy/environment";
import { nodeBinary, repositoryRoot } from "@svc/deploy/paths";
import { type JobRunReply, jobRunsReply, jobsReply, limits } from "@svc/proto";
import { argv } from "@svc/runtime/programs";
import { rolldown } from "rolldown";
import { z } from "zod";
import type { ClusterClient } from "../../cluster.ts";
import { deploy } from "../../support/deploy.ts";
import { waitFor } from "../../support/wait-for.ts";
import { appOf, type DatabaseApp } from "./databases.ts";
import type { Fleet } from "./fleet.ts";
import type { Start } from "./starts.ts";

/** A project with a database in which every attempt at a run of one of its jobs notes that it was started. */
export interface JobApp extends DatabaseApp {
  /** Jobs that are due each minute. */
  ticks: readonly string[];
  /** Jobs that only somebody who asks for it begins, by name. */
  bulk: ReadonlyMap<string, string>;
  /** Deploys it as something new. */
  redeploy(): Promise<void>;
}

const program = join(repositoryRoot, "test", "faults", "support", "start-program.ts");
const readMs = 120_000;

/** Works for 0 to 3 seconds; every third fails once or twice first, and every fourth may be tried again for other reasons. */
const jobOf = (name: string, index: number, schedule: string) => ({
  ...{
    name,
    schedule,
    overlap: index % 2 === 0 ? "skip" : "queue",
    retries: index % 3 === 0 ? 2 : index % 4 === 0 ? 1 : 0,
  },
  ...{ timeoutSeconds: 120, command: `exec node start.js note ${index % 4} ${index % 3 === 0 ? 1 + (index % 2) : 0}` },
});

const named = (name: string, count: number) => Array.from({ length: count }, (_, index) => `${name}-${index + 1}`);

export async function deployJobApp(fleet: Fleet, size: { ticks: number; bulk: number }): Promise<JobApp> {
  const dir = await mkdtemp(join(tmpdir(), "svc-fault-jobs-"));
  const source = join(dir, "source");
  await mkdir(source);
  const [ticks, bulk] = [named("tick", size.ticks), named("bulk", size.bulk)];
  const manifest = {
    ...{ version: 2, slug: "with-jobs", app: { name: "With jobs", type: "ssr", port: 3000 } },
    ...{ start: { command: "node server.js" }, release: { command: "node start.js make" } },
    database: { enabled: true, engine: "postgres" },
    jobs: [
      ...ticks.map((name, index) => jobOf(name, index, "* * * * *")),
      ...bulk.map((name, index) => jobOf(name, index, "0 0 1 1 *")),
    ],
  };
  const lock = { name: "with-jobs", version: "1.0.0", lockfileVersion: 3, requires: true };
  const files = {
    // JSON is YAML.
    "svc.yml": JSON.stringify(manifest),
    "package.json": JSON.stringify({ name: "with-jobs", version: "1.0.0", private: true, type: "module" }),
    "package-lock.json": JSON.stringify({ ...lock, packages: { "": { name: "with-jobs", version: "1.0.0" } } }),
    "server.js": `import http from "node:http";
      http.createServer((_, response) => response.end("well")).listen(process.env.PORT);`,
  };
  for (const [name, text] of Object.entries(files)) await writeFile(join(source, name), text);
  // Machines of fault tests reach no registry of packages.
  const bundle = await rolldown({ input: program, platform: "node", logLevel: "silent" });
  await bundle.write({ file: join(source, "start.js"), format: "esm", codeSplitting: false });
  await bundle.close();
  let editions = 0;
  const redeploy = async () => {
    editions += 1;
    await writeFile(join(source, "edition"), String(editions));
    return deploy(fleet, source);
  };
  const { project } = await redeploy();
  const { jobs } = jobsReply.parse((await fleet.api("GET", `/projects/${project.id}/jobs`)).body);
  return {
    ...{ engine: "postgres", slug: "with-jobs", dir, source, projectId: project.id, ticks },
    bulk: new Map(jobs.filter(({ name }) => bulk.includes(name)).map(({ name, id }) => [name, id])),
    async redeploy() {
      await redeploy();
    },
    [Symbol.asyncDispose]: () => rm(dir, { recursive: true, force: true }),
  };
}

/** All that control tells of its runs. */
export async function runsOf({ api }: ClusterClient, { projectId }: JobApp): Promise<JobRunReply[]> {
  const runs: JobRunReply[] = [];
  for (let cursor = ""; ; ) {
    const query = `limit=${limits.jobRunsListMax}${cursor === "" ? "" : `&cursor=${encodeURIComponent(cursor)}`}`;
    const page = jobRunsReply.parse((await api("GET", `/projects/${projectId}/job-runs?${query}`)).body);
    runs.push(...page.runs);
    if (page.nextCursor === null) return runs;
    cursor = page.nextCursor;
  }
}

const noted = z.array(z.object({ run: z.string(), attempt: z.number(), host: z.string(), at: z.string() }));

/** Every start that an attempt noted, in their order. */
export async function startsOf(fleet: Fleet, app: JobApp): Promise<(Start & { host: string; at: string })[]> {
  const file = join(app.dir, "starts");
  await rm(file, { force: true });
  return waitFor("what was noted to be read", readMs, async () => {
    const { node, pid, url, databaseAt } = await appOf(fleet, app);
    const enter = argv("nsenter", `--net=/proc/${pid}/ns/net`, "--");
    const env = environmentOf(process.env, { DATABASE_URL: url, DATABASE_AT: databaseAt });
    const reader = await node.machine.start("starts", [...enter, nodeBinary(), program, "read", file], env);
    await reader.ended;
    return noted.parse(JSON.parse(await readFile(file, "utf8")));
  });
}

/** Asks for runs of every job that nobody schedules, of either replica in turn, again and again until told to stop. */
export function askForRuns(fleet: Fleet, app: JobApp, everyMs: number) {
  const asked = new Set<string>();
  const over = new AbortController();
  const reply = z.looseObject({ run: z.looseObject({ id: z.string() }) });
  const going = [...app.bulk.values()].map(async (jobId, index) => {
    for (let turn = index; !over.signal.aborted; turn += 1) {
      const replica = fleet.replicas[turn % fleet.replicas.length];
      // Replicas are killed meanwhile; whoever is refused asks again.
      const answer = await replica?.client
        .api("POST", `/projects/${app.projectId}/jobs/${jobId}/run`)
        .catch(() => null);
      const begun = reply.safeParse(answer?.body);
      if (begun.success) asked.add(begun.data.run.id);
      await pause(everyMs, over.signal);
    }
  });
  return {
    /** Of runs. */
    get count() {
      return asked.size;
    },
    async stop() {
      over.abort();
      await Promise.all(going);
      return asked;
    },
  };
}

const pause = (ms: number, signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    const timer = setTimeout(done, ms);
    function done() {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    }
    signal.addEventListener("abort", done);
    if (signal.aborted) done();
  });
