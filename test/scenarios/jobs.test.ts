import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { jobRun } from "@svc/proto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { type Cluster, startCluster } from "../cluster.ts";
import { waitFor } from "../support/wait-for.ts";

/** Jobs of a manifest on the whole platform: by the clock and by hand, tried again, canceled, and over whatever dies meanwhile. */

const patienceMs = 240_000;

let cluster: Cluster;
let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "svc-jobs-"));
  cluster = await startCluster({ agents: 1, control: { SVC_DRAIN_SECONDS: "0.25" } });
  await deploy("one");
});
afterAll(async () => {
  await cluster?.[Symbol.asyncDispose]();
  await rm(dir, { recursive: true, force: true });
});

const server = `
require("node:http").createServer((_, response) => response.end("up")).listen(process.env.PORT);
process.on("SIGTERM", () => process.exit(0));
`;
const never = "0 0 1 1 *";
const jobs = [
  { name: "tick", schedule: "* * * * *", command: 'echo "$SVC_JOB_NAME is for $SVC_SCHEDULED_AT"' },
  {
    name: "flaky",
    schedule: never,
    retries: 1,
    command: '[ "$SVC_RUN_ATTEMPT" = 2 ] && echo better || { echo worse; exit 3; }',
  },
  { name: "edition", schedule: never, command: "cat edition" },
  {
    name: "long",
    schedule: never,
    command: "trap 'echo told to go; exit 0' TERM; cat edition; while :; do sleep 0.1; done",
  },
];

async function deploy(edition: string): Promise<void> {
  const manifest = {
    ...{ version: 2, slug: "with-jobs", app: { name: "With jobs", type: "ssr" } },
    ...{ start: { command: "node index.js" }, jobs },
  };
  // JSON is YAML.
  await writeFile(join(dir, "svc.yml"), JSON.stringify(manifest));
  await writeFile(join(dir, "package.json"), "{}");
  await writeFile(join(dir, "index.js"), server);
  await writeFile(join(dir, "edition"), `edition ${edition}\n`);
  await svc("deploy");
}

async function svc(...args: string[]): Promise<Record<string, unknown>> {
  const result = await cluster.cli([...args, "--json"], { cwd: dir });
  expect(`${result.exitCode} ${result.stderr}${result.stdout}`).toMatch(/^0 /);
  return result.json();
}

const runOf = (envelope: Record<string, unknown>) => z.object({ run: jobRun }).parse(envelope).run;
const begin = async (name: string) => runOf(await svc("jobs", "run", name));
const find = async (id: string) => runOf(await svc("jobs", "logs", id));
const outputOf = async (id: string, ...more: string[]) => String((await svc("jobs", "logs", id, ...more))["log"]);
const reaches = (id: string, status: string) =>
  waitFor(`a run to be ${status}`, patienceMs, async () => {
    const run = await find(id);
    return run.status === status && run;
  });

test("a command that fails is tried again, in the same run, and each attempt has its output", async () => {
  const { id, trigger } = await begin("flaky");
  expect(trigger).toBe("manual");
  expect(await reaches(id, "succeeded")).toMatchObject({ jobName: "flaky", attemptCount: 2, exitCode: 0 });
  expect(await outputOf(id, "--attempt", "1")).toBe("worse\n");
  expect(await outputOf(id)).toBe("better\n");
});

test("the clock begins what is due, and not what its owner has disabled", async () => {
  const run = await waitFor("the minute of a job", patienceMs, async () => {
    const { runs } = z
      .object({ runs: z.array(jobRun) })
      .parse(await svc("jobs", "runs", "tick", "--status", "succeeded"));
    return runs[0];
  });
  expect(run).toMatchObject({ trigger: "schedule", attemptCount: 1 });
  expect(new Date(run.scheduledAt ?? 0).getUTCSeconds()).toBe(0);
  expect(await outputOf(run.id)).toBe(`tick is for ${run.scheduledAt}\n`);
  expect((await svc("jobs", "disable", "tick"))["job"]).toMatchObject({ enabled: false, nextFireAt: null });
});

test("a run goes on in the code that it began in while control, its agent and its deployment are replaced", async () => {
  const { id } = await begin("long");
  await reaches(id, "running");
  await waitFor("its output", patienceMs, async () => (await outputOf(id)).includes("edition one"));
  for (const program of ["agent-1", "control"].map((name) => cluster.platform.program(name))) {
    await program.stop("SIGKILL");
    await program.start();
  }
  await waitFor("control to be back", patienceMs, () =>
    cluster.api("GET", "/me").then(
      ({ status }) => status === 200,
      () => false,
    ),
  );
  await deploy("two");
  const { id: newer } = await begin("edition");
  await reaches(newer, "succeeded");
  expect(await outputOf(newer)).toBe("edition two\n");
  expect(await find(id)).toMatchObject({ status: "running", attemptCount: 1 });
  expect(runOf(await svc("jobs", "cancel", id)).status).toBe("cancel_requested");
  await reaches(id, "canceled");
  expect(await outputOf(id)).toBe("edition one\ntold to go\n");
  // Again is no error, and nothing changes.
  expect(runOf(await svc("jobs", "cancel", id)).status).toBe("canceled");
  expect((await svc("jobs", "disable", "tick"))["job"]).toMatchObject({ userEnabled: false });
});

test("a stop of production pauses its jobs, and a start brings them back as they were", async () => {
  await svc("stop");
  const listed = async () =>
    z.looseObject({ jobs: z.array(z.looseObject({ name: z.string() })) }).parse(await svc("jobs", "ls")).jobs;
  const paused = await listed();
  expect(paused.map(({ name }) => name)).toEqual(jobs.map(({ name }) => name).sort());
  for (const each of paused) expect(each).toMatchObject({ pauseReason: "stopped", nextFireAt: null });
  const refused = await cluster.cli(["jobs", "run", "edition", "--json"], { cwd: dir });
  expect(refused.json()).toMatchObject({ ok: false, error: { message: expect.stringContaining("SCOPE_UNAVAILABLE") } });
  await svc("start");
  for (const each of await listed()) expect(each).toMatchObject({ pauseReason: null, enabled: each.name !== "tick" });
});
