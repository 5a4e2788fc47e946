import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Cluster, startCluster } from "../../cluster.ts";
import { type Deployed, deploy } from "../../support/deploy.ts";
import { edgeFetch } from "../../support/edge.ts";
import { postgresEnded } from "../../support/postgres-end.ts";
import { waitFor } from "../../support/wait-for.ts";

let cluster: Cluster;
beforeAll(async () => {
  cluster = await startCluster({ agents: 1 });
});
afterAll(() => cluster?.[Symbol.asyncDispose]());

describe.each(["static", "ssr"] as const)("the %s example", (name) => {
  let site: Deployed;
  beforeAll(async () => {
    site = await deploy(cluster, await cluster.exampleDir(name));
  });

  test("shows the platform's 503 page while it is stopped", async () => {
    expect((await edgeFetch(site.url)).status).toBe(200);
    const result = await cluster.cli(["stop", "--json", "--project", site.slug]);
    expect(result.exitCode).toBe(0);
    expect(result.json()["deployment"]).toMatchObject({ status: "stopped" });
    const reply = await edgeFetch(site.url);
    expect(reply.status).toBe(503);
    expect(reply.headers.get("content-type")).toContain("text/html");
    expect(await reply.text()).toMatch(/<title>[^<]+<\/title>/);
    await waitFor("no container of the stopped site", 60_000, async () =>
      (await cluster.containers()).every(({ labels }) => labels["svc.project"] !== site.project.id),
    );
  });

  test("cannot be stopped twice", async () => {
    const again = await cluster.api("POST", `/projects/${site.project.id}/stop`);
    expect(again.status).toBe(409);
    expect(again.body["error"]).toMatchObject({ code: "STOP_UNAVAILABLE" });
  });

  test("is still stopped after everything was killed and started again", async () => {
    const order = ["postgres", "etcd", "registry", "control", "agent-1", "caddy", "router"];
    const programs = order.map((program) => cluster.platform.program(program));
    await Promise.all(programs.map((program) => program.stop("SIGKILL")));
    await postgresEnded(cluster);
    for (const program of programs) await program.start();
    const reply = await waitFor("the edge", 30_000, () => edgeFetch(site.url).catch(() => null));
    expect(reply.status).toBe(503);
    await waitFor("the node to be back", 60_000, async () => {
      const { body } = await cluster.api("GET", "/admin/nodes");
      return JSON.stringify(body["nodes"]).includes('"ready"');
    });
  });

  test("is back after `svc start`", async () => {
    const result = await cluster.cli(["start", "--json", "--project", site.slug]);
    expect(result.exitCode).toBe(0);
    expect(result.json()["deployment"]).toMatchObject({ status: "running" });
    expect((await edgeFetch(site.url)).status).toBe(200);
  });
});
