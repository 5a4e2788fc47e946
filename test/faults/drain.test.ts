import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { waitFor } from "../support/wait-for.ts";
import { type Fleet, startFleet } from "./support/fleet.ts";
import { startProber } from "./support/prober.ts";
import { recordFault } from "./support/results.ts";
import { act, answered, becomes, deploySite, detailOf, nodeOf, type Site, settled, viewOf } from "./support/sites.ts";
import { drainMs } from "./support/times.ts";

const load = 100;
const begunMs = 15_000;

let fleet: Fleet;
let site: Site;
beforeAll(async () => {
  fleet = await startFleet({ machines: 2 });
  site = await deploySite(fleet, 1);
});
afterAll(() => fleet?.[Symbol.asyncDispose]());

async function watch() {
  const prober = startProber(site.url, load);
  await answered(prober, "the first answers", 10_000, (by) => by.size > 0);
  return prober;
}

const others = (name: string) => fleet.nodes.filter((node) => node.name !== name);

test("draining the node of a site's only container under load loses no request", async () => {
  const drained = await nodeOf(fleet, site);
  await using prober = await watch();
  const askedAt = prober.now();
  await act(fleet, drained, "drain");
  await becomes(fleet, drained, ["drained"], drainMs);
  const drainedAt = prober.now();
  const [only] = await settled(fleet, site, drainMs);
  const visits = await prober.stop();
  await recordFault({
    fault: "node drained under load, one container",
    observed: "its container is started on another node, routed, and then it goes",
    timesMs: { "drained after": drainedAt - askedAt },
    visits: { "one container": visits },
  });
  expect(only?.node.name).not.toBe(drained.name);
  expect(visits.failures).toEqual([]);
  await act(fleet, drained, "cancel-drain");
  await act(fleet, drained, "uncordon");
});

test("a drain that is cancelled in the middle leaves one container, and the node cordoned", async () => {
  const drained = await nodeOf(fleet, site);
  await using prober = await watch();
  await act(fleet, drained, "drain");
  const [other] = others(drained.name);
  await waitFor("a replacement to be placed", drainMs, async () => {
    const { allocated } = await viewOf(fleet, other?.name ?? "");
    return (allocated?.memoryMb ?? 0) > 0;
  });
  await act(fleet, drained, "cancel-drain");
  expect((await viewOf(fleet, drained.name)).status).toBe("cordoned");
  // What was begun ends one way or the other.
  await delay(begunMs);
  await settled(fleet, site, drainMs);
  const visits = await prober.stop();
  await recordFault({
    fault: "drain cancelled in the middle",
    observed: "one container is left; the node stays cordoned",
    visits: { "one container": visits },
  });
  expect(visits.failures).toEqual([]);
  await act(fleet, drained, "uncordon");
});

test("a drain with nowhere to go says so, keeps the site, and goes on when there is room", async () => {
  const drained = await nodeOf(fleet, site);
  const [other] = others(drained.name);
  if (other === undefined) throw new Error("there is no other node");
  await act(fleet, other, "cordon");
  await using prober = await watch();
  await act(fleet, drained, "drain");
  const blocker = await waitFor("the drain to say what it waits for", drainMs, async () =>
    (await detailOf(fleet, drained)).drain.blockers.find(({ code }) => code === "NODE_CAPACITY_UNAVAILABLE"),
  );
  expect(blocker.kind).toBe("serve");
  expect(prober.report().failures).toEqual([]);
  await act(fleet, other, "uncordon");
  await becomes(fleet, drained, ["drained"], drainMs);
  const [only] = await settled(fleet, site, drainMs);
  const visits = await prober.stop();
  await recordFault({
    fault: "drain with no room elsewhere",
    observed: `the site stays where it is; the drain names it and says: ${blocker.why}`,
    visits: { "one container": visits },
  });
  expect(only?.node.name).toBe(other.name);
  expect(visits.failures).toEqual([]);
});
