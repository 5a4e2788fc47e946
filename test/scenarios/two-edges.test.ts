import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { type Cluster, startCluster } from "../cluster.ts";
import { loopbackAgent } from "../support/edge.ts";
import { addEdge, type SecondEdge } from "../support/second-edge.ts";
import { postSource, settled } from "../support/source.ts";
import { type Visitors, visitedWhile } from "../support/visitors.ts";
import { waitFor } from "../support/wait-for.ts";

/** Two edges of one platform, of which either may be new, drained, or dead: visitors of the other notice nothing. */

const waitMs = 120_000;
const firstAddress = "127.0.0.1";

interface Site {
  projectId: string;
  type: "ssr" | "static";
  url: string;
}

let cluster: Cluster;
let second: SecondEdge;
let sites: Site[];
const opened = new AsyncDisposableStack();
beforeAll(async () => {
  cluster = opened.use(await startCluster({ agents: 1, control: { SVC_DRAIN_SECONDS: "0.25" } }));
  sites = await Promise.all(
    (["ssr", "static"] as const).map(async (type) => {
      const { body } = await cluster.api("POST", "/projects", { name: `Two ${type}`, type });
      const { id } = z.looseObject({ id: z.string() }).parse(body["project"]);
      return { projectId: id, type, url: "" };
    }),
  );
  await deployAll(1);
});
afterAll(() => opened.disposeAsync());

const server = (edition: number) =>
  `require("node:http").createServer((_, reply) => reply.end("edition ${edition}")).listen(Number(process.env.PORT));`;

/** Deploys this edition of both sites; resolves when both run, to all that their timelines say. */
async function deployAll(edition: number): Promise<string> {
  const dockerfile = `FROM ${cluster.platform.baseImage}\nCOPY . .\nCMD ["node", "server.js"]\n`;
  const timelines = sites.map(async (site) => {
    const { projectId, type } = site;
    const build = type === "ssr" ? { dockerfile: "Dockerfile" } : { output: "." };
    const files: Record<string, string> =
      type === "ssr"
        ? { "server.js": server(edition), Dockerfile: dockerfile }
        : { "index.html": `edition ${edition}` };
    const manifest = { version: 2, app: { name: `Two ${type}`, type }, build };
    const { id, url } = await postSource(cluster, { projectId, manifest, files });
    site.url = url;
    const { status, error } = await settled(cluster, id);
    expect([status, error]).toEqual(["running", null]);
    return JSON.stringify((await cluster.api("GET", `/deployments/${id}/timeline`)).body);
  });
  return (await Promise.all(timelines)).join("\n");
}

const agents = new Map<string, ReturnType<typeof loopbackAgent>>();
/** One request on a connection of its own to what listens at this address. */
async function ask(url: string, address: string): Promise<{ status: number; text: string }> {
  const agent = agents.get(address) ?? loopbackAgent({ pipelining: 0 }, address);
  agents.set(address, agent);
  const { origin, pathname: path } = new URL(url);
  const { statusCode, body } = await agent.request({ origin, path, method: "GET", headersTimeout: 15_000 });
  return { status: statusCode, text: await body.text() };
}
const health = (address: string) =>
  ask(`http://edge.localhost:${cluster.platform.ports.edgeHealth}/_svc/edge`, address);
const isWell = async (address: string) => (await health(address)).status === 200;
/** What both sites show at one edge. */
const shown = async (address: string) =>
  (await Promise.all(sites.map(({ url }) => ask(url, address)))).map(({ text }) => text);
const showsEverywhere = (edition: number) =>
  waitFor(`edition ${edition} at both edges`, waitMs, async () => {
    const pages = [...(await shown(firstAddress)), ...(await shown(second.address))];
    return pages.every((page) => page === `edition ${edition}`);
  });

const edgeOf = z.looseObject({
  edge: z.looseObject({
    ...{ inRotation: z.boolean(), phase: z.string().nullable() },
    ...{ lacks: z.string().nullable(), unready: z.string().nullable() },
  }),
});
let secondId = "";
/** What control says of the second edge. */
async function standing() {
  const { body } = await cluster.api("GET", `/admin/nodes/${secondId}`);
  return edgeOf.parse(body["node"]).edge;
}
async function act(...words: string[]): Promise<void> {
  const { exitCode, stdout, stderr } = await cluster.cli(["admin", "nodes", ...words]);
  expect([exitCode, stdout + stderr]).toEqual([0, expect.any(String)]);
}
const idsOfEdges = async (): Promise<string[]> => {
  const { body } = await cluster.api("GET", "/admin/nodes");
  const nodes = z.array(z.looseObject({ id: z.string(), role: z.string() })).parse(body["nodes"]);
  return nodes.filter(({ role }) => role === "edge").map(({ id }) => id);
};

/** Visitors of every site who know these addresses, and are content with any of these editions. */
const visitorsOf = (addresses: readonly string[], editions: readonly number[]): Visitors[] =>
  sites.map(({ url }) => ({
    ...{ url, addresses },
    isGood: (page) => editions.some((edition) => page === `edition ${edition}`),
  }));
/** Nobody who visits so notices what happens meanwhile. */
async function unnoticed(visitors: readonly Visitors[], what: () => Promise<void>): Promise<void> {
  for (const { sent, failures } of await visitedWhile(visitors, what)) {
    expect(failures).toEqual([]);
    expect(sent).toBeGreaterThan(3);
  }
}

test("a new edge is sent visitors once it is whole, and not before", { timeout: 600_000 }, async () => {
  const before = await idsOfEdges();
  // Without it no edge gets the files of a site.
  const registry = cluster.platform.program("registry");
  await registry.stop();
  await unnoticed(visitorsOf([firstAddress], [1]), async () => {
    second = opened.use(await addEdge(cluster, { SVC_EDGE_DRAIN_SECONDS: "5" }));
    secondId = (await idsOfEdges()).find((id) => !before.includes(id)) ?? "";
    await waitFor("control to hear what it lacks", waitMs, async () => (await standing()).lacks?.includes("1 hosts"));
    expect(await health(second.address)).toMatchObject({ status: 503, text: expect.stringContaining("not whole") });
    expect(await standing()).toMatchObject({ inRotation: false });
    await registry.start();
    await waitFor("the new edge to be well", waitMs, () => isWell(second.address));
    // The very moment after.
    expect(await shown(second.address)).toEqual(["edition 1", "edition 1"]);
    expect(await standing()).toMatchObject({ inRotation: true, lacks: null });
  });
});

test("an edge is drained and taken back, and no deployment waits for it", { timeout: 600_000 }, async () => {
  // Caddy may reset a connection that it has not accepted yet when it is given another configuration.
  const visitors = [...visitorsOf([firstAddress], [1, 2]), ...visitorsOf([second.address, firstAddress], [1, 2])];
  await unnoticed(visitors, async () => {
    await act("drain", secondId, "--reason", "new kernel", "--no-wait");
    const phases: string[] = [];
    const isDrained = waitFor("the edge to be drained", waitMs, async () => {
      const { phase } = await standing();
      if (phase !== null && phase !== "serving" && phase !== phases.at(-1)) phases.push(phase);
      return phase === "drained";
    });
    await waitFor("health to say it", waitMs, async () => /drained/.test((await health(second.address)).text));
    expect([await isWell(firstAddress), await isWell(second.address)]).toEqual([true, false]);
    expect(await deployAll(2)).not.toContain("ROUTE_DIVERGED");
    await isDrained;
    // Whoever still comes is served, by the newest table.
    await showsEverywhere(2);
    expect(phases.length).toBeGreaterThan(1);
    expect(["leaving", "closing", "drained"].filter((phase) => phases.includes(phase))).toEqual(phases);
    const { stdout } = await cluster.cli(["admin", "nodes", "show", secondId]);
    expect(stdout).toMatch(/visitors.*drained/);
    await act("cancel-drain", secondId);
    await act("uncordon", secondId);
    await waitFor("the edge to be well again", waitMs, () => isWell(second.address));
    expect((await standing()).inRotation).toBe(true);
  });
});

test("a router is killed and stays away: its edge serves what it did, and a deployment ends", {
  timeout: 600_000,
}, async () => {
  await unnoticed([...visitorsOf([firstAddress], [2, 3]), ...visitorsOf([second.address], [2, 3])], async () => {
    await second.router.stop("SIGKILL");
    // It is in rotation still, since visitors still come to it.
    expect(await deployAll(3)).toContain("ROUTE_DIVERGED");
    expect(await shown(firstAddress)).toEqual(["edition 3", "edition 3"]);
    expect(await shown(second.address)).toEqual(["edition 2", "edition 2"]);
    await second.router.start();
    await waitFor("the edge to be well", waitMs, () => isWell(second.address));
    await showsEverywhere(3);
  });
});

test("a Caddy is killed and stays away, and whoever has both addresses reaches the sites", {
  timeout: 600_000,
}, async () => {
  const visitors = [...visitorsOf([firstAddress], [3]), ...visitorsOf([second.address, firstAddress], [3])];
  await unnoticed(visitors, async () => {
    await second.caddy.stop("SIGKILL");
    await expect(shown(second.address)).rejects.toThrow();
    await waitFor("health to say it", waitMs, async () => /Caddy/.test((await health(second.address)).text));
    expect(await isWell(firstAddress)).toBe(true);
    await second.caddy.start();
    await waitFor("the edge to be well", waitMs, () => isWell(second.address));
    expect(await shown(second.address)).toEqual(["edition 3", "edition 3"]);
  });
});
