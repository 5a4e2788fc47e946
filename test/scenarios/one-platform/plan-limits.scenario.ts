import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { type Cluster, startCluster } from "../../cluster.ts";
import { type Deployed, deploy } from "../../support/deploy.ts";
import { edgeFetch } from "../../support/edge.ts";
import { waitFor } from "../../support/wait-for.ts";

let cluster: Cluster;
let site: Deployed;
let planId = "";
beforeAll(async () => {
  cluster = await startCluster({ agents: 1 });
  site = await deploy(cluster, await cluster.exampleDir("ssr"));
  const { body } = await cluster.api("GET", "/admin/plans");
  const plans = z.array(z.looseObject({ id: z.string(), isDefault: z.boolean() })).parse(body["plans"]);
  planId = plans.find(({ isDefault }) => isDefault)?.id ?? "";
});
afterAll(() => cluster?.[Symbol.asyncDispose]());

/** The site's container, as the engine has it. */
async function inspected() {
  const found = (await cluster.containers()).filter(({ labels }) => labels["svc.project"] === site.project.id);
  expect(found).toHaveLength(1);
  const { Id, State, HostConfig } = await cluster.platform.docker.getContainer(found[0]?.id ?? "").inspect();
  return {
    life: { id: Id, startedAt: State.StartedAt, pid: State.Pid },
    limits: { Memory: HostConfig.Memory, NanoCpus: HostConfig.NanoCpus, PidsLimit: HostConfig.PidsLimit },
  };
}
const mebibyte = 1024 * 1024;

test("an operator's change of a plan reaches a running site without a restart, whoever dies on the way", async () => {
  // The one of the release command goes by itself.
  const before = await waitFor("only the site's own container", 60_000, inspected);
  const programs = ["control", "agent-1"].map((name) => cluster.platform.program(name));
  for (const memoryMb of [640, 384]) {
    const change = { memoryMb, cpuMillicores: 600, pidsLimit: 200 };
    const reply = await cluster.api("PUT", `/admin/plans/${planId}`, change);
    expect([reply.status, reply.body["plan"]]).toEqual([200, expect.objectContaining(change)]);
    await Promise.all(programs.map((program) => program.stop("SIGKILL")));
    for (const program of programs) await program.start();
    const wanted = { Memory: memoryMb * mebibyte, NanoCpus: 600_000_000, PidsLimit: 200 };
    await waitFor("the limits", 60_000, async () => {
      const { limits } = await inspected();
      return JSON.stringify(limits) === JSON.stringify(wanted);
    });
  }
  expect((await inspected()).life).toEqual(before.life);
  expect((await edgeFetch(site.url)).status).toBe(200);
});
