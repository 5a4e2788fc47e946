import { appendFile } from "node:fs/promises";
import { join } from "node:path";
import { signIn } from "@svc/deploy/api";
import type { Program } from "@svc/deploy/program";
import { systemClock } from "@svc/runtime/system";
import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { type Cluster, type ClusterClient, clientOf, startCluster } from "../cluster.ts";
import { deploy } from "../support/deploy.ts";
import { apiUrlOfReplica, controlReplicas } from "../support/leaders.ts";
import { waitFor } from "../support/wait-for.ts";
import { startProber } from "./support/prober.ts";
import { recordFault } from "./support/results.ts";
import { type WallClocks, wallClocks } from "./support/wall-clock.ts";

const hourMs = 3_600_000;
/** More than the hour by which certificates might be backdated. */
const offMs = hourMs + 60_000;
/** Any node that was taken for silent, or lease for over, would be by then. */
const watchedMs = 20_000;
const readyMs = 60_000;
const daemons = 3;

let clocks: WallClocks;
let cluster: Cluster;
let cwd = "";
let siteUrl = "";
let projectId = "";
beforeAll(async () => {
  clocks = await wallClocks();
  cluster = await startCluster({ ha: true, agents: daemons - 1, control: clocks.settings });
  cwd = await cluster.exampleDir("ssr");
  const deployed = await deploy(cluster, cwd);
  siteUrl = `${deployed.url}/api/facts`;
  projectId = deployed.project.id;
});
afterAll(async () => {
  await cluster?.[Symbol.asyncDispose]();
  await clocks?.[Symbol.asyncDispose]();
});

const urlOf = ({ name }: Program) => apiUrlOfReplica(cluster, name);
const userOf = (program: Program): ClusterClient =>
  clientOf({ apiUrl: urlOf(program), key: cluster.key, dir: cluster.platform.layout.dir });

const nodeList = z.looseObject({ nodes: z.array(z.looseObject({ name: z.string(), status: z.string() })) });

/** What this replica says of daemons that are not well. */
async function away(replica: Program): Promise<string[]> {
  const { nodes } = nodeList.parse((await userOf(replica).api("GET", "/admin/nodes")).body);
  expect(nodes).toHaveLength(daemons);
  return nodes.filter(({ status }) => status !== "ready").map(({ name, status }) => `${name} ${status}`);
}

async function everyDaemonReady(replicas: readonly Program[]): Promise<void> {
  for (const replica of replicas) {
    await waitFor(`every daemon to be ready, by ${replica.name}`, readyMs, async () => {
      const missing = await away(replica);
      if (missing.length > 0) throw new Error(missing.join(", "));
      return true;
    });
  }
}

/** Ids of what serves the site, and since when. */
async function serving(): Promise<string[]> {
  const ours = (await cluster.containers()).filter(({ labels }) => labels["svc.project"] === projectId);
  const { docker } = cluster.platform;
  const states = await Promise.all(ours.map(async ({ id }) => (await docker.getContainer(id).inspect()).State));
  return ours.map(({ id }, index) => `${id} since ${states[index]?.StartedAt}`).toSorted();
}
const oneServes = () =>
  waitFor("one container of the site", readyMs, async () => {
    const found = await serving();
    return found.length === 1 && found;
  });

const token = z.looseObject({ bootstrapToken: z.looseObject({ expiresAt: z.string() }) });

/** Everything that this replica is asked for is as with a clock that is right. */
async function expectUsable(replica: Program, others: readonly Program[]): Promise<void> {
  const { platform } = cluster;
  // Whom it lets in, the others let in, and the other way round.
  for (const at of [replica, ...others]) {
    const session = await signIn(systemClock, urlOf(at), platform.admin);
    for (const by of [replica, ...others]) {
      const reply = await fetch(`${urlOf(by)}/api/v1/me`, { headers: { authorization: `Bearer ${session}` } });
      expect(reply.status, `session of ${at.name} at ${by.name}`).toBe(200);
    }
  }
  // What it dates is dated as everywhere: a quarter of an hour for this.
  const made = await userOf(replica).api("POST", "/admin/nodes/bootstrap-tokens", {});
  const lastsMs = Date.parse(token.parse(made.body).bootstrapToken.expiresAt) - Date.now();
  expect(lastsMs).toBeGreaterThan(10 * 60_000);
  expect(lastsMs).toBeLessThan(20 * 60_000);
  // Sources are pushed, built and pulled with tokens that it signs.
  await appendFile(join(cwd, "src", "departures.js"), `// ${crypto.randomUUID()}\n`);
  expect((await deploy(userOf(replica), cwd)).deployment.status).toBe("running");
}

const who = ["leader", "follower"] as const;
const steps = [
  { way: "ahead", aheadMs: offMs },
  { way: "behind", aheadMs: -offMs },
];
const cases = who.flatMap((role) => steps.map((step) => ({ role, ...step })));

test.each(cases)("the clock of a replica that is a $role steps an hour $way", async ({ role, way, aheadMs }) => {
  const { leader, others, epoch } = await controlReplicas(cluster);
  const all = [leader, ...others];
  const off = role === "leader" ? leader : others[0];
  if (off === undefined) throw new Error("there is one replica only");
  const rest = all.filter((each) => each !== off);
  const before = await oneServes();
  await using prober = startProber(siteUrl, 10);

  await clocks.set(urlOf(off), aheadMs);
  const steppedAt = prober.now();
  const silent = new Set<string>();
  await waitFor("leases to be over, had any ended", readyMs, async () => {
    for (const replica of all) {
      for (const each of await away(replica)) silent.add(`${each}, by ${replica.name}`);
    }
    return prober.now() - steppedAt > watchedMs;
  });
  expect([...silent]).toEqual([]);
  expect(await serving()).toEqual(before);
  // Nobody took office meanwhile.
  expect((await controlReplicas(cluster)).epoch).toBe(epoch);
  await expectUsable(off, rest);

  // It starts with that clock as well, while others go on, and daemons come to it.
  off.kill("SIGKILL");
  await off.waitReady(readyMs);
  await everyDaemonReady(all);
  for (const each of rest) each.kill("SIGKILL");
  for (const each of rest) await each.waitReady(readyMs);
  await everyDaemonReady(all);
  await expectUsable(off, rest);

  // And back again, as when somebody notices.
  await clocks.set(urlOf(off), 0);
  await expectUsable(off, rest);
  const visits = await prober.stop();
  await recordFault({
    fault: `the clock of a replica of control steps an hour ${way}: ${role}`,
    observed: "nothing moves, nobody else leads; sessions, tokens and deployments as before, also after a restart",
    visits: { "one container": visits },
  });
  expect(visits.failures).toEqual([]);
});
