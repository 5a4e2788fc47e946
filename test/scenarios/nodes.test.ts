import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { type Cluster, startCluster } from "../cluster.ts";
import { type Deployed, deploy, parseFacts } from "../support/deploy.ts";
import { edgeFetch } from "../support/edge.ts";
import { waitFor } from "../support/wait-for.ts";

/** A lease of 15 s on both sides, and a moment for everybody to hear of its end. */
const lostMs = 40_000;

let cluster: Cluster;
let site: Deployed;
beforeAll(async () => {
  cluster = await startCluster({ agents: 2 });
  site = await deploy(cluster, await cluster.exampleDir("ssr"));
});
afterAll(() => cluster?.[Symbol.asyncDispose]());

const machine = z.object({
  ...{ id: z.string(), name: z.string(), role: z.string(), status: z.string(), runningPlacements: z.number() },
});
const machines = async () => {
  const { body } = await cluster.api("GET", "/admin/nodes");
  return z
    .array(machine)
    .parse(body["nodes"])
    .filter(({ role }) => role === "node");
};
const holder = () =>
  waitFor("one node to run the site", 60_000, async () => {
    const busy = (await machines()).filter(({ runningPlacements }) => runningPlacements > 0);
    return busy.length === 1 && busy[0];
  });
const nodes = (...words: string[]) => cluster.cli(["admin", "nodes", ...words, "--json"]);
const containers = async () =>
  (await cluster.containers()).filter(
    ({ labels, state }) => labels["svc.project"] === site.project.id && state === "running",
  );

test("a node is emptied and used again by the command line, and the site is there all the while", async () => {
  const from = await holder();
  const failed: unknown[] = [];
  let isOver = false;
  const visiting = (async () => {
    while (!isOver) {
      const status = await edgeFetch(site.url).then(
        (reply) => reply.status,
        (error: unknown) => error,
      );
      if (status !== 200) failed.push(status);
    }
  })();
  const drained = await nodes("drain", from.name, "--reason", "new kernel");
  isOver = true;
  await visiting;
  expect(drained.exitCode, drained.stdout).toBe(0);
  expect(drained.json()).toMatchObject({ drained: true, node: { name: from.name, status: "drained" } });
  expect(failed).toEqual([]);
  expect((await holder()).name).not.toBe(from.name);

  expect((await nodes("cancel-drain", from.name)).json()["node"]).toMatchObject({ status: "cordoned" });
  expect((await nodes("uncordon", from.name)).json()["node"]).toMatchObject({ status: "ready" });
  const { stdout } = await cluster.cli(["admin", "nodes", "show", from.name]);
  for (const kind of ["joined", "connected", "drain-started", "drained", "drain-canceled", "uncordoned"])
    expect(stdout).toContain(kind);
});

test("a dead node is fenced, and its machine comes back to stop what it ran and to be nobody", async () => {
  const lost = await holder();
  // It answers, so there are better ways.
  expect((await nodes("force-fence", lost.name, "--reason", "a test", "--yes")).exitCode).toBe(1);
  const program = cluster.platform.program(lost.name.replace("node", "agent"));
  await program.stop("SIGKILL");
  const [before] = await containers();
  await waitFor("it to be given up", lostMs, async () =>
    (await machines()).some(({ id, status }) => id === lost.id && status === "unreachable"),
  );
  const fenced = await nodes("force-fence", lost.name, "--reason", "pulled the plug", "--yes");
  expect(fenced.exitCode, fenced.stdout).toBe(0);
  await waitFor("another node to run the site", 60_000, async () =>
    (await machines()).some(({ id, runningPlacements }) => id !== lost.id && runningPlacements > 0),
  );
  // When it was fenced before there was another one, visitors are told so until the edge has heard of that.
  await waitFor("its visitors to get there", 30_000, async () => {
    const { hostname } = parseFacts(await (await edgeFetch(`${site.url}/api/facts`)).json());
    return before?.id.startsWith(hostname) === false;
  });

  // It hears that it is nobody any more, takes everything down, and ends.
  await expect(program.start()).rejects.toThrow("was fenced");
  await waitFor("the old container to go", 60_000, async () =>
    (await containers()).every(({ id }) => id !== before?.id),
  );
  expect((await edgeFetch(site.url)).status).toBe(200);
  expect((await nodes("remove", lost.name, "--yes")).json()["node"]).toMatchObject({ status: "removed" });
});
