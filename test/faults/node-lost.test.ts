import { afterAll, beforeAll, expect, test } from "vitest";
import type { Fleet } from "./support/fleet.ts";
import { recordFault } from "./support/results.ts";
import { answered, becomes, containersOf, nodeOf, type Site, settled, startSite, visit } from "./support/sites.ts";
import { detectMs, detectSlackMs, healMs, replaceMs } from "./support/times.ts";

let fleet: Fleet;
let site: Site;
beforeAll(async () => {
  ({ fleet, site } = await startSite({ machines: 2, replicas: 1 }));
});
afterAll(() => fleet?.[Symbol.asyncDispose]());

test("a site with one container is back on another node half a minute after its node lost power", async () => {
  const lost = await nodeOf(fleet, site);
  await using prober = await visit(site);
  const before = new Set((await containersOf(fleet, site)).map(({ hostname }) => hostname));

  const cutAt = prober.now();
  await lost.machine.cutPower();
  const detectedMs = await becomes(fleet, lost, ["unreachable"], detectMs + 10_000);
  const servedAt = await answered(prober, "another container to answer", replaceMs + 20_000, (by) =>
    [...by].some((one) => !before.has(one)),
  );

  const backAt = prober.now();
  await lost.powerOn();
  await becomes(fleet, lost, ["ready"], healMs);
  const [only] = await settled(fleet, site, healMs);
  const settledAt = prober.now();
  const visits = await prober.stop();
  await recordFault({
    fault: "node loses power, one container",
    observed: "its container is started on another node; when the machine is back, its old container goes",
    timesMs: {
      "unreachable after": detectedMs,
      "served again after": servedAt - cutAt,
      "one container after the machine's return": settledAt - backAt,
    },
    visits: { "one container": visits },
  });
  expect(detectedMs).toBeLessThan(detectMs + detectSlackMs);
  expect(servedAt - cutAt).toBeLessThan(replaceMs);
  // The old node came back with its identity, and what it ran there did not.
  expect(only?.node.name).not.toBe(lost.name);
  expect(prober.report(servedAt + 1_000).failures).toEqual([]);
  expect(visits.longestGapMs).toBeLessThan(replaceMs);
});
