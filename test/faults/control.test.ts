import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Fleet } from "./support/fleet.ts";
import { startProber } from "./support/prober.ts";
import { recordFault } from "./support/results.ts";
import { answered, becomes, deploySite, type Site, startSite, startTimes } from "./support/sites.ts";
import { healMs } from "./support/times.ts";

const downMs = 20_000;
/** A node that was taken for lost by mistake would have been replaced by then. */
const watchedMs = 20_000;

let fleet: Fleet;
let site: Site;
beforeAll(async () => {
  ({ fleet, site } = await startSite({ machines: 2, replicas: 2 }));
});
afterAll(() => fleet?.[Symbol.asyncDispose]());

const down = async (name: string) => {
  await fleet.program(name).stop("SIGKILL");
  await delay(downMs);
  await fleet.program(name).start();
};

const faults: { fault: string; happen: () => Promise<void> }[] = [
  {
    fault: "control killed",
    happen: async () => {
      fleet.program("control").kill("SIGKILL");
      await fleet.program("control").waitReady(healMs);
    },
  },
  {
    fault: `control stopped for ${downMs / 1000} s (SIGSTOP)`,
    happen: async () => {
      fleet.program("control").kill("SIGSTOP");
      await delay(downMs);
      fleet.program("control").kill("SIGCONT");
    },
  },
  { fault: `control down for ${downMs / 1000} s`, happen: () => down("control") },
  { fault: `etcd down for ${downMs / 1000} s`, happen: () => down("etcd") },
  { fault: `Postgres down for ${downMs / 1000} s`, happen: () => down("postgres") },
];

test.each(faults)("$fault: the site is served and nothing is started, stopped or moved", async ({ fault, happen }) => {
  const before = await startTimes(fleet, site);
  await using prober = startProber(site.url, 10);
  await answered(prober, "both containers to answer", 10_000, (by) => by.size === 2);
  await happen();
  const healedAt = prober.now();
  for (const node of fleet.nodes) await becomes(fleet, node, ["ready"], healMs);
  const readyAt = prober.now();
  await delay(watchedMs);
  const visits = await prober.stop();
  await recordFault({
    fault,
    observed: "nothing moves, nothing is restarted",
    timesMs: { "all nodes ready after its end": readyAt - healedAt },
    visits: { "two containers": visits },
  });
  expect(await startTimes(fleet, site)).toEqual(before);
  expect(visits.failures).toEqual([]);
});

test("deploying works as before once all of that is over", async () => {
  const again = await deploySite(fleet, 2);
  expect(again.projectId).toBe(site.projectId);
});
