import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Fleet } from "./support/fleet.ts";
import { type Operation, violations } from "./support/history.ts";
import { startProber } from "./support/prober.ts";
import { recordFault, recordHistory } from "./support/results.ts";
import { answered, becomes, deploySite, nodeOf, type Site, settled, startSite, startTimes } from "./support/sites.ts";
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

test("what a machine held that slept through a deploy is not served when it wakes up, nor runs twice", async () => {
  await using clock = startProber(site.url, 1);
  const history: Operation[] = [];
  /** The same site again, as the next version of it. */
  const deployVersion = async (version: number) => {
    const startMs = clock.now();
    const one = await deploySite(fleet, 1, "one-of-it");
    history.push({ op: "deploy", version, startMs, endMs: clock.now() });
    return one;
  };
  const one = await deployVersion(1);
  const hung = await nodeOf(fleet, one);
  const aheadMs = clock.now();
  await using prober = startProber(one.url, 20);
  await answered(prober, "the first answers", 10_000, (by) => by.size > 0);
  await hung.machine.freeze(true);
  await becomes(fleet, hung, ["unreachable"], detectMs + 10_000);
  expect((await deployVersion(2)).projectId).toBe(one.projectId);

  const deployedAt = prober.now();
  await delay(2_000);
  const wokeAt = prober.now();
  await hung.machine.freeze(false);
  await becomes(fleet, hung, ["ready"], healMs);
  const [only] = await settled(fleet, one, healMs);
  const settledAt = prober.now();
  await delay(2_000);
  const after = prober.report(deployedAt);
  for (const { by, startMs, endMs } of prober.answers()) {
    const version = by === only?.hostname ? 2 : 1;
    history.push({ op: "read", version, startMs: startMs + aheadMs, endMs: endMs + aheadMs });
  }
  await prober.stop();
  await recordHistory("slept-through-a-deploy", history);
  await recordFault({
    fault: "every process of a node hangs through a deploy, its kernel does not",
    observed:
      "whoever comes after the deploy gets what was deployed, also when the machine wakes up; its container goes",
    timesMs: { "one container after its return": settledAt - wokeAt },
    visits: { "one container": after },
  });
  expect(only?.node.name).not.toBe(hung.name);
  expect(violations(history)).toEqual([]);
  expect(after.failures).toEqual([]);
});
