import type { MessageInitShape } from "@bufbuild/protobuf";
import { clip, limits, stripControl } from "@svc/proto";
import type { Applied, Gate, Hello, SessionRequest, SessionResponseSchema } from "@svc/proto/edge";
import type { Clock } from "@svc/runtime/clock";
import { createWake } from "@svc/runtime/wake";
import type { Listener } from "../../stores/db/listen.ts";
import { createAnalyticsReceiver } from "../analytics/receiver.ts";
import { sendSalts } from "../analytics/salt-sender.ts";
import type { DaySalt } from "../analytics/salts.ts";
import { tokensMax } from "../certificates/answering.ts";
import type { CertificateFeed } from "../certificates/feed.ts";
import { createCertificateSender } from "../certificates/sender.ts";
import { behindHostsMax, type EdgeAppliedValue, type EdgeSessionValue, keys } from "../cluster/keys.ts";
import { nodeTopic } from "../cluster/topics.ts";
import type { DaemonCall } from "../sessions/call.ts";
import { createClockSkewWriter } from "../sessions/clock-skew.ts";
import { countOf } from "../sessions/count.ts";
import { LinkError } from "../sessions/errors.ts";
import { helloProblem } from "../sessions/hello.ts";
import {
  holdSession,
  persist,
  receiveStream,
  type SessionDeps,
  untilAborted,
  type Visitor,
} from "../sessions/session.ts";
import type { SessionKey } from "../sessions/session-key.ts";
import type { Farewells } from "../sessions/stream.ts";
import { createTrafficReceiver } from "../traffic/receiver.ts";
import { createDrainSender } from "./drain-sender.ts";
import type { EdgeRows } from "./edge-rows.ts";
import { createGateSender } from "./gate-sender.ts";
import type { TableFeed } from "./table-feed.ts";
import { createTableSender } from "./table-sender.ts";

type Response = MessageInitShape<typeof SessionResponseSchema>;
type EdgeVisitor = Visitor<SessionRequest, Response>;

export interface EdgeSessionDeps extends SessionDeps {
  rows: EdgeRows;
  tables: TableFeed;
  /** What guards these projects now. */
  loadGates: (projectIds: readonly string[]) => Promise<Gate[]>;
  /** What visitors are told apart with; null: nobody is. */
  loadSalts: (() => Promise<DaySalt[]>) | null;
  /** What edges show over TLS and answer CAs; null: control gets no certificates. */
  certificates: CertificateFeed | null;
  /** Tells when an operator did something to an edge. */
  listener: Pick<Listener, "on">;
}

const farewells: Farewells<Response> = {
  superseded: () => ({ message: { case: "superseded", value: {} } }),
  fenced: (reason) => ({ message: { case: "fenced", value: { reason } } }),
  goAway: (reconnectAfterMs) => ({ message: { case: "goAway", value: { reconnectAfterMs } } }),
};

/** One router's stream, from opening to end. */
export const serveEdge = (call: DaemonCall<SessionRequest, Response>, deps: EdgeSessionDeps): Promise<void> =>
  receiveStream(call, { role: "edge", farewells, deps }, async (visitor) => {
    const hello = await expectHello(visitor, deps);
    const { instanceId, bootId, address, version, knowsEntrances } = hello;
    const connectedAt = deps.clock.now().toISOString();
    const { serverId } = deps;
    const { id } = visitor.identity;
    const said = { instanceId, bootId, address, version, knowsEntrances };
    const session = { serverId, ...said, connectedAt, detached: false };
    const value = JSON.stringify(session satisfies EdgeSessionValue);
    const inForce = JSON.stringify(firstValue(hello, deps.clock.now()));
    const claim = {
      key: keys.edgeSession(id),
      valueAfter: () => value,
      isMine: (other: string) => other === value,
      detached: () => JSON.stringify({ ...session, detached: true } satisfies EdgeSessionValue),
      // What it serves while it catches up: whoever waits for a newer generation must wait for this router too.
      also: [{ put: { key: keys.edgeApplied(id), value: inForce } }],
      queryLog: null,
      openTunnel: null,
      tidy: null,
      askToRenew: () => visitor.stream.send({ message: { case: "renewNow", value: {} } }),
    };
    await holdSession(visitor, deps, claim, (key) => converse(visitor, hello, key, deps));
  });

async function expectHello({ stream }: EdgeVisitor, { timings, authority }: SessionDeps): Promise<Hello> {
  const { message } = await stream.first(timings.helloTimeoutMs);
  if (message.case !== "hello") throw new LinkError("FAILED_PRECONDITION", "the first message must be a hello");
  const problem = helloProblem(message.value);
  if (problem !== null) throw new LinkError("INVALID_ARGUMENT", `hello: ${problem} is not acceptable`);
  if (message.value.clusterEpoch > BigInt(authority.epoch)) {
    throw new LinkError("FAILED_PRECONDITION", "this control is of an older cluster epoch than the router");
  }
  return message.value;
}

const hostLengthMax = 253;

function appliedValue(
  { generation, digest, error, behindHosts }: Pick<Applied, "generation" | "digest" | "error" | "behindHosts">,
  now: Date,
): EdgeAppliedValue {
  return {
    generation: countOf(generation),
    digest: /^[0-9a-f]{0,64}$/.test(digest) ? digest : "",
    error: error === "" ? null : clip(stripControl(error), limits.errorTextBytesMax),
    behindHosts: behindHosts.filter((host) => host.length <= hostLengthMax).slice(0, behindHostsMax),
    at: now.toISOString(),
  };
}

/** What a Hello says is served. A router that says how far it is has begun to, so that no drain counts as over before it does. */
function firstValue(hello: Hello, now: Date): EdgeAppliedValue {
  const untold = "it has not said yet";
  return {
    ...appliedValue({ ...hello, error: "" }, now),
    ...(hello.knowsDrain && { state: { generation: 0, phase: "serving", lacks: untold, unready: untold } }),
  };
}

async function converse(
  { stream, identity: { id: edgeId } }: EdgeVisitor,
  hello: Hello,
  key: SessionKey,
  deps: EdgeSessionDeps,
): Promise<void> {
  const { clock, random, rows, authority, timings, log } = deps;
  const { version, address, knowsGates, knowsCertificates, knowsAnalytics, knowsDrain } = hello;
  const { signal } = stream;
  const sender = createTableSender({
    ...{ clock, edgeId, knowsGates, timings, log, signal },
    clusterEpoch: authority.epoch,
    feed: deps.tables,
    send: stream.send,
  });
  const gates = createGateSender({
    ...{ clock, random, edgeId, log, signal },
    feed: deps.tables,
    load: deps.loadGates,
    send: stream.send,
  });
  const traffic = createTrafficReceiver({
    ...{ clock, random, edgeId, log, signal },
    count: rows.applyTraffic,
    acknowledge: (value) => stream.send({ message: { case: "trafficAck", value } }),
  });
  const analytics = createAnalyticsReceiver({
    ...{ clock, random, edgeId, log, signal },
    keep: rows.applyAnalytics,
    acknowledge: (value) => stream.send({ message: { case: "analyticsAck", value } }),
  });
  const writer = createAppliedWriter(
    clock,
    async (value) => {
      const write = () => key.write([{ put: { key: keys.edgeApplied(edgeId), value: JSON.stringify(value) } }]);
      await persist(write, { clock, random, signal, log, what: "record what a router applied" });
    },
    signal,
  );

  let applied = firstValue(hello, clock.now());
  const record = (change: Partial<EdgeAppliedValue>): void => {
    applied = { ...applied, ...change };
    writer.record(applied);
  };
  const { certificates: feed } = deps;
  // A router that has no use for secrets is told none.
  const certificates =
    feed === null || !knowsCertificates
      ? null
      : createCertificateSender({
          ...{ clock, random, edgeId, feed, log, signal },
          send: stream.send,
          onAnswering: (tokens) => record({ challenges: tokens.slice(0, tokensMax), at: clock.now().toISOString() }),
          onProblem(problem) {
            const certificateProblem = problem && clip(stripControl(problem), limits.errorTextBytesMax);
            record({ certificateProblem, at: clock.now().toISOString() });
          },
        });

  const drains = createDrainSender({
    ...{ clock, random, rows, edgeId, log, signal },
    tellsCertificates: certificates !== null,
    send: stream.send,
    onState: (state) => record({ state, at: clock.now().toISOString() }),
  });

  const clockSkew = createClockSkewWriter({
    ...{ clock, daemonId: edgeId, write: key.write, log, signal },
    everyMs: timings.clockWriteEveryMs,
  });
  const facts = { version, address, labels: {}, capacity: null, platform: null };
  const changed = await rows.saveHello(edgeId, { facts, entersNow: !knowsDrain, now: clock.now() });
  if (changed !== null) log.info({ ...changed, address, edgeId }, "an edge says other things of itself");
  stream.receive(({ message }) => {
    switch (message.case) {
      case "renew":
        stream.renew();
        deps.metrics?.renewals.inc({ role: "edge" });
        clockSkew.heard(message.value.wallMs);
        return stream.send({ message: { case: "renewAck", value: { n: message.value.n } } });
      case "applied":
        record(appliedValue(message.value, clock.now()));
        return sender.answered(message.value);
      case "certificatesHeld":
        return certificates?.answered(message.value);
      case "edgeState":
        return drains.answered(message.value);
      case "traffic":
        return traffic.receive(message.value);
      case "analytics":
        return analytics.receive(message.value);
      default:
        // A second Hello, or something of a later version: nothing depends on it.
        return;
    }
  });
  stream.send({
    message: {
      case: "welcome",
      value: {
        edgeId,
        clusterEpoch: BigInt(authority.epoch),
        sessionEpoch: key.epoch,
        renewEveryMs: timings.renewEveryMs,
        leaseTtlMs: timings.leaseTtlMs,
        registry: deps.registry,
      },
    },
  });
  using _tables = deps.tables.subscribe(() => {
    gates.wake();
    sender.wake();
  });
  using _drains = deps.listener.on(nodeTopic, drains.wake);
  using _certificates = feed?.subscribe(() => certificates?.wake());
  const telling = knowsGates ? gates.run() : Promise.resolve();
  const salting = knowsAnalytics
    ? sendSalts({ clock, random, load: deps.loadSalts, send: stream.send, log, signal })
    : Promise.resolve();
  const working = [sender.run(), writer.run(), traffic.run(), analytics.run()];
  const draining = knowsDrain ? drains.run() : Promise.resolve();
  await Promise.all([telling, salting, draining, certificates?.run(), ...working, untilAborted(signal)]);
}

const idleMs = 60_000;

/** Writes the newest of what a router reported; what was overtaken before it could be written is passed over. */
function createAppliedWriter(clock: Clock, write: (value: EdgeAppliedValue) => Promise<void>, signal: AbortSignal) {
  const wake = createWake(clock);
  let newest: EdgeAppliedValue | null = null;
  return {
    record(value: EdgeAppliedValue): void {
      newest = value;
      wake.signal();
    },
    async run(): Promise<void> {
      while (!signal.aborted) {
        const value = newest;
        newest = null;
        if (value === null) await wake.wait(idleMs, signal);
        else await write(value);
      }
    },
  };
}
