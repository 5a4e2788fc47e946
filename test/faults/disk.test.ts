import { afterAll, beforeAll, expect, test } from "vitest";
import { waitFor } from "../support/wait-for.ts";
import { fillDisk } from "./support/fill-disk.ts";
import { type Fleet, startFleet } from "./support/fleet.ts";
import { recordFault } from "./support/results.ts";
import { deploySite, nodeOf, nodesOf, type Site, startTimes, viewOf, visit } from "./support/sites.ts";

const diskMb = 3_000;
const floorMb = 300;
const noticedMs = 120_000;

let fleet: Fleet;
let site: Site;
beforeAll(async () => {
  fleet = await startFleet({ machines: 2, diskMb, agent: { SVC_AGENT_DISK_FLOOR_MB: String(floorMb) } });
  site = await deploySite(fleet, 1);
});
afterAll(() => fleet?.[Symbol.asyncDispose]());

test("a machine whose disk is full to the last byte serves on, takes nothing new, and recovers", async () => {
  const full = await nodeOf(fleet, site);
  const before = await startTimes(fleet, site);
  await using prober = await visit(site);

  const filledAt = prober.now();
  const makeRoom = await fillDisk(full.machine);
  await waitFor("the node to say that it is full", noticedMs, async () => (await viewOf(fleet, full.name)).diskFull);
  const noticedAt = prober.now();
  const elsewhere = await deploySite(fleet, 1, "beside");
  expect((await nodesOf(fleet, elsewhere)).map(({ name }) => name)).not.toContain(full.name);
  expect(await startTimes(fleet, site)).toEqual(before);

  await makeRoom();
  const freedAt = prober.now();
  await waitFor("the node to have room", noticedMs, async () => !(await viewOf(fleet, full.name)).diskFull);
  const roomAt = prober.now();
  const both = await deploySite(fleet, 2, "beside");
  expect((await nodesOf(fleet, both)).map(({ name }) => name)).toContain(full.name);
  const visits = await prober.stop();
  await recordFault({
    fault: "disk of a node full",
    observed: "what runs there serves on, new work goes elsewhere; it takes work again once there is room",
    timesMs: { "known after": noticedAt - filledAt, "takes work again after": roomAt - freedAt },
    visits: { "one container": visits },
  });
  expect(await startTimes(fleet, site)).toEqual(before);
  expect(visits.failures).toEqual([]);
});
