import { connect } from "node:net";
import { thisNode } from "@svc/runtime/programs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { watchStalls } from "../support/stalls.ts";
import type { Fleet } from "./support/fleet.ts";
import { startProber } from "./support/prober.ts";
import { recordFault } from "./support/results.ts";
import {
  act,
  addressOf,
  answered,
  becomes,
  containersOf,
  nodesOf,
  publishedAt,
  type Site,
  settled,
  startSite,
  startTimes,
} from "./support/sites.ts";
import { detectMs, detectSlackMs, drainMs, healMs, replaceMs } from "./support/times.ts";

/** Requests per second, besides those of the prober that times things. */
const load = 100;

let fleet: Fleet;
let site: Site;
beforeAll(async () => {
  ({ fleet, site } = await startSite({ machines: 3, replicas: 2, proxies: true }));
});
afterAll(() => fleet?.[Symbol.asyncDispose]());

/** A node that runs one of the site's containers. */
async function oneOfTwo() {
  const nodes = await nodesOf(fleet, site);
  expect(nodes).toHaveLength(2);
  const [node] = nodes;
  if (node === undefined) throw new Error("unreachable");
  return node;
}

/** A program that says whether the address given takes a connection where apps listen. */
const reach = `
  const socket = require("node:net").connect({ host: process.argv[1], port: 3000, timeout: 2000 });
  const say = (who) => { process.stdout.write(who); process.exit(); };
  socket.on("connect", () => say("somebody")).on("timeout", () => say("nobody")).on("error", () => say("nobody"));
`;

/** What comes back for a request in the clear. */
const said = (host: string, port: number): Promise<string> =>
  new Promise((resolve) => {
    let text = "";
    const socket = connect({ host, port });
    socket.on("data", (chunk: Buffer) => {
      text += chunk.toString("latin1");
    });
    socket.on("error", () => {});
    socket.once("close", () => resolve(text));
    socket.write("GET /api/facts HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
  });

test("draining a node under load loses no request", async () => {
  const drained = await oneOfTwo();
  await using prober = startProber(site.url, load);
  await answered(prober, "both containers to answer", 10_000, (by) => by.size === 2);
  const askedAt = prober.now();
  await act(fleet, drained, "drain", { reason: "maintenance" });
  await becomes(fleet, drained, ["drained"], drainMs);
  const drainedAt = prober.now();
  const left = await settled(fleet, site, 30_000);
  const visits = await prober.stop();
  await recordFault({
    fault: "node drained under load, two containers",
    observed: "the container moves: started elsewhere, routed, then the old one goes",
    timesMs: { "drained after": drainedAt - askedAt },
    visits: { "two containers": visits },
  });
  expect(left.map(({ node }) => node.name)).not.toContain(drained.name);
  expect(visits.failures).toEqual([]);
  expect(visits.sent).toBeGreaterThan(load);
  await act(fleet, drained, "cancel-drain");
  await act(fleet, drained, "uncordon");
  await becomes(fleet, drained, ["ready"], 10_000);
});

test("edges come in by entrances, and nobody else comes in to a container", async () => {
  const [placed] = await containersOf(fleet, site);
  if (placed === undefined) throw new Error("the site runs nowhere");
  const { machine } = placed.node;
  const { address, port } = await publishedAt(placed);
  expect(address).toBe("127.0.0.1");
  // The proxy listens there, and says nothing to whoever is no edge.
  expect(await said(machine.address, port)).not.toContain("HTTP");
  // Nor does a neighbour who sends packets for the container itself.
  const neighbour = fleet.nodes.find(({ machine: other }) => other !== machine)?.machine;
  const inside = await addressOf(placed);
  await neighbour?.run("ip", "route", "replace", `${inside}/32`, "via", machine.address);
  expect(await neighbour?.run(thisNode, "-e", reach, inside)).toBe("nobody");

  await using prober = startProber(site.url, load);
  await answered(prober, "both containers to answer", 10_000, (by) => by.size === 2);
  // As a planned restart of the proxy: another one beside it, and then the first is told to go.
  const first = placed.node.proxy;
  await placed.node.startProxy();
  first?.kill("SIGTERM");
  await first?.ended;
  await answered(prober, "both containers to answer by the other proxy", 10_000, (by) => by.size === 2);
  // Nor is the agent in the way.
  placed.node.agent?.kill("SIGKILL");
  await placed.node.agent?.ended;
  const begunAt = prober.now();
  await answered(prober, "both containers to answer without the agent", 10_000, (by) => by.size === 2);
  await placed.node.startAgent();
  await answered(prober, "both containers to answer", 10_000, (by) => by.size === 2 && prober.now() > begunAt + 2_000);
  const visits = await prober.stop();
  await recordFault({
    fault: "database proxy of a node restarted as planned, and its agent killed, under load",
    observed: "edges come in by the other proxy at once, and without the agent",
    visits: { "two containers": visits },
  });
  expect(visits.failures).toEqual([]);
});

test("a partition stops nothing, and leaves one container of each replica when it heals", async () => {
  const cut = await oneOfTwo();
  const before = await startTimes(fleet, site);
  await using prober = startProber(site.url, 10);
  await answered(prober, "both containers to answer", 10_000, (by) => by.size === 2);
  const cutAt = prober.now();
  using stalls = watchStalls();
  await cut.machine.plug(false);
  const detectedMs = (await becomes(fleet, cut, ["unreachable"], detectMs + 10_000)) - stalls.take();
  const replacedAt = await answered(
    prober,
    "two containers to answer again",
    replaceMs + 20_000,
    (by) => by.size === 2,
  );
  // What runs behind the cut cable runs on.
  expect(await startTimes(fleet, site)).toMatchObject(before);
  const healedAt = prober.now();
  await cut.machine.plug(true);
  await becomes(fleet, cut, ["ready"], healMs);
  await settled(fleet, site, healMs);
  const settledAt = prober.now();
  const visits = await prober.stop();
  await recordFault({
    fault: "partition of a node, both ways, two containers",
    observed: "its container runs on and is replaced; when the cable is back one of the two goes",
    timesMs: {
      "unreachable after": detectedMs,
      "two containers answer again after": replacedAt - cutAt,
      "two containers after healing": settledAt - healedAt,
    },
    visits: { "two containers": visits },
  });
  expect(detectedMs).toBeLessThan(detectMs + detectSlackMs);
  expect(visits.failures).toEqual([]);
});

test("a node that loses power under load takes no request with it that another container could serve", async () => {
  const lost = await oneOfTwo();
  const gone = (await containersOf(fleet, site)).filter(({ node }) => node === lost);
  await using prober = startProber(site.url, load);
  await answered(prober, "both containers to answer", 10_000, (by) => by.size === 2);
  const cutAt = prober.now();
  using stalls = watchStalls();
  await lost.machine.cutPower();
  const detectedMs = (await becomes(fleet, lost, ["unreachable"], detectMs + 10_000)) - stalls.take();
  const detectedAt = prober.now();
  const replacedAt = await answered(
    prober,
    "another second container to answer",
    replaceMs + 20_000,
    (by) => [...by].filter((one) => !gone.some(({ hostname }) => hostname === one)).length === 2,
  );
  const visits = await prober.stop();
  const after = prober.report(detectedAt + 3_000);
  const stoodStillMs = stalls.take();
  await recordFault({
    fault: "node loses power under load, two containers",
    observed: `the other one answers; p99 ${visits.latencyMs.p99} ms, and ${after.latencyMs.p99} ms once the route has dropped the dead one`,
    timesMs: { "unreachable after": detectedMs, "two containers answer again after": replacedAt - cutAt },
    visits: { "two containers": visits },
  });
  expect(detectedMs).toBeLessThan(detectMs + detectSlackMs);
  expect(replacedAt - cutAt).toBeLessThan(replaceMs);
  expect(visits.failures).toEqual([]);
  // Nobody waits for a machine that is known to be gone.
  expect(after.latencyMs.max - stoodStillMs).toBeLessThan(900);

  // What it ran is gone, and what it runs from now on is reached as before.
  await lost.powerOn();
  await becomes(fleet, lost, ["ready"], healMs);
  for (const placed of await settled(fleet, site, healMs))
    expect(await publishedAt(placed)).toMatchObject({ address: "127.0.0.1" });
});
