import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import {
  type Applied,
  PageTarget_Page,
  PageTargetSchema,
  type Route,
  RouteTable_Kind,
  RouteTableSchema,
  type SessionResponseSchema,
} from "@svc/proto/edge";
import type { Clock } from "@svc/runtime/clock";
import { pause } from "@svc/runtime/sleep";
import { createWake } from "@svc/runtime/wake";
import type { Log } from "../../log.ts";
import type { LinkTimings } from "../sessions/timings.ts";
import type { TableFeed } from "./table-feed.ts";
import { emptyTableOutbox, nextTable, tableAnswered, vouchesForShrinking } from "./table-outbox.ts";

export interface TableSenderOptions {
  clock: Clock;
  edgeId: string;
  clusterEpoch: number;
  /** Whether the router heeds the gate of a route. */
  knowsGates: boolean;
  feed: TableFeed;
  send: (message: MessageInitShape<typeof SessionResponseSchema>, sizeBytes: number) => void;
  timings: Pick<LinkTimings, "resyncMinMs" | "resyncMaxMs">;
  log: Log;
  signal: AbortSignal;
}

/** Keeps one router's table at the newest generation: whole first, then what changes, one unanswered message at a time. */
export interface TableSender {
  wake(): void;
  answered(applied: Applied): void;
  /** Resolves when `signal` aborts. */
  run(): Promise<void>;
}

const idleMs = 60_000;

/**
 * What a router without gates is told of a site that has one: it would serve the site to everybody. The page is one that
 * every router has.
 */
const withoutSite = (route: Route): Route => ({
  ...route,
  target: { case: "page", value: create(PageTargetSchema, { page: PageTarget_Page.STOPPED }) },
});

export function createTableSender(options: TableSenderOptions): TableSender {
  const { clock, edgeId, knowsGates, feed, timings, log, signal } = options;
  const wake = createWake(clock);
  let outbox = emptyTableOutbox;
  /** Answers in a row that asked for a whole table again. */
  let restarts = 0;

  function sendNext(): void {
    const table = feed.current();
    const next = table === null ? null : nextTable(outbox, table);
    if (table === null || next === null) return;
    const { message } = next;
    outbox = next.outbox;
    const { kind, appliesTo, generation, upsertHosts, removedHosts } = message;
    const upserts = upsertHosts.flatMap((host) => table.routes.get(host) ?? []);
    const withheld = knowsGates ? 0 : upserts.filter(({ gate }) => gate !== "").length;
    if (withheld > 0)
      log.warn({ edgeId, withheld }, "a router is too old for sites with a password: it gets a page instead");
    const bulk = vouchesForShrinking(message, table);
    const value = create(RouteTableSchema, {
      kind: kind === "complete" ? RouteTable_Kind.COMPLETE : RouteTable_Kind.DELTA,
      clusterEpoch: BigInt(options.clusterEpoch),
      appliesTo: BigInt(appliesTo),
      generation: BigInt(generation),
      upserts: withheld === 0 ? upserts : upserts.map((route) => (route.gate === "" ? route : withoutSite(route))),
      removedHosts,
      bulkToken: bulk ? `table/${generation}` : "",
    });
    options.send({ message: { case: "table", value } }, toBinary(RouteTableSchema, value).byteLength);
    log.info(
      { edgeId, kind, generation, upserts: upsertHosts.length, removes: removedHosts.length, bulk },
      "route table sent",
    );
  }

  /** A router that keeps asking for a whole table is answered more and more slowly. */
  const restartPauseMs = () => Math.min(timings.resyncMinMs * 2 ** (restarts - 1), timings.resyncMaxMs);

  return {
    wake: wake.signal,
    answered({ generation, error, resync }) {
      const before = outbox;
      outbox = tableAnswered(outbox, { generation: Number(generation), refused: error !== "", resync });
      if (error !== "") log.error({ edgeId, generation: Number(generation), error }, "a router keeps its older table");
      if (outbox === before) return;
      restarts = outbox.generation === null ? restarts + 1 : 0;
      wake.signal();
    },
    async run() {
      while (!signal.aborted) {
        if (restarts > 0) await pause(clock, restartPauseMs(), signal);
        if (!signal.aborted) sendNext();
        await wake.wait(idleMs, signal);
      }
    },
  };
}
