import { appendFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { TcpProxy } from "@svc/control/stores/etcd/testing-proxy";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { ClusterClient } from "../cluster.ts";
import { deploy } from "../support/deploy.ts";
import { compactEtcd } from "../support/leaders.ts";
import { waitFor } from "../support/wait-for.ts";
import { type Fleet, startFleet } from "./support/fleet.ts";
import { inOffice } from "./support/office.ts";
import { recordFault } from "./support/results.ts";
import { becomes, type Site, settled, startTimes, visit } from "./support/sites.ts";
import { healMs } from "./support/times.ts";

/** Longer than every lease of a replica and of its sessions. */
const awayMs = 40_000;
const electedMs = 30_000;
/** Every loop of a leader has had several rounds by then, and its grace for nodes is over. */
const watchedMs = 30_000;
/** Three deploys on a busy machine take minutes. */
const hangsMs = 1_200_000;

let fleet: Fleet;
let cwd = "";
let site: Site;
beforeAll(async () => {
  fleet = await startFleet({ machines: 2, replicas: 2, ownWays: true });
  cwd = await fleet.ssrDir({ replicas: 1, slug: "example-ssr" });
  const { url, project } = await deploy(fleet, cwd);
  site = { url: `${url}/api/facts`, projectId: project.id, replicas: 1 };
  await fleet.settled();
});
afterAll(() => fleet?.[Symbol.asyncDispose]());

const allReady = async () => {
  for (const node of fleet.nodes) await becomes(fleet, node, ["ready"], healMs);
};

async function deployChanged(by: ClusterClient): Promise<void> {
  await appendFile(join(cwd, "src", "departures.js"), `// ${crypto.randomUUID()}\n`);
  expect((await deploy(by, cwd)).deployment.status).toBe("running");
}

const ways: { how: string; cut: (way: TcpProxy) => void }[] = [
  // What both sides have sent by then is on its way, and comes late.
  { how: "packets are lost", cut: (way) => way.blackHole() },
  { how: "connections are refused", cut: (way) => way.refuse() },
];

test.each(ways)(
  "a replica that etcd was out of reach for ($how), and is then elected, acts on nothing old",
  { timeout: hangsMs },
  async (one) => {
    const { leader, others, epoch } = await inOffice(fleet);
    const [behind] = others;
    if (behind?.way == null) throw new Error("there is no second replica with a way of its own");
    await using prober = await visit(site);

    one.cut(behind.way);
    const awaySince = prober.now();
    // All that it knows of the site is over when it is back: its container, its route and its deployment.
    for (const _ of [1, 2]) await deployChanged(leader.client);
    const kept = await settled(fleet, site, healMs);
    await waitFor("every lease of it to be over", 2 * awayMs, () => prober.now() - awaySince > awayMs);
    // Daemons that it held have gone to the other one in time.
    await allReady();
    expect((await inOffice(fleet)).epoch).toBe(epoch);
    const before = await startTimes(fleet, site);
    expect(Object.keys(before)).toEqual(kept.map(({ id }) => id));
    await compactEtcd({ platform: fleet });

    await leader.program.stop("SIGKILL");
    const backAt = prober.now();
    behind.way.heal();
    await waitFor("it to lead", electedMs, async () => (await inOffice(fleet)).epoch > epoch);
    expect((await inOffice(fleet)).leader.name).toBe(behind.name);
    const leadsMs = prober.now() - backAt;
    await delay(watchedMs);
    expect(await startTimes(fleet, site)).toEqual(before);

    // It leads in earnest: what is deployed by it is served.
    await deployChanged(behind.client);
    await settled(fleet, site, healMs);
    await leader.program.start();
    await allReady();
    const visits = await prober.stop();
    await recordFault({
      fault: `etcd is out of reach for a replica of control for ${awayMs / 1000} s and through a compaction (${one.how}), and it is then the only one`,
      observed: "it leads, and stops, starts and moves nothing of what was deployed meanwhile",
      timesMs: { "leads after": leadsMs },
      visits: { "one container": visits },
    });
    expect(visits.failures).toEqual([]);
  },
);
