import { afterAll, beforeAll, expect, test } from "vitest";
import { waitFor } from "../support/wait-for.ts";
import type { Fleet } from "./support/fleet.ts";
import type { Loss } from "./support/machine.ts";
import { recordFault } from "./support/results.ts";
import {
  answered,
  answeredSince,
  becomes,
  nodeOf,
  type Site,
  settled,
  startSite,
  startTimes,
  viewOf,
  visit,
} from "./support/sites.ts";
import { detectMs, healMs } from "./support/times.ts";

/** Shorter than half a lease together with what it takes to reconnect. */
const blipMs = 6_000;

let fleet: Fleet;
let one: Site;
beforeAll(async () => {
  ({ fleet, site: one } = await startSite({ machines: 2, replicas: 1 }));
});
afterAll(() => fleet?.[Symbol.asyncDispose]());

const halves: { fault: string; loss: Loss }[] = [
  { fault: "control does not hear a node", loss: "sent" },
  // Control hears it until it gives up its connection, for which it takes up to 15 s; only then the lease runs out.
  { fault: "a node does not hear control", loss: "received" },
];

test.each(halves)("$fault, but edges reach it: no request is lost and nothing is stopped", async ({ fault, loss }) => {
  const { link, enroll } = fleet.ports;
  const cut = await nodeOf(fleet, one);
  const before = await startTimes(fleet, one);
  await using prober = await visit(one);
  const cutAt = prober.now();
  await cut.machine.lose(loss, [link, enroll]);
  const detectedMs = await becomes(fleet, cut, ["unreachable"], healMs);
  const replacedAt = await answered(prober, "another container to answer", healMs, (by) =>
    [...by].some((each) => !Object.keys(before).some((id) => id.startsWith(each))),
  );
  expect(await startTimes(fleet, one)).toMatchObject(before);
  const healedAt = prober.now();
  await cut.machine.heal();
  await becomes(fleet, cut, ["ready"], healMs);
  await settled(fleet, one, healMs);
  const settledAt = prober.now();
  const visits = await prober.stop();
  await recordFault({
    fault,
    observed: "its container runs on and is served until another one is; the old one goes when the node is back",
    timesMs: {
      "unreachable after": detectedMs,
      "another container answers after": replacedAt - cutAt,
      "one container after healing": settledAt - healedAt,
    },
    visits: { "one container": visits },
  });
  expect(visits.failures).toEqual([]);
});

test("a cable that is out for a few seconds moves nothing", async () => {
  const cut = await nodeOf(fleet, one);
  const before = await startTimes(fleet, one);
  await using prober = await visit(one);
  const cutAt = prober.now();
  await cut.machine.plug(false);
  await waitFor("the cable to be out for a while", 2 * blipMs, () => prober.now() - cutAt > blipMs);
  await cut.machine.plug(true);
  const answersAt = await answeredSince(prober, prober.now(), healMs);
  // Past the end of its lease, had it been lost.
  const seen = new Set<string>();
  await waitFor("a lease to be over", healMs, async () => {
    seen.add((await viewOf(fleet, cut.name)).status);
    return prober.now() - cutAt > detectMs + 2_000;
  });
  await becomes(fleet, cut, ["ready"], healMs);
  const visits = await prober.stop();
  await recordFault({
    fault: `cable out for ${blipMs / 1000} s`,
    observed: "nothing moves, nothing is restarted",
    timesMs: { "answered again after its return": answersAt - cutAt - blipMs },
    visits: { "one container": visits },
  });
  expect(await startTimes(fleet, one)).toEqual(before);
  expect(seen).not.toContain("unreachable");
  expect(prober.report(answersAt).failures).toEqual([]);
});
