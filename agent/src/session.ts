import { fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { createClient, type Transport } from "@connectrpc/connect";
import {
  NodeService,
  type PlacementStatus,
  type RegistryAccess,
  RegistryAccessSchema,
  type SessionRequestSchema,
  type SessionResponse,
} from "@svc/proto/node";
import type { Clock } from "@svc/runtime/clock";
import { within } from "@svc/runtime/deadline";
import type { Random } from "@svc/runtime/random";
import { version } from "@svc/runtime/version";
import type { Wake } from "@svc/runtime/wake";
import { type Endpoints, FencedError, type Identity, runSession } from "@svc/uplink";
import { clearNode } from "./clear.ts";
import type { DatabaseTables } from "./databases/table-writer.ts";
import type { Volumes } from "./databases/volumes.ts";
import type { Engine } from "./engine/engine.ts";
import { dockerfileProblem } from "./engine/floors.ts";
import type { Journal } from "./journal/journal.ts";
import type { Log } from "./log.ts";
import type { LogAnswers } from "./logs/query.ts";
import { countRuns } from "./metrics/count.ts";
import type { Metrics } from "./metrics/metrics.ts";
import type { Readiness } from "./metrics/serve.ts";
import type { Networks } from "./network/networks.ts";
import type { Machine } from "./node/machine.ts";
import type { Placements } from "./placements/placements.ts";
import type { Runs } from "./runs/runs.ts";
import type { NodeCapacity } from "./stats/capacity.ts";
import type { DiskWatch } from "./stats/disk.ts";
import type { EngineWatch } from "./stats/engine.ts";
import type { MemoryWatch } from "./stats/memory.ts";
import type { StatusReporter } from "./status-reporter.ts";
import type { Tidy } from "./tidy.ts";
import type { Tunnels } from "./tunnels/tunnels.ts";

type Request = MessageInitShape<typeof SessionRequestSchema>;
type Send = (request: Request) => boolean;

const inventoryPart = 200;
const callTimeoutMs = 15_000;
/** Of the time that a session has until it is welcomed most is left after it. */
const describeWithinMs = 3_000;
const registrySetting = "registry";

export interface SessionDeps {
  clock: Clock;
  random: Random;
  identity: Identity;
  /** Where control is to be found. */
  endpoints: Endpoints;
  /** Connections in force now: the session's own, and one for everything bulky, which must not hold it up. */
  transports(): { session: Transport; bulk: Transport };
  journal: Journal;
  engine: Engine;
  networks: Pick<Networks, "list" | "release">;
  machine: Pick<Machine, "bootId">;
  answerLogQuery: LogAnswers;
  placements: Placements;
  runs: Runs;
  reporter: StatusReporter;
  tidy: Pick<Tidy, "wake">;
  tunnels: Pick<Tunnels, "open">;
  databases: Pick<DatabaseTables, "take">;
  /** Whether control says that every edge dials entrances; called before what comes with it is taken. */
  onEntrances(edgesKnow: boolean): void;
  volumes: Pick<Volumes, "take" | "forget">;
  disk: Pick<DiskWatch, "isFull">;
  memory: Pick<MemoryWatch, "isShort">;
  engineWatch: Pick<EngineWatch, "isStalled" | "dockerfileProblem">;
  metrics: Metrics;
  readiness: Pick<Readiness, "connected">;
  describe(): Promise<{ capacity: NodeCapacity; address: string; labels: Record<string, string> }>;
  /** Control's wish for another certificate. */
  renewal: Pick<Wake, "signal">;
  /** The first Welcome of this process. */
  onReady(): void;
  /** Where the registry is may be news. */
  onRegistry(): void;
  signal: AbortSignal;
  log: Log;
}

/**
 * The agent's side of the conversation with control: tells what it holds, takes what it is told, and leaves
 * every decision to the parts it passes the messages to. Returns when `signal` aborts; a fence ends it with
 * everything stopped and a `FencedError`.
 */
export async function converse(deps: SessionDeps): Promise<void> {
  const { clock, random, journal, placements, runs, reporter, metrics, readiness, signal, log } = deps;
  const instanceId = random.uuid();
  let ready = false;
  let renewedAtMs: number | null = null;
  const countRun = countRuns(metrics);

  const onMessage = async ({ message }: SessionResponse, send: Send): Promise<void> => {
    switch (message.case) {
      case "welcome": {
        const { registry, clusterEpoch, sessionEpoch, grantsAfterMs } = message.value;
        placements.openSession(grantsAfterMs);
        if (registry !== undefined) saveRegistry(journal, registry);
        deps.onRegistry();
        log.info({ clusterEpoch: String(clusterEpoch), sessionEpoch: String(sessionEpoch) }, "session open");
        sendInventory(send, placements.statuses(), runs.statuses());
        runs.open((value) => {
          if (value.case === "runStatus") countRun(value.value);
          send({ message: value });
        });
        reporter.open((batchSeq, items) => send({ message: { case: "status", value: { batchSeq, items } } }));
        // What was said while nobody listened is found by asking.
        deps.tidy.wake();
        if (!ready) deps.onReady();
        ready = true;
        readiness.connected = true;
        metrics.connected.set(1);
        metrics.sessions.inc();
        return;
      }
      case "renewAck":
        if (renewedAtMs !== null) metrics.renewSeconds.observe((clock.steadyMs() - renewedAtMs) / 1000);
        renewedAtMs = null;
        return;
      case "assign":
        deps.onEntrances(message.value.edgesKnowEntrances);
        send({ message: { case: "applied", value: placements.assign(message.value) } });
        return;
      case "tidy":
        return deps.tidy.wake();
      case "renewNow":
        return deps.renewal.signal();
      case "databaseTable":
        return deps.databases.take(message.value);
      case "volumesToRemove":
        return deps.volumes.take(message.value.names);
      case "openTunnel":
        return deps.tunnels.open(message.value);
      case "statusAck":
        return reporter.acknowledge(message.value.batchSeq);
      case "verdict":
        return placements.decide(message.value);
      case "runOffer":
        return runs.offer(message.value);
      case "runGrant":
        return runs.grant(message.value);
      case "runCancel":
        return runs.cancel(message.value.attemptId);
      case "runAck":
        return runs.acknowledge(message.value.attemptId);
      case "logQuery": {
        const answer = async (): Promise<void> => {
          const delivery = await deps.answerLogQuery(message.value, signal);
          const client = createClient(NodeService, deps.transports().bulk);
          await client.deliverLog(delivery, {
            signal: AbortSignal.any([signal, clock.abortAfter(callTimeoutMs)]),
          });
        };
        answer().catch((cause: unknown) => log.warn({ reason: String(cause) }, "a log could not be delivered"));
        return;
      }
      default:
        // Renewals and endings are the link's; anything else is of a later version.
        return;
    }
  };

  try {
    await runSession<Request, SessionResponse>({
      clock,
      random,
      endpoints: deps.endpoints,
      connect: (requests, within) =>
        createClient(NodeService, deps.transports().session).session(requests, { signal: within }),
      onOpen: async (send) => void send({ message: { case: "hello", value: await hello(deps, instanceId) } }),
      onMessage,
      onClose: () => {
        placements.closeSession();
        runs.close();
        reporter.close();
        deps.volumes.forget();
        readiness.connected = false;
        renewedAtMs = null;
        metrics.connected.set(0);
      },
      renew: (n) => {
        renewedAtMs ??= clock.steadyMs();
        return {
          message: {
            case: "renew",
            value: {
              n,
              diskFull: deps.disk.isFull(),
              memoryShort: deps.memory.isShort(),
              engineStalled: deps.engineWatch.isStalled(),
              dockerfileProblem: deps.engineWatch.dockerfileProblem() ?? "",
              wallMs: BigInt(clock.now().getTime()),
            },
          },
        };
      },
      signal,
      log,
    });
  } catch (cause) {
    if (cause instanceof FencedError) {
      log.error({ reason: cause.message }, "this node was fenced: stopping everything it runs");
      await clearNode(deps, signal);
    }
    throw cause;
  }
}

async function hello({ clock, journal, engine, machine, engineWatch, describe }: SessionDeps, instanceId: string) {
  const chain = journal.chain();
  const facts = await describe();
  return {
    clusterEpoch: chain.clusterEpoch,
    bootId: machine.bootId,
    instanceId,
    version,
    ...facts,
    platform: { os: "linux", architecture: process.arch === "x64" ? "amd64" : process.arch },
    persistedRevision: chain.beginsAnew ? "" : chain.resultsIn,
    engine: await describeEngine({ clock, engine, engineWatch }),
  };
}

/** An engine that does not answer is no reason to keep silent: what it runs goes on, and control should know the node lives. */
async function describeEngine({ clock, engine, engineWatch }: Pick<SessionDeps, "clock" | "engine" | "engineWatch">) {
  const late = (): never => {
    throw new Error("the container engine does not answer");
  };
  try {
    const versions = await within(clock, describeWithinMs, engine.describe(), late);
    const { version, id } = versions;
    return { version, id, dockerfileProblem: dockerfileProblem(versions) ?? "" };
  } catch {
    return { version: "", id: "", dockerfileProblem: engineWatch.dockerfileProblem() ?? "" };
  }
}

function sendInventory(send: Send, items: PlacementStatus[], runs: ReturnType<Runs["statuses"]>): void {
  const parts = Math.max(1, Math.ceil(items.length / inventoryPart));
  for (let part = 0; part < parts; part += 1) {
    const final = part === parts - 1;
    const slice = items.slice(part * inventoryPart, (part + 1) * inventoryPart);
    send({ message: { case: "inventory", value: { items: slice, runs: final ? runs : [], final } } });
  }
}

/** Kept for the time without control: a container that has to be made again may need a pull. */
function saveRegistry(journal: Journal, registry: RegistryAccess): void {
  journal.saveSetting(registrySetting, Buffer.from(toBinary(RegistryAccessSchema, registry)).toString("base64"));
}

/** Access to the cluster's registry as control told it last; null before the first session. */
export function knownRegistry(journal: Journal): RegistryAccess | null {
  const kept = journal.findSetting(registrySetting);
  return kept === null ? null : fromBinary(RegistryAccessSchema, new Uint8Array(Buffer.from(kept, "base64")));
}
