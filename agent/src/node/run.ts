import { createClient } from "@connectrpc/connect";
import { NodeService } from "@svc/proto/node";
import type { Clock } from "@svc/runtime/clock";
import type { Random } from "@svc/runtime/random";
import { pause } from "@svc/runtime/sleep";
import { createWake } from "@svc/runtime/wake";
import type { Pulse } from "@svc/telemetry";
import { type Endpoints, FencedError, type Identity, renewLoop, takeNextIdentity } from "@svc/uplink";
import { clearNode } from "../clear.ts";
import type { Config } from "../config.ts";
import { servingInstance } from "../databases/instances.ts";
import { createProxyCredentials } from "../databases/proxy-credentials.ts";
import { databaseSampleLoop } from "../databases/sample-loop.ts";
import { connectServer } from "../databases/socket.ts";
import { socketPathOf } from "../databases/socket-dir.ts";
import type { DatabaseTables } from "../databases/table-writer.ts";
import { createEntranceCertificate } from "../entrances/certificate.ts";
import { mayHaveEntrances } from "../entrances/rules.ts";
import type { Journal } from "../journal/journal.ts";
import { copySampleLoop } from "../keepers/sample-loop.ts";
import type { Link } from "../link.ts";
import type { Log } from "../log.ts";
import { createLogAnswers } from "../logs/query.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { type Readiness, watchGauges } from "../metrics/serve.ts";
import type { IsolationGuard } from "../network/iptables.ts";
import { IdentityReplacedError, rejoin } from "../rejoin.ts";
import { converse } from "../session.ts";
import { measureCapacity } from "../stats/capacity.ts";
import { sampleLoop } from "../stats/sampler.ts";
import { watchStorage } from "../storage/watch.ts";
import type { Tidy } from "../tidy.ts";
import { createTunnels } from "../tunnels/tunnels.ts";
import { rememberFormer } from "./former.ts";
import { removeLeftovers } from "./leftovers.ts";
import { thisMachine } from "./machine.ts";
import { createTools } from "./tools.ts";
import { createWork, runWork } from "./work.ts";

/** Longer than any call on a connection that another one has replaced. */
const callsEndMs = 60_000;
const returnAgainMs = 10_000;
/** A survey every half minute, each of whose calls to the engine has its deadline. */
const turnWithinMs = 300_000;

/**
 * Everything that runs once the node knows who it is. Ends with `signal`, or throws when the node is fenced or has
 * another identity.
 */
export async function runNode(options: {
  clock: Clock;
  random: Random;
  config: Config;
  identity: Identity;
  journal: Journal;
  endpoints: Endpoints;
  isolation: IsolationGuard;
  openLink(identity: Identity): Link;
  lookEveryMs: number;
  onReady(): void;
  metrics: Metrics;
  readiness: Readiness;
  pulse: Pulse;
  signal: AbortSignal;
  log: Log;
}): Promise<void> {
  const { clock, random, config, identity, journal, isolation, metrics, readiness, pulse, log } = options;
  const over = new AbortController();
  const signal = AbortSignal.any([options.signal, over.signal]);
  journal.claim(`${identity.clusterId}/${identity.id}/${identity.incarnation}`);
  let link = options.openLink(identity);
  // Making room needs to know what is in use, and whatever takes room asks whether there is any.
  let madeTidy: Tidy | null = null;
  let madeDatabases: DatabaseTables | null = null;
  const common = { clock, random, config, journal, isolation, metrics, signal, log };
  const machine = thisMachine(clock);
  const tools = await createTools({
    ...common,
    identity,
    link: () => link,
    reclaim: async (isEnough) => madeTidy?.reclaim(isEnough),
    onNetworks: () => madeDatabases?.wake(),
  });
  const { engine, limiter, networks, tails, client, disk, memory, engineWatch, reporter, proxyDir } = tools;
  readiness.engine = engine;
  await removeLeftovers(config.dir, engine, limiter, log);
  const work = createWork({
    ...common,
    tools,
    machine,
    lookEveryMs: options.lookEveryMs,
  });
  const { placements, runs, tidy, databases, entrances, volumes, copyFiles } = work;
  madeTidy = tidy;
  madeDatabases = databases;

  watchGauges(clock, metrics, { dir: config.dir, engine, journal, placements, disk, memory, reporter });
  const renewal = createWake(clock);
  const credentials = createProxyCredentials({ clock, dir: proxyDir, first: identity, log });
  const { address } = config;
  const entranceCertificate = createEntranceCertificate({ clock, address, first: identity, renewal });
  const background: Promise<unknown>[] = [
    ...runWork(work, {
      ...{ clock, tools, isolation, signal, log },
      onTurn: pulse.expect("survey", turnWithinMs),
    }),
    credentials.run(signal),
    databaseSampleLoop({
      ...{ clock, engine, list: placements.list, dir: proxyDir, signal, log },
      report: async (samples) => void (await client().reportDatabases({ samples }, { signal, timeoutMs: 10_000 })),
    }),
    copySampleLoop({
      ...{ clock, engine, machine, list: placements.list, copyLookMs: config.copyLookMs, signal, log },
      report: async (copies) => void (await client().reportDatabases({ copies }, { signal, timeoutMs: 10_000 })),
    }),
    watchStorage({
      clock,
      engine,
      writers: () => [...placements.writers(), ...runs.writers()],
      everyMs: options.lookEveryMs,
      signal,
      log,
    }),
    sampleLoop({
      clock,
      engine,
      list: placements.list,
      report: async (samples) => void (await client().reportSamples({ samples }, { signal, timeoutMs: 10_000 })),
      signal,
      log,
    }),
    renewLoop({
      clock,
      random,
      dir: config.dir,
      identity,
      renew: (csr, within) => client().renewCertificate({ csr }, { signal: within }),
      wanted: renewal,
      onRenewed(renewed) {
        credentials.give(renewed);
        entranceCertificate.give(renewed);
        const former = link;
        link = options.openLink(renewed);
        // Control goes by the certificate that a session was opened with, so another one is opened; calls end by themselves.
        former.endSession();
        background.push(pause(clock, callsEndMs, signal).then(former.close));
      },
      signal,
      log,
    }),
  ];
  const tunnels = createTunnels({
    clock,
    link: () => link,
    async connect(database, within) {
      if (database.copyId !== "") return copyFiles(database.copyId);
      const kind = servingInstance(placements.list(), database);
      if (kind === null) throw new Error("The database does not run on this node.");
      return connectServer(socketPathOf(tools.owner, database.databaseId, kind), within);
    },
    signal,
    log,
  });
  let replaced = false;
  let fenced = false;
  const returning = rejoin({
    clock,
    random,
    config,
    former: identity,
    async askGone(next, nodeIds) {
      const asking = options.openLink(next);
      try {
        const { gone } = await createClient(NodeService, asking.bulk).listGoneNodes(
          { nodeIds },
          { signal, timeoutMs: 10_000 },
        );
        return gone;
      } finally {
        asking.close();
      }
    },
    signal,
    log,
  }).then(async (next) => {
    if (next === null) return;
    log.warn({ next: next.id }, "the node that this was is gone: removing everything that it ran here");
    while (!signal.aborted) {
      try {
        await clearNode({ placements, runs, databases, engine, networks }, signal);
        if (signal.aborted) return;
        await rememberFormer(config.dir, identity.id);
        await takeNextIdentity(config.dir);
        replaced = true;
        return over.abort();
      } catch (cause) {
        if (signal.aborted) return;
        // All of it may be repeated; left half done, this would be nobody until somebody looked.
        log.error({ reason: String(cause) }, "this node cannot come back yet, and tries again");
        await pause(clock, returnAgainMs, signal);
      }
    }
  });
  background.push(
    returning.catch((cause: unknown) =>
      log.warn({ reason: String(cause) }, "this node cannot come back yet: restart its agent"),
    ),
  );
  try {
    await converse({
      clock,
      random,
      identity,
      endpoints: options.endpoints,
      transports: () => link,
      journal,
      engine,
      networks,
      machine,
      answerLogQuery: createLogAnswers({ clock, engine, tails, find: placements.find }),
      placements,
      runs,
      reporter,
      tidy,
      tunnels,
      databases,
      onEntrances(edgesKnow) {
        entrances.hear(edgesKnow);
        if (mayHaveEntrances({ address, isOn: config.entrances, edgesKnow })) entranceCertificate.need();
      },
      volumes,
      disk,
      memory,
      engineWatch,
      metrics,
      readiness,
      describe: async () => ({
        address,
        labels: config.labels,
        capacity: await measureCapacity(config.dir, config),
      }),
      renewal,
      onReady: options.onReady,
      onRegistry: () =>
        void isolation.assert().catch((cause: unknown) => log.warn({ reason: String(cause) }, "rules are not whole")),
      signal,
      log,
    });
  } catch (cause) {
    fenced = cause instanceof FencedError;
    throw cause;
  } finally {
    over.abort();
    link.close();
    await Promise.all([
      ...background,
      tunnels[Symbol.asyncDispose](),
      placements[Symbol.asyncDispose](),
      runs[Symbol.asyncDispose](),
    ]);
    if (fenced) await proxyDir.forgetCredentials();
  }
  if (replaced) throw new IdentityReplacedError("this node has another identity from now on");
}
