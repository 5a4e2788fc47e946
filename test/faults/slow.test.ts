import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Fleet } from "./support/fleet.ts";
import { startProber } from "./support/prober.ts";
import { recordFault } from "./support/results.ts";
import { answered, becomes, nodeOf, type Site, settled, startSite, startTimes } from "./support/sites.ts";
import { detectMs, healMs } from "./support/times.ts";

const slowMs = 40_000;
const kilobitsPerSecond = 256;
const lossShare = 0.05;
const runningShare = 0.3;

let fleet: Fleet;
let site: Site;
beforeAll(async () => {
  ({ fleet, site } = await startSite({ machines: 3, replicas: 2 }));
});
afterAll(() => fleet?.[Symbol.asyncDispose]());

test("a slow machine behind a bad cable is not taken for a lost one", async () => {
  const { machine } = await nodeOf(fleet, site);
  const before = await startTimes(fleet, site);
  await using prober = startProber(site.url, 10);
  await answered(prober, "both containers to answer", 10_000, (by) => by.size === 2);
  await machine.throttle(kilobitsPerSecond);
  await machine.lose("both", null, lossShare);
  await machine.slow(runningShare);
  await delay(slowMs);
  const slow = prober.report();
  await machine.heal();
  await machine.slow(null);
  for (const node of fleet.nodes) await becomes(fleet, node, ["ready"], healMs);
  await settled(fleet, site, healMs);
  const visits = await prober.stop();
  await recordFault({
    fault: `slow node: ${kilobitsPerSecond} kbit/s, ${lossShare * 100} % of packets lost both ways, its processes run ${runningShare * 100} % of the time, for ${slowMs / 1000} s`,
    observed: `nothing moves; p50 ${slow.latencyMs.p50} ms, p99 ${slow.latencyMs.p99} ms meanwhile`,
    visits: { "two containers": visits },
  });
  expect(await startTimes(fleet, site)).toEqual(before);
  expect(visits.failures).toEqual([]);
});

test("a machine all of whose processes hang is replaced, and nobody is sent to it any more", async () => {
  const hung = await nodeOf(fleet, site);
  await using prober = startProber(site.url, 10);
  await answered(prober, "both containers to answer", 10_000, (by) => by.size === 2);
  const hungAt = prober.now();
  await hung.machine.freeze(true);
  const detectedMs = await becomes(fleet, hung, ["unreachable"], detectMs + 10_000);
  const replacedAt = await answered(prober, "two containers to answer again", detectMs + 10_000, (by) => by.size === 2);
  await delay(5_000);
  const after = prober.report(replacedAt);
  const thawedAt = prober.now();
  await hung.machine.freeze(false);
  await becomes(fleet, hung, ["ready"], healMs);
  await settled(fleet, site, healMs);
  const settledAt = prober.now();
  const visits = await prober.stop();
  await recordFault({
    fault: "every process of a node hangs, its kernel does not",
    observed: "visitors that meet it wait until it is known to be lost; then nobody is sent to it",
    timesMs: {
      "unreachable after": detectedMs,
      "two containers answer again after": replacedAt - hungAt,
      "two containers after its return": settledAt - thawedAt,
    },
    visits: { "two containers": visits },
  });
  expect(after.failures).toEqual([]);
});
