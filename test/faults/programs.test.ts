import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { waitFor } from "../support/wait-for.ts";
import type { Fleet } from "./support/fleet.ts";
import { recordFault } from "./support/results.ts";
import {
  answeredSince,
  becomes,
  containersOf,
  nodeOf,
  type Site,
  settled,
  startSite,
  startTimes,
  visit,
} from "./support/sites.ts";
import { healMs } from "./support/times.ts";

const frozenMs = 20_000;
const hungMs = 30_000;

let fleet: Fleet;
let one: Site;
beforeAll(async () => {
  ({ fleet, site: one } = await startSite({ machines: 2, replicas: 1 }));
});
afterAll(() => fleet?.[Symbol.asyncDispose]());

test("an agent that is killed and comes back is not noticed", async () => {
  const node = await nodeOf(fleet, one);
  const before = await startTimes(fleet, one);
  await using prober = await visit(one);
  const killedAt = prober.now();
  node.agent?.kill("SIGKILL");
  await node.agent?.ended;
  await node.startAgent();
  await becomes(fleet, node, ["ready"], healMs);
  const readyAt = prober.now();
  await settled(fleet, one, healMs);
  const visits = await prober.stop();
  await recordFault({
    fault: "agent killed and started again",
    observed: "its container is the same one",
    timesMs: { "ready after": readyAt - killedAt },
    visits: { "one container": visits },
  });
  expect(await startTimes(fleet, one)).toEqual(before);
  expect(visits.failures).toEqual([]);
});

test("an agent that hangs past its lease loses no request, and leaves one container", async () => {
  const node = await nodeOf(fleet, one);
  await using prober = await visit(one);
  node.agent?.kill("SIGSTOP");
  const detectedMs = await becomes(fleet, node, ["unreachable"], healMs);
  await delay(Math.max(0, frozenMs - detectedMs));
  expect((await containersOf(fleet, one)).filter(({ node: at }) => at === node)[0]?.state).toBe("running");
  const resumedAt = prober.now();
  node.agent?.kill("SIGCONT");
  await becomes(fleet, node, ["ready"], healMs);
  await settled(fleet, one, healMs);
  const settledAt = prober.now();
  const visits = await prober.stop();
  await recordFault({
    fault: `agent stopped for ${frozenMs / 1000} s (SIGSTOP)`,
    observed: "its container serves on until another one does; one of the two goes when the agent is back",
    timesMs: { "unreachable after": detectedMs, "one container after its return": settledAt - resumedAt },
    visits: { "one container": visits },
  });
  expect(visits.failures).toEqual([]);
});

test("an engine that is killed and comes back serves again by itself", async () => {
  const node = await nodeOf(fleet, one);
  const before = await startTimes(fleet, one);
  await using prober = await visit(one);
  const killedAt = prober.now();
  node.machine.engine?.kill("SIGKILL");
  await node.machine.engine?.ended;
  await node.machine.startEngine();
  const startedAt = prober.now();
  // A start that is none of before: the engine ends what it finds.
  await waitFor("its container to be started again", healMs, async () => {
    const since = Object.values(await startTimes(fleet, one));
    return since.length === 1 && since.every((each) => !Object.values(before).includes(each));
  });
  await settled(fleet, one, healMs);
  const servedAt = await answeredSince(prober, prober.now(), healMs);
  await delay(2_000);
  const visits = await prober.stop();
  await recordFault({
    fault: "engine killed and started again",
    observed: "the engine ends its containers when it starts; the agent starts them again",
    timesMs: {
      "engine back after": startedAt - killedAt,
      "served after the engine's return": servedAt - startedAt,
    },
    visits: { "one container": visits },
  });
  expect((await nodeOf(fleet, one)).name).toBe(node.name);
  expect(prober.report(servedAt).failures).toEqual([]);
});

test("an engine that hangs stops nothing and moves nothing", async () => {
  const node = await nodeOf(fleet, one);
  const before = await startTimes(fleet, one);
  await using prober = await visit(one);
  const stoppedAt = prober.now();
  node.machine.engine?.kill("SIGSTOP");
  await delay(hungMs);
  node.machine.engine?.kill("SIGCONT");
  const resumedAt = prober.now();
  await becomes(fleet, node, ["ready"], healMs);
  await settled(fleet, one, healMs);
  const settledAt = prober.now();
  await delay(5_000);
  const visits = await prober.stop();
  await recordFault({
    fault: `engine stopped for ${hungMs / 1000} s (SIGSTOP)`,
    observed: "its container serves on; nothing moves",
    timesMs: { "hung for": resumedAt - stoppedAt, "as before after its return": settledAt - resumedAt },
    visits: { "one container": visits },
  });
  expect(await startTimes(fleet, one)).toEqual(before);
  expect(visits.failures).toEqual([]);
});
