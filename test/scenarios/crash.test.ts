import { appendFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Cluster, startCluster } from "../cluster.ts";
import { type Deployed, deploy, getDeployment, newestDeployment } from "../support/deploy.ts";
import { edgeFetch } from "../support/edge.ts";
import { postgresEnded } from "../support/postgres-end.ts";
import { waitFor } from "../support/wait-for.ts";

const settled = new Set(["running", "failed", "superseded", "canceled", "stopped"]);
const settleMs = 180_000;
const requestsWhileDown = 40;

let cluster: Cluster;
let cwd = "";
let server: Deployed;
let pages: Deployed;
beforeAll(async () => {
  // What a deploy replaces is gone soon after it, and so the next kill need not wait.
  cluster = await startCluster({ control: { SVC_DRAIN_SECONDS: "0.25" } });
  cwd = await cluster.exampleDir("ssr");
  server = await deploy(cluster, cwd);
  pages = await deploy(cluster, await cluster.exampleDir("static"));
});
afterAll(() => cluster?.[Symbol.asyncDispose]());

/** The agent on whose node the server's container runs now. */
const servingAgent = () =>
  // A release command, or what served before, may go between the list and the look at it.
  waitFor("the container of the site", 30_000, async () => {
    const own = (await cluster.containers()).filter(({ labels }) => labels["svc.project"] === server.project.id);
    const inspected = await Promise.all(own.map(({ id }) => cluster.platform.docker.getContainer(id).inspect()));
    // A release command, and what is just being made, has none.
    const [address] = inspected
      .flatMap(({ NetworkSettings: { Ports } }) => Object.values(Ports))
      .flatMap((bindings) => (bindings ?? []).map(({ HostIp }) => HostIp));
    return address !== undefined && `agent-${address.split(".")[3]}`;
  });

const agents = ["agent-1", "agent-2", "agent-3"];

const victims: { who: string; names: () => Promise<string[]>; cutsVisitors: boolean }[] = [
  { who: "control", names: async () => ["control"], cutsVisitors: false },
  { who: "the agent of the running site", names: async () => [await servingAgent()], cutsVisitors: false },
  { who: "every agent", names: async () => agents, cutsVisitors: false },
  { who: "the router", names: async () => ["router"], cutsVisitors: false },
  { who: "Caddy", names: async () => ["caddy"], cutsVisitors: true },
  { who: "etcd", names: async () => ["etcd"], cutsVisitors: false },
  { who: "Postgres", names: async () => ["postgres"], cutsVisitors: false },
  { who: "the registry", names: async () => ["registry"], cutsVisitors: false },
];

/** Visits both sites again and again; every visit must be answered well. */
async function visitBothSites(): Promise<void> {
  for (let count = 0; count < requestsWhileDown; count += 1) {
    for (const url of [`${server.url}/api/facts`, `${pages.url}/about`]) {
      const reply = await edgeFetch(url);
      await reply.arrayBuffer();
      expect(reply.status, url).toBe(200);
    }
  }
}

describe.each(victims)("$who is killed", ({ names, cutsVisitors }) => {
  test.each(["building", "deploying"])("while a deploy is %s", async (phase) => {
    const before = await newestDeployment(cluster, server.project.id);
    await appendFile(join(cwd, "src", "departures.js"), `// ${crypto.randomUUID()}\n`);
    const command = cluster.cli(["deploy", "--prod", "--json"], { cwd });
    const { id } = await waitFor(`the deploy to be ${phase}`, 120_000, async () => {
      const newest = await newestDeployment(cluster, server.project.id);
      const reached = newest?.status === phase || settled.has(newest?.status ?? "");
      return newest !== null && newest.id !== before?.id && reached ? newest : null;
    });

    const dead = await names();
    const killed = dead.map((name) => cluster.platform.program(name));
    await Promise.all(killed.map((program) => program.stop("SIGKILL")));
    if (!cutsVisitors) await visitBothSites();
    if (dead.includes("postgres")) await postgresEnded(cluster);
    await Promise.all(killed.map((program) => program.start()));

    const deployment = await waitFor("the deploy to end", settleMs, async () => {
      const found = await getDeployment(cluster, id);
      return settled.has(found.status) ? found : null;
    });
    await command;
    expect(["running", "failed"]).toContain(deployment.status);
    if (deployment.status === "failed") expect(deployment.error ?? "").not.toBe("");
    await waitFor("both sites to be served", 30_000, async () => {
      await visitBothSites();
      return true;
    });
    await waitFor("no container but that of the site", 90_000, async () => {
      const containers = await cluster.containers();
      const states = containers.map(({ state, labels }) => `${labels["svc.kind"]} ${state}`);
      if (containers.length === 1 && containers[0]?.state === "running") return true;
      throw new Error(`there are: ${states.join(", ")}`);
    });
  });

  test("the next deploy goes through as usual", async () => {
    const { deployment } = await deploy(cluster, cwd);
    expect(deployment.status).toBe("running");
    await visitBothSites();
  });
});
