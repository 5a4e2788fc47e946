import { cp } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Fleet, startFleet } from "./support/fleet.ts";
import { recordFault } from "./support/results.ts";
import { answered, becomes, deploySite, nodeOf, type Site, startTimes, viewOf, visit } from "./support/sites.ts";

const noticedMs = 90_000;

let fleet: Fleet;
let site: Site;
beforeAll(async () => {
  fleet = await startFleet({ machines: 3, on: 2 });
  site = await deploySite(fleet, 1);
  await fleet.settled();
  await fleet.node(3).bootEngine();
});
afterAll(() => fleet?.[Symbol.asyncDispose]());

test("two machines with one identity are both kept out, and what they run goes on", async () => {
  const original = await nodeOf(fleet, site);
  const copy = fleet.node(3);
  const before = await startTimes(fleet, site);
  await using prober = await visit(site);
  // As from a disk image: the journal is not being written at that moment.
  await original.agent?.stop(10_000);
  const dir = join(copy.machine.disk, "clone");
  await cp(join(original.machine.disk, "agent"), dir, { recursive: true });
  await original.startAgent();
  const clonedAt = prober.now();
  // With the settings of the original, too: one that told the address of its own machine would be turned away.
  await copy.launchAgent({
    ...{ SVC_AGENT_DIR: dir, SVC_AGENT_NAME: original.name },
    SVC_AGENT_ADDRESS: original.machine.address,
  });
  await becomes(fleet, original, ["quarantined"], noticedMs);
  const quarantinedAt = prober.now();
  expect(await startTimes(fleet, site)).toMatchObject(before);
  await copy.agent?.stop(10_000);
  // That one of them ends heals nothing: nobody knows which of the two was right.
  const servedAt = await answered(prober, "another container to answer", 60_000, (by) =>
    [...by].some((each) => !Object.keys(before).some((id) => id.startsWith(each))),
  );
  expect((await viewOf(fleet, original.name)).status).toBe("quarantined");
  expect(await startTimes(fleet, site)).toMatchObject(before);
  const visits = await prober.stop();
  await recordFault({
    fault: "agent's directory cloned to another machine",
    observed: "the node is quarantined, its container runs on and is replaced on another node",
    timesMs: {
      "quarantined after": quarantinedAt - clonedAt,
      "served by another node after": servedAt - clonedAt,
    },
    visits: { "one container": visits },
  });
  expect(visits.failures).toEqual([]);
});
