import { appendFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Program } from "@svc/deploy/program";
import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { type Cluster, type ClusterClient, clientOf, startCluster } from "../cluster.ts";
import { deploy, getDeployment, newestDeployment } from "../support/deploy.ts";
import { edgeFetch } from "../support/edge.ts";
import { apiUrlOfReplica, controlReplicas, etcdMembers, liveReplicas, streamOwners } from "../support/leaders.ts";
import { type LoadReport, openLoopLoad } from "../support/load.ts";
import { waitFor } from "../support/wait-for.ts";

const ratePerSecond = 100;
const readyMs = 45_000;
const daemons = 3;

let cluster: Cluster;
let cwd = "";
let projectId = "";
let siteUrl = "";
/** Ends the load and returns what became of it. */
let endLoad: () => Promise<LoadReport>;
beforeAll(async () => {
  cluster = await startCluster({ ha: true, agents: daemons - 1 });
  cwd = await cluster.exampleDir("ssr");
  const deployed = await deploy(cluster, cwd);
  projectId = deployed.project.id;
  siteUrl = `${deployed.url}/api/facts`;
  const over = new AbortController();
  const load = openLoopLoad({ url: siteUrl, ratePerSecond, until: over.signal });
  endLoad = () => {
    over.abort();
    return load;
  };
});
afterAll(async () => {
  await endLoad?.();
  await cluster?.[Symbol.asyncDispose]();
});

/** A user of the replica that the program is. */
const userOf = ({ name }: Program): ClusterClient =>
  clientOf({ apiUrl: apiUrlOfReplica(cluster, name), key: cluster.key, dir: cluster.platform.layout.dir });

const nodeList = z.looseObject({ nodes: z.array(z.looseObject({ name: z.string(), status: z.string() })) });

/** Waits until every agent and the router is connected, as the API of this replica sees it. */
async function everyDaemonReady(replica: Program): Promise<void> {
  await waitFor(`every daemon to be ready, by ${replica.name}`, readyMs, async () => {
    const { body } = await userOf(replica).api("GET", "/admin/nodes");
    const { nodes } = nodeList.parse(body);
    const away = nodes.filter(({ status }) => status !== "ready").map(({ name, status }) => `${name} ${status}`);
    if (nodes.length !== daemons || away.length > 0) throw new Error(away.join(", "));
    return true;
  });
}

/** Ids of what serves the site, and since when: neither changes unless something is stopped or started. */
async function serving(): Promise<string[]> {
  const ours = (await cluster.containers()).filter(({ labels }) => labels["svc.project"] === projectId);
  const { docker } = cluster.platform;
  const states = await Promise.all(ours.map(async ({ id }) => (await docker.getContainer(id).inspect()).State));
  return ours.map(({ id }, index) => `${id} since ${states[index]?.StartedAt}`).toSorted();
}

async function expectNothingRestarted(what: () => Promise<void>): Promise<void> {
  // The release command of a deploy, and the container before, may go a moment after its end.
  const before = await waitFor("one container of the site", 60_000, async () => {
    const found = await serving();
    return found.length === 1 && found;
  });
  await what();
  expect(await serving()).toEqual(before);
}

/** Starts a deploy at a replica, and says when it has reached the given phase. */
async function beginDeploy(replica: Program, phase: string) {
  const user = userOf(replica);
  const before = await newestDeployment(user, projectId);
  await appendFile(join(cwd, "src", "departures.js"), `// ${crypto.randomUUID()}\n`);
  const command = user.cli(["deploy", "--prod", "--json"], { cwd });
  const begun = await waitFor(`the deploy to be ${phase}`, 60_000, async () => {
    const newest = await newestDeployment(user, projectId);
    return newest !== null && newest.id !== before?.id && [phase, "running"].includes(newest.status) ? newest : null;
  });
  return { id: begun.id, command };
}

async function expectDeployWorks(replica: Program): Promise<void> {
  const { deployment } = await deploy(userOf(replica), cwd);
  expect(deployment.status).toBe("running");
}

test("every replica of control dies in turn, the leader first, and comes back", async () => {
  await expectNothingRestarted(async () => {
    const { leader, others } = await controlReplicas(cluster);
    const dead = await liveReplicas(cluster);
    for (const victim of [leader, ...others]) {
      victim.kill("SIGKILL");
      const survivor = [leader, ...others].find((each) => each !== victim) ?? leader;
      await everyDaemonReady(survivor);
      await victim.waitReady(readyMs);
    }
    await waitFor("every stream to be held by a replica that lives", readyMs, async () => {
      const [live, owners] = await Promise.all([liveReplicas(cluster), streamOwners(cluster)]);
      const isOver = live.every((id) => !dead.includes(id)) && owners.every((id) => live.includes(id));
      return isOver && live.length === 3 && owners.length === daemons;
    });
    for (const replica of [leader, ...others]) await everyDaemonReady(replica);
  });
});

test("the leader stands still for ten seconds", async () => {
  await expectNothingRestarted(async () => {
    const { leader, others, epoch } = await controlReplicas(cluster);
    leader.kill("SIGSTOP");
    const frozenAt = performance.now();
    await waitFor("another leader", 16_000, async () => (await controlReplicas(cluster)).epoch > epoch);
    // Whatever it still believes when it goes on, it is the others' turn.
    await delay(Math.max(0, 10_000 - (performance.now() - frozenAt)));
    leader.kill("SIGCONT");
    for (const replica of [leader, ...others]) await everyDaemonReady(replica);
    expect((await controlReplicas(cluster)).leader.name).not.toBe(leader.name);
  });
});

test("a member of etcd dies, and then the one that leads", async () => {
  await expectNothingRestarted(async () => {
    const { others } = await etcdMembers(cluster);
    for (const next of [async () => others[0], async () => (await etcdMembers(cluster)).leader]) {
      const member = await next();
      member?.kill("SIGKILL");
      await member?.waitReady(readyMs);
      await waitFor("etcd to have a leader", readyMs, () => etcdMembers(cluster));
    }
    await everyDaemonReady((await controlReplicas(cluster)).leader);
  });
});

test("a deploy that began before the leader died ends as any other", async () => {
  const { leader, others } = await controlReplicas(cluster);
  const [survivor] = others;
  if (survivor === undefined) throw new Error("there is one replica only");
  const { id, command } = await beginDeploy(survivor, "building");
  leader.kill("SIGKILL");
  const { exitCode, stderr } = await command;
  expect(exitCode, stderr).toBe(0);
  expect((await getDeployment(userOf(survivor), id)).status).toBe("running");
  await leader.waitReady(readyMs);
});

test("all of etcd is away for ten seconds", async () => {
  const [replica] = (await controlReplicas(cluster)).others;
  if (replica === undefined) throw new Error("there is one replica only");
  const members = ["etcd-1", "etcd-2", "etcd-3"].map((name) => cluster.platform.program(name));
  await expectNothingRestarted(async () => {
    await Promise.all(members.map((member) => member.stop("SIGKILL")));
    const awayAt = performance.now();
    // What Postgres knows is answered as ever; nothing is an accident.
    expect((await userOf(replica).api("GET", "/projects")).status).toBe(200);
    expect((await userOf(replica).api("GET", `/projects/${projectId}`)).status).toBe(200);
    expect([200, 503]).toContain((await userOf(replica).api("GET", "/admin/nodes")).status);
    await delay(10_000 - (performance.now() - awayAt));
    expect((await edgeFetch(siteUrl)).status).toBe(200);
    await Promise.all(members.map((member) => member.start()));
    await everyDaemonReady(replica);
  });
});

test("after all of it every daemon is connected, a deploy works, and no visitor noticed", async () => {
  const { leader, others } = await controlReplicas(cluster);
  for (const replica of [leader, ...others]) await everyDaemonReady(replica);
  await expectDeployWorks(leader);
  const { sent, failed, failures } = await endLoad();
  expect(sent).toBeGreaterThan(ratePerSecond * 20);
  expect(failures).toEqual([]);
  expect(failed).toBe(0);
});
