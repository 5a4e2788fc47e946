import { create } from "@bufbuild/protobuf";
import { type EdgeAppliedValue, keys } from "@svc/control/fleet/cluster/keys";
import type { RouteEntry } from "@svc/control/fleet/cluster/route-entry";
import { emptyTableOutbox, type PublishedTable } from "@svc/control/fleet/edges/table-outbox";
import { defaultTimings } from "@svc/control/fleet/sessions/timings";
import { PageTarget_Page, type Route, RouteSchema, RouteTable_Kind, RouteTableSchema } from "@svc/proto/edge";
import { createBell, pause, type Work, wait } from "../../kernel/kernel.ts";
import type { EdgeSessionValue } from "../fleet.ts";
import type { Replica } from "../replica.ts";
import { endWith, expectHello, hold, type LiveSession, persist, type ServerStream } from "./session.ts";
import { type SessionKey, takeSessionKey } from "./session-key.ts";

const timings = defaultTimings;

interface Hello {
  edgeId: string;
  instanceId: string;
  clusterEpoch: bigint;
  generation: bigint;
}

/** What an edge says of the table that it serves. */
export interface EdgeApplied {
  generation: bigint;
  error: string;
  resync: boolean;
}

/** One router's stream: mirrors `control/src/fleet/edges/{edge-session,table-sender,table-feed}.ts`. */
export const serveEdge = (stream: ServerStream): void => expectHello(stream, open);

const applied = (replica: Replica, generation: bigint, error: string): EdgeAppliedValue => ({
  generation: Number(generation),
  digest: "",
  error: error === "" ? null : error,
  behindHosts: [],
  at: replica.process.now().toISOString(),
});

function* open(stream: ServerStream, hello: Hello, flush: () => void): Work {
  const { replica } = stream;
  const { world, client, process } = replica;
  const { edgeId } = hello;
  if (hello.clusterEpoch > BigInt(replica.clusterEpoch)) return stream.close({ why: "refused" });
  const row = yield* replica.transact((tables) => ({ ...tables.nodes.get(edgeId) }));
  if (row.lifecycle !== "active") return stream.close({ why: "fenced" });
  const value: EdgeSessionValue = {
    serverId: replica.id,
    instanceId: hello.instanceId,
    connectedAt: `${process.monoMs()}`,
    detached: false,
  };
  const key = yield* takeSessionKey(client, {
    key: keys.edgeSession(edgeId),
    valueAfter: () => world.values.textOf(value),
    also: [
      { put: { key: keys.edgeApplied(edgeId), value: world.values.textOf(applied(replica, hello.generation, "")) } },
    ],
    daemonId: edgeId,
    serverId: replica.id,
    scope: replica.scope,
  });
  const session: LiveSession = {
    daemonId: edgeId,
    incarnation: 1,
    key,
    stream,
    isMine: (other) => (other as EdgeSessionValue).connectedAt === value.connectedAt,
    noteSilence: () => {},
  };
  hold(session, () => world.values.textOf({ ...value, detached: true }));
  if (stream.ending !== null) return;
  yield* converse(stream, edgeId, key, flush);
}

function* converse(stream: ServerStream, edgeId: string, key: SessionKey, flush: () => void): Work {
  const { replica, scope } = stream;
  const { fleet, world } = replica;
  const { cores } = world;
  const bell = createBell();
  let outbox = emptyTableOutbox;
  let restarts = 0;
  let newest: EdgeAppliedValue | null = null;
  const appliedBell = createBell();
  yield* replica.transact((tables) => {
    const node = tables.nodes.get(edgeId);
    if (node !== undefined) node.seenAt = replica.process.now();
  });
  stream.handle((message) => {
    switch (message.case) {
      case "renew":
        stream.renew();
        return stream.send("renewAck", {});
      case "applied": {
        const { generation, error, resync } = message.value as EdgeApplied;
        newest = applied(replica, generation, error);
        appliedBell.ring();
        const before = outbox;
        outbox = cores.tableAnswered(outbox, { generation: Number(generation), refused: error !== "", resync });
        if (outbox === before) return;
        restarts = outbox.generation === null ? restarts + 1 : 0;
        bell.ring();
      }
    }
  });
  flush();
  stream.send("welcome", { renewEveryMs: timings.renewEveryMs, leaseTtlMs: timings.leaseTtlMs });
  const stop = fleet.routes.subscribe(() => bell.ring());
  scope.onEnd(stop);
  scope.spawn(
    (function* (): Work {
      for (;;) {
        const value: EdgeAppliedValue | null = newest;
        newest = null;
        if (value === null) yield* wait(appliedBell.wait(60_000));
        else {
          const text = world.values.textOf(value);
          yield* persist(stream, () => key.write([{ put: { key: keys.edgeApplied(edgeId), value: text } }]));
        }
      }
    })(),
    (error) => endWith(stream, error),
  );
  for (;;) {
    if (restarts > 0) {
      yield* wait(pause(Math.min(timings.resyncMinMs * 2 ** (restarts - 1), timings.resyncMaxMs)));
    }
    const table = publishedTable(replica);
    const next = table === null ? null : cores.nextTable(outbox, table.published);
    if (table !== null && next !== null) {
      const { message } = next;
      outbox = next.outbox;
      const bulk = cores.vouchesForShrinking(message, table.published);
      stream.send(
        "table",
        create(RouteTableSchema, {
          kind: message.kind === "complete" ? RouteTable_Kind.COMPLETE : RouteTable_Kind.DELTA,
          clusterEpoch: BigInt(replica.clusterEpoch),
          appliesTo: BigInt(message.appliesTo),
          generation: BigInt(message.generation),
          upserts: message.upsertHosts.flatMap((host) => {
            const entry = table.entries.get(host);
            return entry === undefined ? [] : [routeOf(entry)];
          }),
          removedHosts: message.removedHosts,
          bulkToken: bulk ? `table/${message.generation}` : "",
        }),
      );
    }
    yield* wait(bell.wait(60_000));
  }
}

/** The published table, or null while what this replica has seen of it is half written. */
function publishedTable(replica: Replica): { published: PublishedTable; entries: Map<string, RouteEntry> } | null {
  const { fleet, world } = replica;
  const { modRevision, generation, count, emptied = false } = fleet.routesMeta();
  if (modRevision === null) return null;
  const hosts = new Map<string, bigint>();
  const entries = new Map<string, RouteEntry>();
  for (const { value, modRevision: revision } of fleet.routes.values.values()) {
    if (!("entry" in value)) continue;
    hosts.set(value.entry.host, revision);
    entries.set(value.entry.host, value.entry);
  }
  return world.cores.isWhole(hosts, { modRevision, count })
    ? { published: { generation, hosts, emptied }, entries }
    : null;
}

const routes = new WeakMap<RouteEntry, Route>();
const pages = {
  PAGE_STOPPED: PageTarget_Page.STOPPED,
  PAGE_SUSPENDED: PageTarget_Page.SUSPENDED,
  PAGE_EMPTY: PageTarget_Page.EMPTY,
  PAGE_DOWN: PageTarget_Page.DOWN,
} as const;

function routeOf(entry: RouteEntry): Route {
  const known = routes.get(entry);
  if (known !== undefined) return known;
  const { host, projectId, channel, deploymentId = "" } = entry;
  const target = entry.proxy
    ? ({ case: "proxy", value: { upstreams: entry.proxy.upstreams } } as const)
    : ({ case: "page", value: { page: pages[entry.page?.page ?? "PAGE_EMPTY"] } } as const);
  const route = create(RouteSchema, { host, projectId, channel, deploymentId, target });
  routes.set(entry, route);
  return route;
}
