import { create } from "@bufbuild/protobuf";
import { PageTarget_Page, type Route, type TrafficAck, type TrafficBatch, TrafficBatchSchema } from "@svc/proto/edge";
import type { Clock } from "@svc/runtime/clock";
import { pause } from "@svc/runtime/sleep";
import type { Analytics } from "../analytics/analytics.ts";
import type { Log } from "../log.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { accessLogBytesMax } from "../render/access-log.ts";
import { prepareAccessLog, readAccessLog, removeFinished, unreadBytes } from "./access-log.ts";
import { type Batch, type BatchStore, countsPerBatch } from "./batch-store.ts";
import { addVisit, type Counts } from "./counts.ts";
import { hostOf, isHandshake, parseLine } from "./line.ts";

/** Counts what visitors asked for, and tells control. */
export interface Traffic extends AsyncDisposable {
  /** There is a session; what waits goes out on it, one batch at a time. */
  open(send: (batch: TrafficBatch) => void): void;
  acknowledged(ack: TrafficAck): void;
  closed(): void;
  /** What Caddy has logged and is not counted yet. */
  unreadBytes(): Promise<number>;
}

type TrafficMetrics = Pick<Metrics, "requests" | "requestsUnknown" | "requestSeconds" | "handshakes">;
/** With more of the log unread than this, analytics look at every so many page views only. */
const behindBytes = accessLogBytesMax / 2;
const everyNthBehind = 10;

/** A batch that was not acknowledged is sent again on the same session after so long. */
const sendAgainMs = 60_000;

/**
 * Every so often: reads what Caddy logged, puts the counts on disk together with how far it read, and sends them. A
 * router that is killed anywhere goes on where it was; what Caddy has logged meanwhile waits in its files.
 *
 * @param options.store for the batches; on disk
 * @param options.logDir where Caddy writes its access log
 * @param options.routes the table in force; null while there is none, and nobody knows whose the hosts are
 */
export async function startTraffic(options: {
  store: BatchStore;
  /** Counts the same requests in another way, and is told of each round; null: nobody wants that. */
  analytics?: Analytics | null;
  logDir: string;
  everyMs: number;
  routes(): ReadonlyMap<string, Route> | null;
  metrics?: TrafficMetrics | undefined;
  /** Called after every round of counting, whatever came of it. */
  onTurn?: (() => void) | undefined;
  clock: Clock;
  log: Log;
}): Promise<Traffic> {
  const { store, analytics = null, logDir, everyMs, routes, metrics, clock, log } = options;
  await prepareAccessLog(logDir);
  const stop = new AbortController();
  let send: ((batch: TrafficBatch) => void) | null = null;
  let awaited: { series: string; number: number; sentAtMs: number } | null = null;

  // The store is one writer's: what is asked of it is done in turn.
  let last: Promise<void> = Promise.resolve();
  const inTurn = (what: string, step: () => Promise<void>): Promise<void> => {
    last = last.then(step).catch((err: unknown) => log.warn({ err, what }, "traffic is not counted at the moment"));
    return last;
  };

  /** Whether there is more to read at once. */
  let behind = false;

  async function collect(): Promise<void> {
    const table = routes();
    if (table === null) return;
    try {
      await count(table);
    } catch (cause) {
      // What was read of it is read again.
      await analytics?.rollBack(store.position()).catch((err) => log.error({ err }, "analytics are not rolled back"));
      throw cause;
    }
  }

  async function count(table: ReadonlyMap<string, Route>): Promise<void> {
    const enough = () => stop.signal.aborted || counts.size >= countsPerBatch;
    const known = store.position();
    const counts: Counts = new Map();
    let lines = 0;
    let unknown = 0;
    let handshakes = 0;
    const seconds: number[] = [];
    if (analytics !== null) {
      const isBehind = (await unreadBytes(logDir, known ?? [])) > behindBytes;
      analytics.begin(isBehind ? everyNthBehind : 1);
    }
    const { position, finished } = await readAccessLog(
      logDir,
      known ?? [],
      (line) => {
        lines += 1;
        if (isHandshake(line)) {
          handshakes += Number(known !== null);
          return;
        }
        const visit = parseLine(line);
        const site = visit && table.get(hostOf(visit.host));
        // Of what may be counted already only the end is of interest.
        if (visit && site && known !== null) {
          addVisit(counts, siteOf(site), visit);
          seconds.push(visit.seconds);
          const { projectId, channel } = site;
          const isOwnHost = (host: string) => table.get(host)?.projectId === projectId;
          analytics?.add({ projectId, channel, isOwnHost }, visit);
        } else if (known !== null) unknown += 1;
      },
      enough,
    );
    behind = enough();
    // Nothing of it is kept when this fails, and it is read again.
    if (lines > 0 || known === null) {
      await analytics?.keep(position);
      await store.keep(counts, position);
    }
    // From here on it is counted, and is not read again.
    if (metrics !== undefined) addCounts(metrics, { counts, seconds, unknown, handshakes });
    if (lines > 0 || known === null) await analytics?.commit(position);
    await removeFinished(finished);
  }

  async function ship(): Promise<void> {
    if (send === null || awaited !== null) return;
    const batch = await store.next();
    if (batch === null || send === null) return;
    awaited = { series: batch.series, number: batch.number, sentAtMs: clock.steadyMs() };
    send(messageOf(batch));
  }

  async function run(): Promise<void> {
    while (!stop.signal.aborted) {
      await inTurn("collect", collect);
      if (awaited !== null && clock.steadyMs() - awaited.sentAtMs > sendAgainMs) awaited = null;
      await inTurn("ship", ship);
      await inTurn("ship analytics", async () => analytics?.ship());
      await inTurn("tidy analytics", async () => analytics?.tidy());
      options.onTurn?.();
      if (!behind) await pause(clock, everyMs, stop.signal);
      behind = false;
    }
  }
  const running = run();

  return {
    open(to) {
      send = to;
      awaited = null;
      void inTurn("ship", ship);
    },
    acknowledged({ series, number }) {
      if (awaited?.series !== series || awaited.number !== Number(number)) return;
      const { number: done } = awaited;
      awaited = null;
      void inTurn("acknowledge", () => store.acknowledge(done));
      void inTurn("ship", ship);
    },
    closed() {
      send = null;
      awaited = null;
    },
    unreadBytes: () => unreadBytes(logDir, store.position() ?? []),
    async [Symbol.asyncDispose]() {
      stop.abort();
      await running;
      await last;
    },
  };
}

/** Once they are on disk: what could not be kept is read, and counted, again. */
function addCounts(
  metrics: TrafficMetrics,
  read: { counts: Readonly<Counts>; seconds: readonly number[]; unknown: number; handshakes: number },
): void {
  const { counts, seconds, unknown, handshakes } = read;
  for (const { requests, status2xx, status3xx, status4xx, status5xx } of counts.values()) {
    const other = requests - status2xx - status3xx - status4xx - status5xx;
    metrics.requests.inc({ status: "2xx" }, status2xx);
    metrics.requests.inc({ status: "3xx" }, status3xx);
    metrics.requests.inc({ status: "4xx" }, status4xx);
    metrics.requests.inc({ status: "5xx" }, status5xx);
    if (other > 0) metrics.requests.inc({ status: "other" }, other);
  }
  for (const each of seconds) metrics.requestSeconds.observe(each);
  if (unknown > 0) metrics.requestsUnknown.inc(unknown);
  if (handshakes > 0) metrics.handshakes.inc(handshakes);
}

const siteOf = ({ projectId, channel, target }: Route) => ({
  projectId,
  channel,
  unmetered: target.case === "page" && target.value.page === PageTarget_Page.SUSPENDED,
});

const messageOf = ({ series, number, counts }: Batch): TrafficBatch =>
  create(TrafficBatchSchema, {
    series,
    number: BigInt(number),
    counts: counts.map((each) => ({
      projectId: each.projectId,
      channel: each.channel,
      hour: BigInt(each.hour),
      requests: BigInt(each.requests),
      bytesIn: BigInt(each.bytesIn),
      bytesOut: BigInt(each.bytesOut),
      status2xx: BigInt(each.status2xx),
      status3xx: BigInt(each.status3xx),
      status4xx: BigInt(each.status4xx),
      status5xx: BigInt(each.status5xx),
      unmetered: each.unmetered,
    })),
  });
