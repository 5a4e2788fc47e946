import { afterAll, beforeAll, expect, test } from "vitest";
import { watchStalls } from "../support/stalls.ts";
import type { Fleet } from "./support/fleet.ts";
import { startProber } from "./support/prober.ts";
import { recordFault } from "./support/results.ts";
import {
  act,
  answered,
  becomes,
  containersOf,
  nodesOf,
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
  ({ fleet, site } = await startSite({ machines: 3, replicas: 2 }));
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
});
