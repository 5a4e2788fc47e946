import { limits } from "@svc/proto/limits";
import { Observed } from "@svc/proto/node";
import type { Clock } from "@svc/runtime/clock";
import type { Random } from "@svc/runtime/random";
import { createBackups } from "../backups/backups.ts";
import { buildLogMaxBytes, createBuilder } from "../build/builder.ts";
import { createCaptures } from "../captures/captures.ts";
import type { Config } from "../config.ts";
import { copyDoorOf } from "../databases/copy-door.ts";
import { servingInstance } from "../databases/instances.ts";
import { heldCopies } from "../databases/needed.ts";
import { socketPathOf } from "../databases/socket-dir.ts";
import { createDatabaseTables } from "../databases/table-writer.ts";
import { createVolumes } from "../databases/volumes.ts";
import { createEntranceKeeper } from "../entrances/keeper.ts";
import { watchEngine } from "../housekeeping.ts";
import type { Journal } from "../journal/journal.ts";
import { serveCopyFiles } from "../keepers/files/serve.ts";
import { copyDirectory } from "../keepers/files/volume.ts";
import { createProofs } from "../keepers/proofs.ts";
import type { Log } from "../log.ts";
import { countStatuses } from "../metrics/count.ts";
import type { Metrics } from "../metrics/metrics.ts";
import type { IsolationGuard } from "../network/iptables.ts";
import { createPorts, portMemory } from "../network/ports.ts";
import { createPlacements } from "../placements/placements.ts";
import { createRunner } from "../placements/runner.ts";
import { createRuns, type Runs } from "../runs/runs.ts";
import { createTidy } from "../tidy.ts";
import { spoolDir } from "./leftovers.ts";
import type { Machine } from "./machine.ts";
import type { Tools } from "./tools.ts";

/** Control answers in a few seconds, if only that it is at work. */
const askTimeoutMs = 30_000;
const reportTimeoutMs = 10_000;

export type Work = ReturnType<typeof createWork>;

/** What this node does: its placements, its runs, the way from these to databases, and the tidying up behind them. */
export function createWork(options: {
  clock: Clock;
  random: Random;
  config: Pick<Config, "dir" | "address" | "ports" | "entrances" | "databaseProxy" | "buildCacheMb"> &
    Partial<Pick<Config, "copyLookMs">>;
  journal: Journal;
  isolation: IsolationGuard;
  metrics: Metrics;
  tools: Tools;
  lookEveryMs: number;
  machine: Machine;
  signal: AbortSignal;
  log: Log;
}) {
  const { clock, random, config, journal, isolation, metrics, tools, machine, signal, log } = options;
  const { engine, images, networks, registry, client, openLog, disk, tails, owner, limiter, reporter, proxyDir } =
    tools;
  const builder = createBuilder({
    ...{ clock, engine, journal, images, registry, limiter, owner, log },
    askForBaseImage: (request, within) => client().fetchBaseImage(request, { signal: within, timeoutMs: askTimeoutMs }),
    openLog: (placementId) => openLog(placementId, false, buildLogMaxBytes),
    spoolDir: spoolDir(config.dir),
    lookEveryMs: options.lookEveryMs,
    isolated: isolation.ready,
    checkDisk: disk.check,
  });
  const backups = createBackups({ clock, engine, push: tools.pushDump });
  const proofs = createProofs({ clock, engine });
  const captures = createCaptures({ clock, engine, owner, registry });
  const databases = createDatabaseTables({
    ...{ clock, journal, dir: proxyDir, bridges: networks.list, openWays: isolation.assert, log },
    here: {
      nodeId: owner.nodeId,
      peerPort: config.databaseProxy.peerPort,
      socketOf(database) {
        const kind = servingInstance(placements.list(), database);
        return kind === null ? null : socketPathOf(owner, database.databaseId, kind);
      },
      doorOf: (copyId, kind) => copyDoorOf(owner, copyId, kind).socket,
    },
    doors: {
      async lay(copyIds) {
        if (copyIds.length === 0) return;
        const [description, proxy] = await Promise.all([engine.describe(), proxyDir.ids()]);
        for (const copyId of copyIds) await machine.layCopyDoor(owner, copyId, description, proxy);
      },
      removeOthers: (copyIds) => machine.removeOtherCopyDoors(owner, [...copyIds, ...heldCopies(placements.list())]),
    },
  });
  const entrances = createEntranceKeeper({
    ...{ clock, address: config.address, isOn: config.entrances, journal, dir: proxyDir, log },
    placements: () => placements.list(),
  });
  const kindOf = (id: string) => placements.find(id)?.placement.spec.case;
  // Placements and runs share networks, so each asks the other before one is removed.
  let runs: Runs | null = null;
  const countStatus = countStatuses(metrics, (id) => kindOf(id) === "build");
  const placements = createPlacements({
    ...{ clock, journal, engine, machine, address: config.address, log },
    onStatus(status) {
      countStatus(status);
      if (status.observed === Observed.REMOVED) entrances.wake();
      if (kindOf(status.placementId) === "database") databases.wake();
      reporter.report(status);
    },
    createRunner: ({ isNetworkNeeded, isPortHeld }) =>
      createRunner({
        ...{
          clock,
          databases,
          engine,
          machine,
          owner,
          images,
          networks,
          tails,
          builder,
          backups,
          captures,
          proofs,
          log,
        },
        proxyIds: proxyDir.ids,
        ports: createPorts(clock, random, config.ports, machine.isPortFree, portMemory(journal)),
        ...{ address: config.address, entrances, copyLookMs: config.copyLookMs ?? null },
        isNetworkNeeded: (projectId, channel, except) =>
          isNetworkNeeded(projectId, channel, except) || (runs?.isNetworkNeeded(projectId, channel) ?? false),
        isPortHeld,
      }),
  });
  const isPlacementsNetwork = (projectId: string, channel: string) =>
    placements.isNetworkNeeded(projectId, channel, "");
  runs = createRuns({
    ...{ clock, journal, engine, machine, images, networks, databases, log },
    // What comes is within the bound of a run's log, see `carryOutput`.
    openLog: (attemptId) => openLog(attemptId, true, limits.jobLogBytesMax),
    isNetworkNeeded: isPlacementsNetwork,
  });
  const { isNetworkNeeded } = runs;
  const tidy = createTidy({
    ...{ clock, engine, owner, journal, networks, tails, log },
    placements: placements.list,
    isNetworkNeeded: (projectId, channel) =>
      isPlacementsNetwork(projectId, channel) || isNetworkNeeded(projectId, channel),
    askGone: async (projectIds) =>
      (await client().listGoneProjects({ projectIds: [...projectIds] }, { signal, timeoutMs: 10_000 })).gone,
    registryHost: () => registry.find()?.host ?? null,
    buildCacheMb: config.buildCacheMb,
  });
  const volumes = createVolumes({
    ...{ clock, engine, list: placements.list, log },
    report: async (names) =>
      void (await client().reportDatabases({ volumes: { names } }, { signal, timeoutMs: reportTimeoutMs })),
  });
  const copyFiles = (copyId: string) => serveCopyFiles(copyDirectory({ engine, list: placements.list }, copyId));
  return { placements, runs, tidy, databases, entrances, volumes, copyFiles };
}

/** What of it goes on by itself until the signal aborts: looking after what runs here and what it takes, and tidying up. */
export function runWork(
  { placements, runs, tidy, databases, entrances, volumes }: Work,
  options: {
    clock: Clock;
    tools: Pick<Tools, "engine" | "disk" | "memory" | "engineWatch">;
    isolation: IsolationGuard;
    /** Called after every survey, whatever came of it. */
    onTurn(): void;
    signal: AbortSignal;
    log: Log;
  },
): Promise<unknown>[] {
  const { tools, signal, ...common } = options;
  return [
    watchEngine({
      ...{ ...common, engine: tools.engine, signal },
      onContainer(name) {
        placements.noteContainer(name);
        runs.noteContainer(name);
      },
      async survey(containers) {
        await placements.survey(containers);
        entrances.surveyed();
        await runs.survey(containers);
      },
    }),
    tidy.run(signal),
    databases.run(signal),
    entrances.run(signal),
    volumes.run(signal),
    tools.disk.watch(signal),
    tools.memory.watch(signal),
    tools.engineWatch.watch(signal),
  ];
}
