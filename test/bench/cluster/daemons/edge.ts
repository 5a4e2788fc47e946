import { randomUUID } from "node:crypto";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { createClient } from "@connectrpc/connect";
import { EdgeService, type RouteTable, type SessionRequestSchema, type SessionResponse } from "@svc/proto/edge";
import { createLog } from "@svc/router/log";
import { decide, emptyTable } from "@svc/router/table";
import { openTableFile } from "@svc/router/table-file";
import { createTableStore } from "@svc/router/table-store";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { createEndpoints, createTransport, type Identity, runSession, type Send } from "@svc/uplink";
import { monotonicMs } from "../monotonic.ts";
import type { DaemonsEvents, DaemonsState } from "./messages.ts";

type Request = MessageInitShape<typeof SessionRequestSchema>;

export interface EdgeOptions {
  identity: Identity;
  linkUrls: readonly string[];
  address: string;
  bootId: string;
  /** Of this edge alone. */
  dir: string;
  counts: DaemonsState;
  events: DaemonsEvents;
  signal: AbortSignal;
}

const quiet = { info: () => {}, warn: () => {} };

/**
 * One simulated edge: the real session and transport, the real rules of the route table, and the table on disk as a
 * router has it; nobody is served. Resolves when `signal` aborts.
 */
export async function runEdge(options: EdgeOptions): Promise<void> {
  const { identity, address, counts, events, signal } = options;
  const endpoints = createEndpoints(options.linkUrls, systemRandom);
  const link = createTransport(systemClock, identity, endpoints);
  const client = createClient(EdgeService, link.transport);
  await using store = createTableStore(await openTableFile(options.dir), createLog("silent"));
  const instanceId = randomUUID();
  let table = emptyTable;
  let isOpen = false;

  async function take(message: RouteTable, send: Send<Request>): Promise<void> {
    const decision = decide(table, true, message);
    if ("refuse" in decision) {
      counts.refusals += 1;
      const value = { generation: table.generation, digest: "", error: decision.refuse, resync: decision.resync };
      send({ message: { case: "applied", value } });
      return;
    }
    table = decision.accept;
    await store.save({ table, whole: true }, decision.changed);
    const { generation } = table;
    events.tables.push({
      edgeId: identity.id,
      generation: Number(generation),
      hosts: decision.changed,
      at: monotonicMs(),
    });
    counts.assigned += 1;
    send({ message: { case: "applied", value: { generation, digest: "", error: "", resync: false } } });
  }

  try {
    await runSession<Request, SessionResponse>({
      clock: systemClock,
      random: systemRandom,
      endpoints,
      connect: (requests, within) => client.session(requests, { signal: within }),
      onOpen: (send) => {
        const { bootId } = options;
        const { generation, clusterEpoch } = table;
        const value = { clusterEpoch, bootId, instanceId, version: "bench", generation, digest: "", address };
        send({ message: { case: "hello", value: { ...value, behindHosts: [], knowsGates: true } } });
      },
      async onMessage({ message }, send) {
        if (message.case === "table") return take(message.value, send);
        if (message.case !== "welcome") return;
        isOpen = true;
        counts.open += 1;
        counts.welcomes += 1;
      },
      onClose() {
        if (isOpen) counts.open -= 1;
        isOpen = false;
      },
      renew: (n) => ({ message: { case: "renew", value: { n, wallMs: BigInt(Date.now()) } } }),
      signal,
      log: quiet,
    });
  } finally {
    link.close();
  }
}
