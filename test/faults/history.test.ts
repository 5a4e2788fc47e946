import { readFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { deploy } from "../support/deploy.ts";
import { waitFor } from "../support/wait-for.ts";
import { type Deployer, deployAgain } from "./support/deployer.ts";
import { type Fleet, type Replica, startFleet } from "./support/fleet.ts";
import { fromLines, type Operation, violations } from "./support/history.ts";
import { watchContainers, watchPlacements } from "./support/holds.ts";
import { inOffice } from "./support/office.ts";
import { recordFault, recordHistory } from "./support/results.ts";
import { becomes, nodeOf, type Site, settled, visit } from "./support/sites.ts";
import { detectMs, healMs } from "./support/times.ts";

const storesDownMs = 3_000;
/** Longer than it takes to replace what is on a node, and for a leader to be followed by another. */
const cutForMs = detectMs + 6_000;
const deployMs = 1_500_000;

let fleet: Fleet;
let cwd = "";
let site: Site;
beforeAll(async () => {
  fleet = await startFleet({ machines: 3, replicas: 2, ownWays: true });
  cwd = await fleet.ssrDir({ replicas: 1, slug: "example-ssr" });
  const { url, project } = await deploy(fleet, cwd);
  site = { url: `${url}/api/facts`, projectId: project.id, replicas: 1 };
  await fleet.settled();
});
afterAll(() => fleet?.[Symbol.asyncDispose]());

const kill = (...names: string[]) => {
  for (const name of names) fleet.program(name).kill("SIGKILL");
};
const killStore = async (name: string) => {
  await fleet.program(name).stop("SIGKILL");
  await delay(storesDownMs);
  await fleet.program(name).start();
};
const cutOff = async ({ way }: Replica) => {
  way?.blackHole();
  await delay(cutForMs);
  way?.heal();
};
const leader = async () => (await inOffice(fleet)).leader;

const faults: { name: string; happen: () => Promise<void> }[] = [
  { name: "leader killed", happen: async () => (await leader()).program.kill("SIGKILL") },
  {
    name: "agent killed",
    async happen() {
      const node = await nodeOf(fleet, site);
      node.agent?.kill("SIGKILL");
      await node.agent?.ended;
      await node.startAgent();
    },
  },
  { name: "etcd killed", happen: () => killStore("etcd") },
  {
    name: "node cut off",
    async happen() {
      const { machine } = await nodeOf(fleet, site);
      await machine.plug(false);
      await delay(cutForMs);
      await machine.plug(true);
    },
  },
  { name: "edge killed", happen: async () => kill("router", "caddy") },
  { name: "Postgres killed", happen: () => killStore("postgres") },
  { name: "leader cut off from etcd", happen: async () => cutOff(await leader()) },
  {
    name: "follower cut off from etcd",
    async happen() {
      const [other] = (await inOffice(fleet)).others;
      if (other !== undefined) await cutOff(other);
    },
  },
];

async function healthy(): Promise<void> {
  for (const { program } of fleet.replicas) await program.waitReady(healMs);
  for (const name of ["router", "caddy"]) await fleet.program(name).waitReady(healMs);
  for (const node of fleet.nodes) await becomes(fleet, node, ["ready"], healMs);
}

/** Resolves once something is acknowledged that was asked for after `sinceMs`. */
const oneMore = ({ done }: Deployer, sinceMs: number) =>
  waitFor("a deploy to be acknowledged", deployMs, () =>
    done.some(({ outcome, startMs }) => outcome === "acknowledged" && startMs > sinceMs),
  );

const only = <Op extends Operation["op"]>(history: readonly Operation[], op: Op) =>
  history.filter((each): each is Extract<Operation, { op: Op }> => each.op === op);

/** Stories that this history could have been and must not: each with what a judge has to say of it. */
function tampered(history: readonly Operation[]): { what: string; history: Operation[]; found: string }[] {
  const acknowledged = only(history, "deploy").filter(({ outcome }) => outcome === "acknowledged");
  const [former, last] = acknowledged.slice(-2);
  const read = only(history, "read").findLast(({ startMs }) => startMs > (last?.endMs ?? 0));
  const hold = only(history, "hold").findLast(({ endMs, startMs }) => endMs !== null && endMs > startMs);
  if (former === undefined || last === undefined || read === undefined || hold === undefined)
    throw new Error("there is too little in the history");
  const instead = (one: Operation, other: Operation) => history.map((each) => (each === one ? other : each));
  return [
    {
      what: "the last visitor got the version before",
      history: instead(read, { ...read, version: former.version }),
      found: `at ${read.startMs} version ${former.version} was read, after ${last.version} was acknowledged`,
    },
    {
      what: "nobody had asked for the last version",
      history: history.filter((each) => each !== last),
      found: `version ${last.version} was read, which nobody had deployed`,
    },
    {
      what: "another machine did at the same time what one did",
      history: [...history, { ...hold, machine: "another" }],
      found: `held ${hold.placement}, and so did`,
    },
  ];
}

test("what is acknowledged is served from then on, whatever dies meanwhile, and one machine has what one may have", {
  timeout: 7_200_000,
}, async () => {
  await using prober = await visit(site, 20);
  await using containers = await watchContainers(fleet, prober.now);
  await using placements = watchPlacements(fleet, prober.now);
  await using deployer = deployAgain(fleet, cwd, 1, prober.now);
  for (const { name, happen } of faults) {
    // In the middle of a deploy, or between two: as it comes.
    await happen();
    await healthy();
    console.error(`  ${name}: ${deployer.done.length} deploys by ${Math.round(prober.now() / 1000)} s`);
    await oneMore(deployer, prober.now());
  }
  await deployer.stop();
  const lastMs = prober.now();
  const last = deployer.done.at(-1)?.version ?? 0;
  await waitFor("the last version to be read", healMs, () =>
    prober.answers().some(({ version, startMs }) => version === last && startMs > lastMs),
  );
  await settled(fleet, site, healMs);
  const visits = await prober.stop();
  const reads = prober.answers().map((each) => ({ op: "read" as const, ...each }));
  const path = await recordHistory("deploys", [
    // What was there before the first visit, as the example numbers itself.
    { op: "deploy", version: 0, outcome: "acknowledged", startMs: 0, endMs: 0 },
    ...deployer.done,
    ...reads,
    ...(await placements.stop()),
    ...(await containers.stop()),
  ]);

  // From here on nothing runs any more that is asked: the file is all there is.
  const history = fromLines(await readFile(path, "utf8"));
  const told = (outcome: string) => deployer.done.filter((each) => each.outcome === outcome).length;
  const seen = new Set(reads.map(({ version }) => version));
  await recordFault({
    fault: `deploys one after the other, while everything dies in turn (${faults.map(({ name }) => name).join(", ")})`,
    observed: `${deployer.done.length} deploys (${told("acknowledged")} acknowledged, ${told("refused")} refused, ${told("unknown")} unknown), ${reads.length} reads of ${seen.size} versions, ${only(history, "hold").length} holds; ${violations(history).length} violations`,
    timesMs: { "in all": lastMs },
    visits: { "one container": visits },
  });
  console.error(`  history: ${path}`);
  expect(violations(history)).toEqual([]);
  expect(seen.size).toBeGreaterThan(faults.length);
  expect(only(history, "hold").length).toBeGreaterThan(2 * told("acknowledged"));
  for (const each of tampered(history)) expect(violations(each.history).join("\n"), each.what).toContain(each.found);
});
