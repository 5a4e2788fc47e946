import { randomUUID } from "node:crypto";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { create, toBinary } from "@bufbuild/protobuf";
import { createClient } from "@connectrpc/connect";
import { apply, type Held } from "@svc/agent/placements/apply";
import { createStatusReporter } from "@svc/agent/status-reporter";
import {
  type Assign,
  Desired,
  HealthState,
  NodeService,
  Observed,
  type Placement,
  PlacementSchema,
  type PlacementStatus,
  PlacementStatusSchema,
  type RunGrant,
  type RunOffer,
  RunOfferSchema,
  RunPhase,
  type SessionRequestSchema,
  type SessionResponse,
  Verdict_Decision,
} from "@svc/proto/node";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { createEndpoints, createTransport, type Identity, runSession, type Send } from "@svc/uplink";
import { monotonicMs } from "../monotonic.ts";
import type { Journal } from "./journal.ts";
import type { DaemonsEvents, DaemonsState } from "./messages.ts";

type Request = MessageInitShape<typeof SessionRequestSchema>;

export interface AgentOptions {
  identity: Identity;
  linkUrls: readonly string[];
  /** Of this node; nobody listens there. */
  address: string;
  bootId: string;
  journal: Journal;
  startMs: number;
  counts: DaemonsState;
  events: DaemonsEvents;
  signal: AbortSignal;
}

/** As much as a large machine has, so that room is never what decides. */
const capacity = { memoryMb: 262_144n, cpuMillicores: 256_000n, pids: 1_000_000n, diskMb: 4_000_000n };
const quiet = { info: () => {}, warn: () => {} };

interface Kept extends Held {
  placementId: string;
  statusSeq: bigint;
  orphan: boolean;
  health: HealthState;
  upstream: string;
  changedAt: string;
}

interface Run {
  token: string;
  offeredAt: number;
  grantedAt: number;
  starts: number;
  phase: RunPhase;
}

/**
 * One simulated agent: the real session, transport, rules of assignment and status batches of an agent, with a timer in
 * the place of its containers. Resolves when `signal` aborts.
 */
export async function runAgent(options: AgentOptions): Promise<void> {
  const { identity, address, journal, counts, events, signal } = options;
  const endpoints = createEndpoints(options.linkUrls, systemRandom);
  const link = createTransport(systemClock, identity, endpoints);
  const client = createClient(NodeService, link.transport);
  const reporter = createStatusReporter(systemClock);
  const instanceId = randomUUID();
  const all = new Map<string, Kept>();
  const runs = new Map<string, Run>();
  let chain = { clusterEpoch: 0n, leaderEpoch: 0n, resultsIn: "", beginsAnew: false };
  let nextPort = 20_000;
  /** Of the session that has its Welcome. */
  let present: Send<Request> | null = null;

  const statusOf = (kept: Kept): PlacementStatus =>
    create(PlacementStatusSchema, {
      placementId: kept.placementId,
      epoch: kept.epoch,
      statusSeq: kept.statusSeq,
      observed: kept.observed,
      health: kept.health,
      upstream: kept.upstream,
      specHash: kept.specHash,
      changedAt: kept.changedAt,
      ...(kept.resources !== undefined && { resources: kept.resources }),
    });

  function observe(kept: Kept, observed: Observed): void {
    if (kept.observed === Observed.RUNNING && observed !== Observed.RUNNING) {
      counts.running -= 1;
      counts.stops += 1;
    }
    kept.observed = observed;
    kept.statusSeq += 1n;
    kept.changedAt = new Date().toISOString();
    if (observed === Observed.RUNNING) {
      counts.running += 1;
      counts.starts += 1;
      kept.health = HealthState.HEALTHY;
      kept.upstream = `${address}:${nextPort}`;
      nextPort = nextPort === 60_000 ? 20_000 : nextPort + 1;
    }
    reporter.report(statusOf(kept));
  }

  /** What an actor of a real agent does once it is woken. */
  function act(kept: Kept): void {
    if (kept.desired === Desired.REMOVED) observe(kept, Observed.REMOVED);
    else if (kept.desired === Desired.STOPPED) observe(kept, Observed.STOPPED);
    else if (kept.observed === Observed.ASSIGNED) {
      observe(kept, Observed.ACCEPTED);
      setTimeout(() => {
        if (kept.desired === Desired.RUNNING && !signal.aborted) observe(kept, Observed.RUNNING);
      }, options.startMs);
    }
  }

  function keep(placement: Placement): Kept {
    const { placementId, epoch, desired, specHash, resources } = placement;
    const known = all.get(placementId);
    if (known !== undefined) return Object.assign(known, { epoch, desired, resources, orphan: false });
    const fresh: Kept = {
      ...{ placementId, epoch, desired, specHash, resources, orphan: false, statusSeq: 0n },
      isVisited: placement.spec.case !== "build",
      observed: Observed.ASSIGNED,
      health: HealthState.UNSPECIFIED,
      upstream: "",
      changedAt: "",
    };
    all.set(placementId, fresh);
    return fresh;
  }

  function forget(placementId: string): void {
    const known = all.get(placementId);
    if (known === undefined) return;
    if (known.observed === Observed.RUNNING) observe(known, Observed.REMOVED);
    all.delete(placementId);
  }

  async function assign(message: Assign, send: Send<Request>): Promise<void> {
    const decision = apply(chain, all, message);
    if (decision.outcome !== "accept") {
      counts.refusals += 1;
      const rejects = [{ placementId: "", reason: decision.reason }];
      send({ message: { case: "applied", value: { resultsIn: chain.resultsIn, rejects, resync: true } } });
      return;
    }
    const { upserts, removes, orphans, rejects } = decision;
    chain = decision.chain;
    const news = upserts.filter(({ placementId }) => !all.has(placementId));
    const changed = upserts.filter((each) => all.get(each.placementId)?.desired !== each.desired);
    const kept = changed.map(keep);
    for (const id of orphans) Object.assign(all.get(id) ?? {}, { orphan: true });
    // The journal first, then the answer, then what it asks for; as a real agent does.
    const records = upserts.map((each) => toBinary(PlacementSchema, each));
    await journal.write(Buffer.concat([Buffer.from(`${identity.id} ${chain.resultsIn}\n`), ...records]));
    const at = monotonicMs();
    for (const { placementId, deploymentId } of news)
      events.assigned.push({ placementId, deploymentId, nodeId: identity.id, at });
    counts.assigned += news.length;
    send({ message: { case: "applied", value: { resultsIn: chain.resultsIn, rejects } } });
    for (const each of kept) act(each);
    for (const id of removes) forget(id);
  }

  async function offer({ attemptId }: RunOffer, send: Send<Request>, record: Uint8Array): Promise<void> {
    if (!runs.has(attemptId)) {
      await journal.write(record);
      const run = { token: "", offeredAt: monotonicMs(), grantedAt: 0, starts: 0, phase: RunPhase.UNSPECIFIED };
      runs.set(attemptId, run);
    }
    send({ message: { case: "runAccept", value: { attemptId } } });
  }

  async function grant({ attemptId, token }: RunGrant): Promise<void> {
    const run = runs.get(attemptId);
    if (run === undefined || run.phase !== RunPhase.UNSPECIFIED) return;
    Object.assign(run, { token, grantedAt: monotonicMs(), phase: RunPhase.STARTED });
    await journal.write(Buffer.from(`${attemptId} ${token} start-sent\n`));
    run.starts += 1;
    counts.runStarts += 1;
    counts.runStartsMax = Math.max(counts.runStartsMax, run.starts);
    const { offeredAt, grantedAt } = run;
    events.runs.push({ attemptId, offeredAt, grantedAt, startedAt: monotonicMs() });
    tell(attemptId, run);
    run.phase = RunPhase.EXITED;
    await journal.write(Buffer.from(`${attemptId} ${token} exit\n`));
    tell(attemptId, run);
  }

  const runStatus = (attemptId: string, { token, phase }: Run) => {
    const at = new Date().toISOString();
    return { attemptId, token, phase, exitCode: 0, startedAt: at, finishedAt: phase === RunPhase.EXITED ? at : "" };
  };
  /** In the session that is open now: what happened in one that has ended is told by the inventory of the next. */
  const tell = (attemptId: string, run: Run) =>
    present?.({ message: { case: "runStatus", value: runStatus(attemptId, run) } });

  function open(send: Send<Request>): void {
    present = send;
    counts.open += 1;
    counts.welcomes += 1;
    const told = [...runs].filter(([, { phase }]) => phase !== RunPhase.UNSPECIFIED);
    const value = {
      items: [...all.values()].map(statusOf),
      runs: told.map(([attemptId, run]) => runStatus(attemptId, run)),
      final: true,
    };
    send({ message: { case: "inventory", value } });
    reporter.open((batchSeq, items) => send({ message: { case: "status", value: { batchSeq, items } } }));
  }

  async function onMessage({ message }: SessionResponse, send: Send<Request>): Promise<void> {
    switch (message.case) {
      case "welcome":
        return open(send);
      case "assign":
        return assign(message.value, send);
      case "statusAck":
        return reporter.acknowledge(message.value.batchSeq);
      case "verdict": {
        const known = all.get(message.value.placementId);
        if (known === undefined) return;
        if (message.value.decision === Verdict_Decision.ADOPT) known.orphan = false;
        else if (message.value.decision === Verdict_Decision.KILL) forget(known.placementId);
        return;
      }
      case "runOffer":
        return offer(message.value, send, toBinary(RunOfferSchema, message.value));
      case "runGrant":
        return grant(message.value);
      case "runAck":
        return void runs.delete(message.value.attemptId);
      default:
        return;
    }
  }

  try {
    await runSession<Request, SessionResponse>({
      clock: systemClock,
      random: systemRandom,
      endpoints,
      connect: (requests, within) => client.session(requests, { signal: within }),
      onOpen: (send) => {
        send({
          message: {
            case: "hello",
            value: {
              clusterEpoch: chain.clusterEpoch,
              bootId: options.bootId,
              instanceId,
              version: "bench",
              address,
              capacity,
              platform: { os: "linux", architecture: process.arch === "x64" ? "amd64" : process.arch },
              labels: {},
              persistedRevision: chain.resultsIn,
              engine: { version: "bench", id: identity.id },
            },
          },
        });
      },
      onMessage,
      onClose() {
        if (present !== null) counts.open -= 1;
        present = null;
        reporter.close();
      },
      renew: (n) => ({ message: { case: "renew", value: { n, diskFull: false, wallMs: BigInt(Date.now()) } } }),
      signal,
      log: quiet,
    });
  } finally {
    link.close();
  }
}
