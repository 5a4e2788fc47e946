import type { MessageInitShape } from "@bufbuild/protobuf";
import {
  type Hello,
  type Placement,
  type PlacementStatus,
  type RunOffer,
  type SessionRequest,
  type SessionResponseSchema,
  Verdict_Decision,
} from "@svc/proto/node";
import type { Limiter } from "@svc/runtime/limiter";
import { pause } from "@svc/runtime/sleep";
import type { Listener } from "../../stores/db/listen.ts";
import { edgesKnowEntrances } from "../cluster/entering.ts";
import { keys } from "../cluster/keys.ts";
import { nodeTopic } from "../cluster/topics.ts";
import type { ClusterViews } from "../cluster/views.ts";
import { branchTopic, readBranchNews } from "../database-tables/news.ts";
import { createDatabaseTableSender } from "../database-tables/sender.ts";
import type { LoadDatabaseTable } from "../database-tables/tables.ts";
import type { LoadVolumesToRemove } from "../database-volumes/load.ts";
import { sendVolumesToRemove } from "../database-volumes/sender.ts";
import type { DaemonCall } from "../sessions/call.ts";
import { createClockSkewWriter } from "../sessions/clock-skew.ts";
import { LinkError } from "../sessions/errors.ts";
import { type HelloFacts, helloFacts } from "../sessions/hello.ts";
import { verdict } from "../sessions/outbox.ts";
import type { TunnelWish } from "../sessions/roster.ts";
import {
  holdSession,
  persist,
  receiveStream,
  type SessionDeps,
  soonMs,
  untilAborted,
  type Visitor,
} from "../sessions/session.ts";
import type { SessionKey } from "../sessions/session-key.ts";
import { createSessionState, IdentityCloned, type SessionState } from "../sessions/session-state.ts";
import type { Farewells } from "../sessions/stream.ts";
import { createAssigner } from "./assigner.ts";
import { conditionsOf, createConditionWriter, problemOf } from "./conditions.ts";
import { createDesiredSource } from "./desired-source.ts";
import { createInventory } from "./inventory.ts";
import type { NodeRows } from "./node-rows.ts";
import { createRunCourier } from "./run-courier.ts";
import { createStatusWriter } from "./status-writer.ts";

type Response = MessageInitShape<typeof SessionResponseSchema>;
type NodeVisitor = Visitor<SessionRequest, Response>;

export interface NodeSessionDeps extends SessionDeps {
  rows: NodeRows;
  views: Pick<ClusterViews, "placementsByNode" | "runsByNode" | "leader" | "edges">;
  loadPlacement: (placementId: string) => Promise<Placement | null>;
  loadRun: (attemptId: string) => Promise<RunOffer | null>;
  loadDatabaseTable: LoadDatabaseTable;
  loadVolumesToRemove: LoadVolumesToRemove;
  /** Tells of branches whose way changed. */
  listener: Pick<Listener, "on">;
  /** Shared by all streams: how many load specs at once. */
  loading: Limiter;
}

/** From an agent's acceptance of a run to its start. */
export const startWithinMs = 30_000;
/** How soon something that runs without a place is judged again. */
const judgeAgainMs = 60_000;
/** How many renewals may stay away before a node gets nothing new. */
const suspectAfterRenewals = 1.5;

const farewells: Farewells<Response> = {
  superseded: () => ({ message: { case: "superseded", value: {} } }),
  fenced: (reason) => ({ message: { case: "fenced", value: { reason } } }),
  goAway: (reconnectAfterMs) => ({ message: { case: "goAway", value: { reconnectAfterMs } } }),
};

/** One agent's stream, from opening to end. */
export const serveNode = (call: DaemonCall<SessionRequest, Response>, deps: NodeSessionDeps): Promise<void> =>
  receiveStream(call, { role: "node", farewells, deps }, async (visitor) => {
    const hello = await expectHello(visitor, deps);
    const facts = helloFacts(hello);
    if ("problem" in facts) throw new LinkError("INVALID_ARGUMENT", `hello: ${facts.problem} is not acceptable`);
    const { id: nodeId } = visitor.identity;
    const { serverId, clock, log } = deps;
    // Before it takes the session: whoever is turned away here has pushed nobody out.
    await admitAddress(nodeId, facts, call.address(), deps);
    // Before it can be given a build that it would refuse for good. An older agent says it with its first renewal.
    const dockerfileProblem = hello.engine?.dockerfileProblem;
    if (dockerfileProblem !== undefined) await deps.rows.setDockerfileProblem(nodeId, problemOf(dockerfileProblem));
    const connectedAt = clock.now().toISOString();
    const state = createSessionState({ serverId, ...facts, connectedAt }, { clock, log, nodeId });
    const claim = {
      key: keys.nodeSession(nodeId),
      valueAfter: state.opened,
      isMine: state.isMine,
      detached: state.detached,
      noteSilence: (key: SessionKey, silentMs: number) =>
        state.noteSilence(key, silentMs >= deps.timings.renewEveryMs * suspectAfterRenewals),
      queryLog: (value: { requestId: string; placementId: string; lines: number }) =>
        visitor.stream.send({ message: { case: "logQuery", value } }),
      openTunnel: (value: TunnelWish) => visitor.stream.send({ message: { case: "openTunnel", value } }),
      tidy: () => visitor.stream.send({ message: { case: "tidy", value: {} } }),
      askToRenew: () => visitor.stream.send({ message: { case: "renewNow", value: {} } }),
    };
    try {
      await holdSession(visitor, deps, claim, (key) => converse(visitor, { facts, key, state }, deps));
    } catch (error) {
      if (error instanceof IdentityCloned) await quarantine(deps, nodeId);
      throw error;
    }
  });

/** Keeps what the agent told, if the address among it may be the node's own. Throws `LinkError` PERMISSION_DENIED. */
async function admitAddress(nodeId: string, facts: HelloFacts, peer: string, { rows, log, clock }: NodeSessionDeps) {
  const { address } = facts;
  const admitted = await rows.admitFacts({ nodeId, facts, peer, now: clock.now() });
  if ("refused" in admitted) {
    log.warn({ nodeId, address, peer, why: admitted.refused }, "an agent was turned away");
    throw new LinkError("PERMISSION_DENIED", `address ${address}: ${admitted.refused}`);
  }
  const { changed } = admitted;
  if (changed !== null) log.info({ nodeId, ...changed, address }, "a node says other things of itself");
}

/** Takes a node out of use of which there are two. Both go on with what they run, since one of them is right. */
async function quarantine({ rows, log, clock }: NodeSessionDeps, nodeId: string): Promise<void> {
  if (await rows.quarantine(nodeId, clock.now()))
    log.error({ nodeId }, "two machines use the identity of this node: neither is listened to until it is fenced");
}

async function expectHello({ stream }: NodeVisitor, { timings, authority }: SessionDeps): Promise<Hello> {
  const { message } = await stream.first(timings.helloTimeoutMs);
  if (message.case !== "hello") throw new LinkError("FAILED_PRECONDITION", "the first message must be a hello");
  if (message.value.clusterEpoch > BigInt(authority.epoch)) {
    // The agent has followed a later life of the cluster than this database knows of.
    throw new LinkError("FAILED_PRECONDITION", "this control is of an older cluster epoch than the agent");
  }
  return message.value;
}

interface Opened {
  facts: HelloFacts;
  key: SessionKey;
  state: SessionState;
}

/** Everything between Hello and the end: four parts that write and read by themselves, fed by one handler. */
async function converse(visitor: NodeVisitor, opened: Opened, deps: NodeSessionDeps): Promise<void> {
  const { stream, identity } = visitor;
  const { id: nodeId } = identity;
  const { clock, random, etcd, authority, timings, log } = deps;
  const { key, facts } = opened;
  const { placementsByNode: placements, runsByNode, leader, edges } = deps.views;
  const { signal } = stream;
  const end = (reason: string) => stream.close({ why: "go away", reconnectAfterMs: soonMs(random), reason });

  const source = createDesiredSource({ etcd, nodeId, leader, placements });
  const inventory = createInventory(clock);
  const statuses = createStatusWriter({
    ...{ clock, random, etcd, key, nodeId, log, signal },
    address: facts.address,
    placements: () => source.current().entries,
    windowMs: timings.statusWindowMs,
    metrics: deps.metrics,
    ack: (batchSeq) => stream.send({ message: { case: "statusAck", value: { batchSeq } } }),
  });
  const runs = createRunCourier({
    ...{ clock, random, etcd, key, nodeId, log, signal, startWithinMs },
    bootId: facts.bootId,
    loadRun: deps.loadRun,
    send: stream.send,
    onLost: () => end("runs cannot be recorded in this session"),
  });
  const assigner = createAssigner({
    ...{ clock, random, nodeId, timings, log, signal },
    clusterEpoch: authority.epoch,
    leaderEpoch: source.leaderEpoch,
    edgesKnowEntrances: () => edgesKnowEntrances([...edges.entries()].flatMap(([, { session }]) => session ?? [])),
    desired: source.current,
    reported: statuses.reported,
    loadPlacement: deps.loadPlacement,
    limit: deps.loading,
    send: stream.send,
    metrics: deps.metrics,
    onSilence: () => end("an assignment was not answered"),
  });

  const clockSkew = createClockSkewWriter({
    ...{ clock, daemonId: nodeId, write: key.write, log, signal },
    everyMs: timings.clockWriteEveryMs,
  });
  const conditions = createConditionWriter({
    ...{ clock, random, nodeId, log, signal },
    store: (conditions) => deps.rows.setConditions(nodeId, conditions),
    everyMs: timings.conditionWriteEveryMs,
  });
  stream.receive(({ message }) => {
    switch (message.case) {
      case "renew":
        stream.renew();
        deps.metrics?.renewals.inc({ role: "node" });
        clockSkew.heard(message.value.wallMs);
        conditions.report(conditionsOf(message.value));
        return stream.send({ message: { case: "renewAck", value: { n: message.value.n } } });
      case "inventory":
        if (!inventory.add(message.value)) end("the inventory is too long");
        return;
      case "applied":
        return assigner.answered(message.value);
      case "status":
        if (!statuses.report(message.value.items, message.value.batchSeq)) end("too many reports");
        return;
      case "runAccept":
        return runs.accepted(message.value);
      case "runStatus":
        return runs.reported(message.value);
      default:
        // A second Hello, or something of a later version: nothing depends on it.
        return;
    }
  });
  stream.send({
    message: {
      case: "welcome",
      value: {
        nodeId,
        clusterEpoch: BigInt(authority.epoch),
        leaderEpoch: source.leaderEpoch(),
        sessionEpoch: key.epoch,
        renewEveryMs: timings.renewEveryMs,
        leaseTtlMs: timings.leaseTtlMs,
        registry: deps.registry,
        grantsAfterMs: opened.state.contestedForMs(timings.leaseTtlMs),
      },
    },
  });

  const held = await inventory.complete(timings.inventoryTimeoutMs, signal);
  if (held === null) return end("the inventory did not come to its end");
  await persist(() => source.read(signal), { clock, random, signal, log, what: "read placements" });
  if (signal.aborted) return;
  // Only now is it known what is placed here, and so whose reports count.
  statuses.report(held.items, null);
  for (const run of held.runs) runs.reported(run);

  const databases = createDatabaseTableSender({
    ...{ clock, random, nodeId, log, signal },
    load: deps.loadDatabaseTable,
    uses: (projectId) => [...source.current().entries.values()].some(({ value }) => value.projectId === projectId),
    send: stream.send,
  });
  using _placements = placements.subscribe(nodeId, () => {
    databases.wake();
    assigner.wake();
  });
  using _gone = deps.listener.on(nodeTopic, databases.wake);
  using _branches = deps.listener.on(branchTopic, (payload) => databases.hear(readBranchNews(payload)));
  const announceRuns = () => {
    databases.wake();
    runs.announce(runsByNode.of(nodeId));
  };
  using _runs = runsByNode.subscribe(nodeId, announceRuns);
  announceRuns();

  const tellVolumes = () =>
    sendVolumesToRemove({
      ...{ clock, random, nodeId, log, signal, everyMs: timings.volumesEveryMs },
      ...{ load: deps.loadVolumesToRemove, send: stream.send },
    });

  const orphans = held.items.filter(({ placementId }) => !source.current().entries.has(placementId));
  const reconcile = async () => {
    let adopted = await judge(visitor, orphans, deps);
    await Promise.race([assigner.told, untilAborted(signal)]);
    if (signal.aborted) return;
    await persist(() => opened.state.reconcile(key), {
      clock,
      random,
      signal,
      log,
      what: "mark the session reconciled",
    });
    log.info({ nodeId, held: held.items.length, orphans: orphans.length }, "node reconciled");
    // What is wanted, but not here, may get its place elsewhere.
    while (adopted.length > 0 && !signal.aborted) {
      await pause(clock, judgeAgainMs, signal);
      const { entries } = source.current();
      adopted = await judge(
        visitor,
        adopted.filter(({ placementId }) => !entries.has(placementId)),
        deps,
      );
    }
  };
  await Promise.all([
    statuses.run(),
    databases.run(),
    tellVolumes(),
    assigner.run(),
    reconcile(),
    untilAborted(signal),
  ]);
}

/** Tells the agent what becomes of things that it holds and that nobody has placed there. Returns what goes on for now. */
async function judge(
  { stream, identity: { id: nodeId } }: NodeVisitor,
  orphans: readonly PlacementStatus[],
  { clock, random, rows, log }: NodeSessionDeps,
): Promise<PlacementStatus[]> {
  const ids = orphans.map(({ placementId }) => placementId);
  const look = () => rows.findTaskRecords(nodeId, ids);
  const records = await persist(look, { clock, random, signal: stream.signal, log, what: "look up orphans" });
  const adopted = new Set<string>();
  for (const [placementId, record] of records ?? []) {
    const decision = verdict(record);
    const value = {
      placementId,
      decision: decision === "kill" ? Verdict_Decision.KILL : Verdict_Decision.ADOPT,
    };
    stream.send({ message: { case: "verdict", value } });
    if (decision === "adopt") adopted.add(placementId);
    log.info({ nodeId, placementId, record, decision }, "an orphan gets its verdict");
  }
  return orphans.filter(({ placementId }) => adopted.has(placementId));
}
