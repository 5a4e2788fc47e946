import { setTimeout as delay } from "node:timers/promises";
import { isJobRunOver, jobsReply } from "@svc/proto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { waitFor } from "../support/wait-for.ts";
import { serverOf } from "./support/databases.ts";
import { type Fleet, startFleet } from "./support/fleet.ts";
import { askForRuns, deployJobApp, type JobApp, runsOf, startsOf } from "./support/job-app.ts";
import type { Node } from "./support/node.ts";
import { inOffice } from "./support/office.ts";
import { recordFault } from "./support/results.ts";
import { act, becomes } from "./support/sites.ts";
import { judgeStarts } from "./support/starts.ts";
import { healMs } from "./support/times.ts";
import { type WallClocks, wallClocks } from "./support/wall-clock.ts";

/** So many runs that somebody asked for, at least, besides those of the clock: `SVC_FAULTS_JOB_RUNS`. */
const wanted = Number(process.env["SVC_FAULTS_JOB_RUNS"] ?? "200");
const askEveryMs = 1_000;
const minuteMs = 60_000;
/** So long before a minute the leader is killed. */
const beforeMinuteMs = 100;
/** All goes on undisturbed for a while after each fault. */
const betweenMs = 5_000;
const storesDownMs = 3_000;
const drainedForMs = 30_000;
const endMs = 300_000;

const hourMs = 60 * minuteMs;

let clocks: WallClocks;
let fleet: Fleet;
let app: JobApp;
beforeAll(async () => {
  clocks = await wallClocks();
  fleet = await startFleet({
    control: clocks.settings,
    ...{ machines: 3, replicas: 2, databases: true },
    // The machines have more processors to give than there are, so that many runs find room.
    agent: { SVC_NODE_CPU_MILLICORES: "32000" },
  });
  const plans = z.looseObject({ plans: z.array(z.looseObject({ id: z.string(), isDefault: z.boolean() })) });
  const [plan] = plans.parse((await fleet.api("GET", "/admin/plans")).body).plans;
  await fleet.api("PUT", `/admin/plans/${plan?.id}`, { maxScheduledJobs: 50 });
  app = await deployJobApp(fleet, { ticks: 8, bulk: 20 });
  await fleet.settled();
});
afterAll(async () => {
  await app?.[Symbol.asyncDispose]();
  await fleet?.[Symbol.asyncDispose]();
  await clocks?.[Symbol.asyncDispose]();
});

const killAgent = async (node: Node) => {
  node.agent?.kill("SIGKILL");
  await node.agent?.ended;
  await node.startAgent();
};
const killEngine = async ({ machine }: Node) => {
  machine.engine?.kill("SIGKILL");
  await machine.engine?.ended;
  await machine.startEngine();
};
const killStore = async (name: string) => {
  await fleet.program(name).stop("SIGKILL");
  await delay(storesDownMs);
  await fleet.program(name).start();
};
const setClock = async (aheadMs: number) => clocks.set((await inOffice(fleet)).leader.apiUrl, aheadMs);
/** A node that has not the database: what would move is not what is watched. */
async function withoutDatabase(): Promise<Node> {
  const { node: has } = await serverOf(fleet, app);
  return fleet.nodes.find((node) => node !== has) ?? has;
}

const faults: { name: string; happen: () => Promise<void> }[] = [
  { name: "agent killed", happen: () => killAgent(fleet.node(1)) },
  { name: "leader killed", happen: async () => (await inOffice(fleet)).leader.program.kill("SIGKILL") },
  { name: "engine killed", happen: () => killEngine(fleet.node(1)) },
  { name: "Postgres killed", happen: () => killStore("postgres") },
  {
    name: "leader killed just before a minute",
    async happen() {
      await delay(minuteMs - ((Date.now() + beforeMinuteMs) % minuteMs));
      (await inOffice(fleet)).leader.program.kill("SIGKILL");
    },
  },
  { name: "leader's clock set an hour ahead", happen: () => setClock(hourMs) },
  { name: "deployed anew", happen: () => app.redeploy() },
  { name: "agent killed", happen: () => killAgent(fleet.node(2)) },
  { name: "leader's clock set an hour behind", happen: () => setClock(-hourMs) },
  { name: "etcd killed", happen: () => killStore("etcd") },
  {
    name: "node drained",
    async happen() {
      const node = await withoutDatabase();
      await act(fleet, node, "drain", { reason: "maintenance" });
      // Where the copy of the database is kept, a drain is not over before that has moved.
      await delay(drainedForMs);
      await act(fleet, node, "cancel-drain");
      await act(fleet, node, "uncordon");
    },
  },
  { name: "engine killed", happen: () => killEngine(fleet.node(2)) },
  { name: "leader's clock set right", happen: () => setClock(0) },
];

async function healthy(): Promise<void> {
  for (const { name } of fleet.replicas) await fleet.program(name).waitReady(healMs);
  for (const node of fleet.nodes) await becomes(fleet, node, ["ready"], healMs);
}

/** Containers of runs, and volumes that belong to no container, on all machines. */
async function left(): Promise<string[]> {
  const found = await Promise.all(
    fleet.nodes.map(async ({ name, machine }) => {
      const containers = await machine.docker.listContainers({ all: true, filters: { label: ["svc.kind=run"] } });
      const { Volumes } = await machine.docker.listVolumes({ filters: { dangling: ["true"] } });
      const ids = [...containers.map(({ Id, State }) => `${Id} ${State}`), ...Volumes.map((volume) => volume.Name)];
      return ids.map((id) => `${name}: ${id}`);
    }),
  );
  return found.flat();
}

/** Has the clock begin nothing more, once it is where it should be. Returns the last minute that it has seen to, in milliseconds since 1970. */
async function endClock(): Promise<number> {
  const path = `/projects/${app.projectId}/jobs`;
  const { jobs, lastMs } = await waitFor("the clock to be where it should be", healMs, async () => {
    const nowMs = Math.floor(Date.now() / minuteMs) * minuteMs;
    const found = jobsReply.parse((await fleet.api("GET", path)).body).jobs;
    const ticks = found.filter(({ name }) => app.ticks.includes(name));
    const isThere = ticks.every(({ lastFireAt }) => lastFireAt !== null && Date.parse(lastFireAt) >= nowMs);
    return isThere && { jobs: ticks, lastMs: nowMs };
  });
  for (const { id } of jobs) await fleet.api("PATCH", `${path}/${id}`, { enabled: false });
  return lastMs;
}

test("an attempt at a run of a job starts at most once, whatever dies meanwhile", { timeout: 7_200_000 }, async () => {
  const firstMs = Math.ceil(Date.now() / minuteMs) * minuteMs;
  const pump = askForRuns(fleet, app, askEveryMs);
  const happened = new Map<string, { fromMs: number; toMs: number }[]>();
  do {
    for (const { name, happen } of faults) {
      const fromMs = Date.now();
      await happen();
      await healthy();
      happened.set(name, [...(happened.get(name) ?? []), { fromMs, toMs: Date.now() }]);
      console.error(`  ${name}, after ${pump.count} runs`);
      await delay(betweenMs);
    }
  } while (pump.count < wanted);
  const asked = await pump.stop();
  const lastMs = await endClock();
  const runs = await waitFor("every run to be over", endMs, async () => {
    const found = await runsOf(fleet, app);
    const open = found.filter(({ status }) => !isJobRunOver(status));
    if (open.length === 0) return found;
    throw new Error(JSON.stringify(open.slice(0, 3)));
  });
  const starts = await startsOf(fleet, app);
  const verdict = judgeStarts(starts, runs, { names: app.ticks, firstMs, lastMs });
  const attempts = runs.reduce((sum, { attemptCount }) => sum + attemptCount, 0);
  const unknown = runs.filter(({ reason }) => reason === "unknown");
  const count = (status: string) => runs.filter((run) => run.status === status).length;
  const kills = [...happened].map(([name, times]) => `${name} ${times.length}x`).join(", ");
  const minutes = (lastMs - firstMs) / minuteMs + 1;
  await recordFault({
    fault: `jobs while everything dies in turn (${kills})`,
    observed: `${runs.length} runs, ${attempts} attempts, ${starts.length} starts noted, ${verdict.twice.length} twice; ${count("succeeded")} succeeded, ${count("failed")} failed, ${count("skipped")} skipped, ${unknown.length} of an unknown end; ${minutes} minutes of ${app.ticks.length} jobs, ${verdict.lost.length} lost`,
    visits: {},
  });
  expect(verdict).toEqual({ twice: [], unseen: [], unheard: [], open: [], lost: [], doubled: [] });
  // Whoever asked for a run and was answered has one.
  const known = new Set(runs.map(({ id }) => id));
  expect([...asked].filter((id) => !known.has(id))).toEqual([]);
  // How it ended may be lost together with what the engine knew, and by nothing else.
  const engineKills = happened.get("engine killed") ?? [];
  const unexplained = unknown.filter(({ startedAt, finishedAt }) => {
    const [sinceMs, untilMs] = [Date.parse(startedAt ?? ""), Date.parse(finishedAt ?? "")];
    return !engineKills.some(({ fromMs, toMs }) => sinceMs <= toMs && untilMs >= fromMs);
  });
  expect(unexplained).toEqual([]);
  const early = runs.filter(({ scheduledAt, createdAt }) => scheduledAt !== null && createdAt < scheduledAt);
  expect(early).toEqual([]);
  await waitFor("nothing to be left of runs", endMs, async () => {
    const found = await left();
    if (found.length === 0) return true;
    throw new Error(found.join(", "));
  });
});
