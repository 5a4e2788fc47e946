import type { Clock } from "@svc/runtime/clock";
import type { TlsOptions } from "../../stores/etcd/index.ts";
import { askMembers, type Etcd, type MemberReport, openMembers } from "../../stores/etcd/index.ts";
import type { Fleet } from "./fleet.ts";
import { keyParts, keys, prefix } from "./keys.ts";

/** One replica of control as it announces itself. What an older version does not tell is null. */
export interface AnnouncedReplica {
  serverId: string;
  version: string | null;
  masterKeyIds: readonly string[] | null;
  /** Its clock against that of Postgres, when it was last more than a little off. */
  clockOffsetMs: number | null;
  /** Where it serves the API, as host:port; null when it does not tell. */
  address: string | null;
}

/** What one edge serves, by its own last word. */
export interface ServedTable {
  generation: number;
  error: string | null;
  hostsBehind: number;
}

/** What operators are told of the cluster and no table holds. */
export interface OperatorFacts {
  /** This replica. */
  serverId: string;
  /** Of its machine, against which the database's is held; the usual one unless given. */
  machineClock?: Clock;
  /** Asks every member by itself; never rejects. */
  etcdMembers(timeoutMs: number): Promise<MemberReport[]>;
  /** Endpoints of etcd that take clients without a certificate, though they have one themselves; never rejects. */
  openEtcdMembers(timeoutMs: number): Promise<string[]>;
  /** Who leads now, asked of etcd; null when nobody does. @throws EtcdError. */
  leaderId(): Promise<string | null>;
  /** By the id of a machine: its clock against control's, of those that are more than a second off. @throws EtcdError. */
  clockOffsets(): Promise<ReadonlyMap<string, number>>;
  /** When this replica last heard of etcd on each of its watches: what it knows of the fleet is at least as new. */
  viewAsOf(): Date;
  replicas(): AnnouncedReplica[];
  storm(): { reason: string; since: string } | null;
  /** Of the published table. */
  routesGeneration(): number;
  /** Null before it has applied any table. */
  servedBy(edgeId: string): ServedTable | null;
}

export const operatorFacts = ({
  clock,
  machineClock,
  serverId,
  etcd,
  fleet,
  endpoints,
  tls,
}: {
  clock: Clock;
  machineClock: Clock;
  serverId: string;
  etcd: Etcd;
  fleet: Fleet;
  endpoints: readonly string[];
  tls: TlsOptions | null;
}): OperatorFacts => ({
  serverId,
  machineClock,
  etcdMembers: (timeoutMs) => askMembers(machineClock, { endpoints, ...(tls && { tls }) }, timeoutMs),
  openEtcdMembers: (timeoutMs) => openMembers(machineClock, { endpoints, tls }, timeoutMs),
  leaderId: async () => (await etcd.get(keys.leader))?.value ?? null,
  async clockOffsets() {
    const { entries } = await etcd.range(prefix.clocks);
    return new Map(
      entries.flatMap(({ key, value }) => {
        const [id = ""] = keyParts(key, prefix.clocks);
        const offsetMs = Number(value);
        return Number.isFinite(offsetMs) ? [[id, offsetMs]] : [];
      }),
    );
  },
  viewAsOf() {
    const silences = [...etcd.connection.watches].map(({ heardAtMs }) => clock.steadyMs() - heardAtMs);
    return new Date(clock.now().getTime() - Math.max(0, ...silences));
  },
  replicas: () =>
    fleet.replicas().map(({ serverId: id, version, masterKeyIds, clockOffsetMs, address }) => ({
      serverId: id,
      version: version ?? null,
      masterKeyIds: masterKeyIds ?? null,
      clockOffsetMs: clockOffsetMs ?? null,
      address: address ?? null,
    })),
  storm: () => fleet.status()?.storm ?? null,
  routesGeneration: () => fleet.routesMeta().generation,
  servedBy(edgeId) {
    const applied = fleet.edgeApplied(edgeId);
    if (applied === null) return null;
    const { generation, error, behindHosts } = applied;
    return { generation, error, hostsBehind: behindHosts.length };
  },
});
