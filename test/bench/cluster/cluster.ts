import { waitFor } from "../../support/wait-for.ts";
import { createDeployments, createProjects, createTasks, liftLimits, routeApps } from "./apps.ts";
import { agentsOf, type Bench } from "./bench.ts";
import { type Daemons, joinFleet, startDaemons } from "./daemons.ts";
import { createIdentities } from "./identities.ts";
import { measureChurn } from "./rows/churn.ts";
import { fewGid, measureDetection } from "./rows/detection.ts";
import { measureFloor } from "./rows/floor.ts";
import { measureJobs } from "./rows/jobs.ts";
import { measureJoins } from "./rows/joins.ts";
import { measurePlacements } from "./rows/placements.ts";
import { measureRest } from "./rows/rest.ts";
import { measureRoutes } from "./rows/routes.ts";
import { measureFalseMoves, measureStorm } from "./rows/stability.ts";
import { watchSessions } from "./sessions.ts";
import { startStand } from "./stand.ts";

const few = 10;
const edgesCount = 3;
/** More of them in one process would wait for one another. */
const agentsPerProcess = 1_250;
/** From taking a placement to a healthy container, as a real agent needs at best. */
const startMs = 250;
/** Agents that come up one after the other, as machines do. */
const connectMsEach = 12;
const connectedMs = 240_000;
const servingMs = 240_000;

export interface ClusterOptions {
  sizes: readonly number[];
  quick: boolean;
  rate: number;
  profileDir: string | null;
  isWanted: (...rows: number[]) => boolean;
  phase: (name: string, timeoutMs: number, work: () => Promise<void>) => Promise<void>;
  report: Bench["report"];
  log: Bench["log"];
}

/** All rows that are measured with simulated agents, on one stand that grows from size to size. */
export async function measureCluster(options: ClusterOptions): Promise<void> {
  const { sizes, quick, rate, profileDir, isWanted, phase, report, log } = options;
  await using stack = new AsyncDisposableStack();
  log("starting the platform");
  const stand = stack.use(await startStand());
  await liftLimits(stand);
  const sessions = stack.use(await watchSessions(stand.etcd));
  const { linkUrls, dir } = stand;
  const processes: Daemons[] = [];
  const nodeIds: string[] = [];

  async function addNodes(name: string, count: number, gid?: number): Promise<Daemons> {
    const { identities } = await createIdentities(stand, { role: "node", count, name });
    const config = { role: "node" as const, linkUrls, identities, startMs, numbersFrom: nodeIds.length };
    const daemons = stack.use(await startDaemons(name, dir, config, gid === undefined ? {} : { gid }));
    processes.push(daemons);
    for (const { id } of identities) nodeIds.push(id);
    await daemons.start({ overMs: count * connectMsEach });
    return daemons;
  }

  /** Brings the fleet to `size` agents that are all connected and compared with what they are to run. */
  async function growTo(size: number): Promise<void> {
    for (let name = 0; nodeIds.length < size; name += 1) {
      const count = Math.min(agentsPerProcess, size - nodeIds.length);
      const before = nodeIds.length;
      await addNodes(`agents-${size}-${name}`, count);
      await sessions.until(`${before + count} agents`, connectedMs, () => sessions.reconciled() >= before + count);
    }
  }

  const edgeIdentities = await createIdentities(stand, { role: "edge", count: edgesCount, name: "bench-edge" });
  const edgeConfig = {
    role: "edge" as const,
    linkUrls,
    identities: edgeIdentities.identities,
    startMs,
    numbersFrom: 0,
  };
  const edges = stack.use(await startDaemons("edges", dir, edgeConfig));
  await edges.start();
  await waitFor("the edges to connect", connectedMs, async () => (await edges.state()).open === edgesCount);
  const fewDaemons = await addNodes("few", few, process.getuid?.() === 0 ? fewGid : undefined);
  const fewIds = [...nodeIds];

  let apps = 0;
  /** Apps that run and are routed, besides those that are there. */
  async function populateTo(bench: Bench, wanted: number): Promise<void> {
    const count = wanted - apps;
    if (count <= 0) return;
    const projects = await createProjects(stand, { prefix: `app-${wanted}`, count, type: "ociimage" });
    const created = await createDeployments(stand, projects, { status: "running" });
    await createTasks(stand, created);
    await routeApps(stand, created);
    apps = wanted;
    const running = async () => (await bench.fleet.state()).running >= wanted;
    await waitFor(`${wanted} apps to run`, servingMs, running);
    await waitFor("their routes to be published", servingMs, async () => {
      const { entries } = await stand.etcd.range("/svc/routes/table/");
      return entries.filter(({ value }) => value.includes('"proxy"')).length >= wanted;
    });
  }

  for (const [index, size] of sizes.entries()) {
    const isFirst = index === 0;
    let bench: Bench | null = null;
    await phase(`${size} agents connect`, 600_000, async () => {
      await growTo(size);
      bench = {
        ...{ stand, fleet: joinFleet(processes), nodeIds: [...nodeIds], few: fewDaemons, fewIds, edges, sessions },
        ...{ quick, rate, report, log, profileDir },
      };
      log(`${agentsOf(bench)} connected`);
    });
    // Assigned inside the closure above, which the compiler does not follow.
    const ready = bench as Bench | null;
    if (ready === null) return;
    const at = `at ${size} agents`;
    if (isFirst && isWanted(0)) await phase("floor", 60_000, () => measureFloor(ready));
    if (isFirst && isWanted(13)) await phase("joins", 60_000, () => measureJoins(ready));
    if (isWanted(5, 13, 15)) await phase(`rest ${at}`, 120_000, () => measureRest(ready, { placements: apps }));
    if (isWanted(2)) await phase(`placements ${at}`, 400_000, () => measurePlacements(ready));
    if (isFirst && isWanted(3)) {
      await phase(`churn ${at}`, 240_000, async () => {
        apps += await measureChurn(ready);
      });
    }
    if (isFirst && isWanted(11, 12)) {
      await phase(`release commands ${at}`, 500_000, async () => {
        apps += await measureJobs(ready);
      });
    }
    if (isWanted(7, 8, 14, 15)) await phase(`${size} apps`, 400_000, () => populateTo(ready, quick ? 200 : size));
    if (isWanted(15) && apps > 0)
      await phase(`rest with apps ${at}`, 120_000, () => measureRest(ready, { placements: apps }));
    if (isWanted(8)) await phase(`routes ${at}`, 240_000, () => measureRoutes(ready, { apps }));
    if (isFirst && isWanted(7)) await phase(`false moves ${at}`, 400_000, () => measureFalseMoves(ready));
    if (isWanted(14)) await phase(`reconnect storm ${at}`, 800_000, () => measureStorm(ready));
    if (isWanted(5)) await phase(`detection ${at}`, 600_000, () => measureDetection(ready));
  }
}
