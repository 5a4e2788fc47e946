import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { explainPlacementReply } from "@svc/proto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { deploy, getDeployment, newestDeployment } from "../support/deploy.ts";
import { waitFor } from "../support/wait-for.ts";
import { type Fleet, startFleet } from "./support/fleet.ts";
import { type Operation, violations } from "./support/history.ts";
import { watchContainers } from "./support/holds.ts";
import type { Node } from "./support/node.ts";
import { recordFault } from "./support/results.ts";
import { act, answered, becomes, nodeOf, type Site, settled, visit } from "./support/sites.ts";
import { detectMs, healMs } from "./support/times.ts";

// Every process of a machine hangs, its kernel goes on and accepts connections.

const told = 120_000;
/** Deploys on a busy machine take minutes. */
const hangsMs = 1_200_000;

let fleet: Fleet;
let cwd = "";
let site: Site;
beforeAll(async () => {
  fleet = await startFleet({ machines: 3 });
  cwd = await fleet.ssrDir({ replicas: 2, slug: "example-ssr" });
  const { url, project } = await deploy(fleet, cwd);
  site = { url: `${url}/api/facts`, projectId: project.id, replicas: 2 };
  await fleet.settled();
});
afterAll(() => fleet?.[Symbol.asyncDispose]());

/** Deploys this version; resolves with what the command printed, once it is over. */
async function deployVersion(version: number) {
  const file = join(cwd, "package.json");
  await writeFile(file, JSON.stringify({ ...JSON.parse(await readFile(file, "utf8")), version: `1.0.${version}` }));
  return deploy(fleet, cwd);
}

const others = (node: Node) => fleet.nodes.filter((each) => each !== node);

/** Containers of the site that run on these nodes, as they call themselves. */
async function runningOn(nodes: readonly Node[]): Promise<Set<string>> {
  const found = (await Promise.all(nodes.map((node) => node.containers()))).flat();
  const ours = found.filter(
    ({ project, kind, state }) => project === site.projectId && kind === "serve" && state === "running",
  );
  return new Set(ours.map(({ hostname }) => hostname));
}

/** What was served from `acknowledged` on, as a history that begins with a deploy that was acknowledged before. */
const historyOf = (reads: { version: number; startMs: number; endMs: number }[], deploys: Operation[]): Operation[] => [
  { op: "deploy", version: 0, outcome: "acknowledged", startMs: 0, endMs: 0 },
  ...deploys,
  ...reads.map((each) => ({ op: "read" as const, ...each })),
];

test("a deploy while a machine hangs is ready only where visitors reach it, and nothing is there twice after that", {
  timeout: hangsMs,
}, async () => {
  const hung = await nodeOf(fleet, site);
  await using prober = await visit(site);
  await answered(prober, "both containers to answer", 10_000, (by) => by.size === 2);
  await using containers = await watchContainers(fleet, prober.now);
  await hung.machine.freeze(true);
  const startMs = prober.now();
  const { deployment } = await deployVersion(1);
  const endMs = prober.now();
  expect(deployment.status).toBe("running");
  const reachable = await runningOn(others(hung));
  await answered(prober, "both new containers to answer", healMs, (by) => by.size === 2);
  const watched = prober.report(endMs);
  // Whoever answers now is on a machine that runs.
  for (const each of prober.answering(1_000)) expect(reachable).toContain(each);

  const thawedAt = prober.now();
  await hung.machine.freeze(false);
  await becomes(fleet, hung, ["ready"], healMs);
  const left = await settled(fleet, site, healMs);
  const settledAt = prober.now();
  expect(left.map(({ node }) => node.name)).not.toContain(hung.name);
  const visits = await prober.stop();
  const holds = await containers.stop();
  const history = historyOf(prober.answers(), [
    { op: "deploy", version: 1, outcome: "acknowledged", startMs, endMs },
    ...holds,
  ]);
  await recordFault({
    fault: "a deploy of two containers while every process of a node hangs",
    observed: "both are started on the other nodes and reached; what the node had goes when it is back",
    timesMs: { "acknowledged after": endMs - startMs, "two containers after its return": settledAt - thawedAt },
    visits: { "two containers": visits },
  });
  expect(violations(history)).toEqual([]);
  expect(watched.failures).toEqual([]);
  // Its release command was started once, wherever.
  expect(holds.filter((each) => each.op === "hold" && each.placement.startsWith("run "))).toHaveLength(1);
});

test("a deploy that only a machine that hangs could take waits and says why, and is served once the machine goes on", {
  timeout: hangsMs,
}, async () => {
  const hung = await nodeOf(fleet, site);
  for (const node of others(hung)) await act(fleet, node, "cordon", { reason: "no more room" });
  await using prober = await visit(site);
  await using containers = await watchContainers(fleet, prober.now);
  await hung.machine.freeze(true);
  await becomes(fleet, hung, ["unreachable"], detectMs + 10_000);
  const startMs = prober.now();
  const deploying = deployVersion(2);
  deploying.catch(() => {});
  const { id, why } = await waitFor("the reason to be told", told, async () => {
    const newest = await newestDeployment(fleet, site.projectId);
    if (newest === null) return false;
    const reply = await fleet.api("GET", `/admin/placements/explain?deployment=${newest.id}`);
    const { tasks } = explainPlacementReply.parse(reply.body);
    const problem = tasks.find((task) => task.node === null && task.problem !== null)?.problem;
    return problem != null && newest.status !== "running" && { id: newest.id, why: problem };
  });
  expect(why).toContain("not connected");
  expect(why).toContain("cordoned");
  expect((await getDeployment(fleet, id)).status).not.toBe("running");
  expect(new Set(prober.answers().map(({ version }) => version))).toEqual(new Set([1]));

  const thawedAt = prober.now();
  await hung.machine.freeze(false);
  const { deployment } = await deploying;
  const endMs = prober.now();
  expect(deployment).toMatchObject({ id, status: "running" });
  for (const node of others(hung)) await act(fleet, node, "uncordon");
  await settled(fleet, site, healMs);
  const visits = await prober.stop();
  const holds = await containers.stop();
  await recordFault({
    fault: "a deploy while every process of the only node with room hangs",
    observed: `it waits, and svc admin nodes explain says: ${why}`,
    timesMs: { "acknowledged after the node's return": endMs - thawedAt },
    visits: { "two containers": visits },
  });
  const acknowledged = { op: "deploy" as const, version: 1, outcome: "acknowledged" as const, startMs: 0, endMs: 0 };
  const asked = { op: "deploy" as const, version: 2, outcome: "acknowledged" as const, startMs, endMs };
  expect(violations(historyOf(prober.answers(), [acknowledged, asked, ...holds]))).toEqual([]);
  expect(holds.filter((each) => each.op === "hold" && each.placement.startsWith("run "))).toHaveLength(1);
});
