import { expect, test } from "vitest";
import { aBranch, anEntry } from "../testing/branch.ts";
import { pgOutcome } from "../testing/pg-client.ts";
import { aPlace, bridge, startProxy } from "../testing/proxy.ts";
import { waitFor } from "../testing/wait-for.ts";

test("operators see whether it serves, and nothing that names a tenant", async () => {
  const branch = aBranch();
  const [here, gone] = [bridge(1), "192.0.2.1"];
  const entry = (bridges: string[]) => anEntry(branch, { engine: "postgres", bridges, at: null });
  await using place = await aPlace({ SVC_METRICS_LISTEN: "127.0.0.1:0" });
  await using proxy = await startProxy(place);
  const ask = async (path: string) => fetch(`http://127.0.0.1:${proxy.metricsPort}${path}`);
  const isReady = async () => (await ask("/readyz")).status === 200;
  expect(await isReady()).toBe(false);
  // An address that is not there keeps nobody else from being served.
  await place.put([entry([here, gone])]);
  expect(await pgOutcome(here, branch)).toBe("57P03");
  expect([await isReady(), (await ask("/healthz")).status]).toEqual([false, 200]);
  await place.put([entry([here])]);
  await waitFor(isReady);
  await waitFor(async () =>
    (await (await ask("/metrics")).text()).includes('svc_dbproxy_listeners{engine="postgres"} 1'),
  );
  const metrics = await (await ask("/metrics")).text();
  expect(metrics).toContain('svc_dbproxy_refusals_total{engine="postgres",why="away"} 1');
  expect([metrics.includes(branch.id), metrics.includes(branch.role), metrics.includes(here)]).toEqual([
    false,
    false,
    false,
  ]);
});
