import { createRandom, type Random } from "../kernel/random.ts";
import { backupDeeds, isBackupDeed } from "./backups.ts";
import { changeDeeds, isChangeDeed } from "./changes.ts";
import { copyDeeds, isCopyDeed } from "./copies.ts";
import { databaseDeeds, databaseRates, isDatabaseDeed } from "./databases.ts";

/** One thing that is done to the world, or one way in which it is bad from the beginning. */
export interface Deed {
  atMs: number;
  kind: DeedKind;
  /** Which of the machines, sites and so on: counted round. */
  a: number;
  b: number;
  ms: number;
  x: number;
}

/** What may be done, and how often per minute at most. */
const kinds = {
  // The network.
  closePath: 3,
  closeOneWay: 3,
  dropConnection: 4,
  halfOpen: 2,
  slowReader: 1.5,
  isolateNode: 1.5,
  isolateMany: 0.4,
  // Processes and machines.
  crashAgent: 3,
  crashReplica: 1.5,
  crashEdge: 1,
  powerEdge: 0.5,
  freezeAgent: 1.5,
  freezeReplica: 2,
  suspendNode: 0.7,
  powerCycle: 0.7,
  powerOff: 0.2,
  cloneNode: 0.15,
  // Clocks.
  jumpAgent: 0.6,
  jumpReplica: 0.6,
  // The engine and the disk.
  hangEngine: 1,
  restartEngine: 0.7,
  loseEngineData: 0.25,
  deafEngine: 1,
  failEngine: 0.7,
  pruneEngine: 0.7,
  takePorts: 0.5,
  crashProgram: 2,
  sicken: 0.7,
  fillDisk: 0.7,
  // What serves visitors on edges.
  crashCaddy: 1,
  hangCaddy: 1.5,
  refuseCaddy: 0.5,
  fillEdgeDisk: 0.5,
  // The stores.
  etcdLeaderChange: 0.8,
  etcdDown: 0.5,
  cutEtcd: 1.2,
  breakWatches: 2,
  stallWatches: 1,
  compact: 1.5,
  staleReads: 1.2,
  postgresDown: 0.5,
  cutPostgres: 0.7,
  // Operators and users.
  deploy: 3,
  deployRelease: 5,
  cancelDeploy: 0.7,
  stopSite: 1,
  startSite: 1.5,
  cordon: 0.6,
  uncordon: 1,
  drain: 0.8,
  cancelDrain: 0.8,
  fence: 0.8,
  removeNode: 0.6,
  cordonEdge: 0.3,
  uncordonEdge: 0.6,
  drainEdge: 0.4,
  cancelDrainEdge: 0.6,
  joinTwice: 0.3,
  // Owners of scheduled jobs.
  runJob: 6,
  cancelRun: 2.5,
  switchJob: 1,
  awayPostgres: 0.3,
  restore: 0.3,
  ...databaseDeeds,
  ...backupDeeds,
  ...changeDeeds,
  ...copyDeeds,
} as const;

/** What holds for a whole run, as a share. */
const rates = {
  rateEtcdUnknown: 0.08,
  rateEtcdSlow: 0.1,
  ratePostgresUnknown: 0.06,
  ratePostgresSlow: 0.08,
  rateNetworkSlow: 0.1,
  rateDuplicate: 0.03,
  rateEngineSlow: 0.15,
  rateCrashAtJournal: 0.08,
  ...databaseRates,
} as const;

export type DeedKind = keyof typeof kinds | keyof typeof rates;

export interface Plan {
  nodes: number;
  edges: number;
  replicas: number;
  sites: number;
  hasDatabases: boolean;
  deeds: readonly Deed[];
}

/** How long faults happen before everything is made well again. */
export const faultsMs = 150_000;
const firstFaultMs = 20_000;

/** What everything users and operators do is never left out: without it nothing happens. */
const always = new Set<DeedKind>(["deploy", "deployRelease"]);

/** The same of databases, where there are any. */
const alwaysOfDatabases = new Set<DeedKind>(["createDatabase", "backUp"]);

const databasesShare = 0.5;

/** Everything that is done in the world of a seed. Each seed draws some kinds, and how often. */
export function planOf(seed: number): Plan {
  const random = createRandom(seed).fork("plan");
  const nodes = random.int(3, 6);
  const intensity = random.pick([0.4, 1, 1, 2]);
  const deeds: Deed[] = [];
  // Many worlds have none, and those that have some have most of what may become of them.
  const hasDatabases = random.fork("databases").chance(databasesShare);
  const isLeftOut = (kind: DeedKind, own: Random): boolean => {
    if (isDatabaseDeed(kind) || isBackupDeed(kind) || isChangeDeed(kind) || isCopyDeed(kind))
      return !hasDatabases || !(alwaysOfDatabases.has(kind) || own.chance(0.6));
    return !always.has(kind) && !own.chance(kind in rates ? 0.4 : 0.35);
  };
  for (const [kind, perMinute] of Object.entries(kinds) as [DeedKind, number][]) {
    const own = random.fork(kind);
    if (isLeftOut(kind, own)) continue;
    const expected = (perMinute * intensity * own.between(0.3, 1.5) * faultsMs) / 60_000;
    const count = Math.floor(expected) + (own.chance(expected % 1) ? 1 : 0);
    for (let index = 0; index < count; index += 1) deeds.push(deed(kind, firstFaultMs + own.next() * faultsMs, own));
  }
  for (const [kind, most] of Object.entries(rates) as [DeedKind, number][]) {
    const own = random.fork(kind);
    if (isLeftOut(kind, own)) continue;
    deeds.push({ ...deed(kind, 0, own), x: own.next() * most });
  }
  deeds.sort((one, other) => one.atMs - other.atMs || (one.kind < other.kind ? -1 : 1));
  return { nodes, edges: random.int(1, 3), replicas: random.int(2, 3), sites: random.int(2, 4), hasDatabases, deeds };
}

const deed = (kind: DeedKind, atMs: number, random: Random): Deed => ({
  atMs: Math.round(atMs),
  kind,
  a: random.int(0, 1_000),
  b: random.int(0, 1_000),
  ms: Math.round(
    random.pick([random.between(50, 2_000), random.between(1_000, 12_000), random.between(8_000, 60_000)]),
  ),
  x: random.next(),
});

export const isRate = (kind: DeedKind): kind is keyof typeof rates => kind in rates;
