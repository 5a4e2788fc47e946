// @pure
import type { Entrances } from "@svc/proto/entrances";
import { Observed } from "@svc/proto/node";
import type { PlacementRecord } from "../journal/records.ts";
import { isLoopback } from "../network/loopback.ts";

/** Where the engine publishes what is behind an entrance: nobody but this machine gets there. */
export const hiddenAddress = "127.0.0.1";

export interface EntranceFacts {
  /** The node's own, at which edges reach it. */
  address: string;
  /** Whether an operator lets it. */
  isOn: boolean;
  /** Whether control said last that every edge dials entrances. */
  edgesKnow: boolean;
  /** Whether the database proxy of this machine ever said that it knows them. */
  proxyKnows: boolean;
}

/** Whether this node is to have entrances, once its proxy can open them. */
export const mayHaveEntrances = ({ address, isOn, edgesKnow }: Omit<EntranceFacts, "proxyKnows">): boolean =>
  isOn && !isLoopback(address) && edgesKnow;

/**
 * Whether a container that begins now is to be behind an entrance. Whoever does not know them finds it published in the clear
 * otherwise, as before; that the proxy is away for the moment is no reason for it.
 */
export const goesBehindEntrance = (facts: EntranceFacts): boolean => mayHaveEntrances(facts) && facts.proxyKnows;

/** Whether a container published at `upstream` is behind an entrance of the node: what its journal has lost. */
export const isHidden = (upstream: string | null, address: string): boolean =>
  upstream !== null && isLoopback(upstream) && !isLoopback(address);

type Entered = Pick<PlacementRecord, "status" | "memory">;

/** Where edges reach a container that is published at `upstream`; null: nowhere. */
export const edgesReach = (record: Entered, upstream: string | null, address: string): string | null =>
  upstream !== null && record.memory.behindEntrance ? `${address}:${record.memory.hostPort}` : upstream;

/** Every entrance that placements of this node have, by port. */
export const entrancesOf = (records: readonly Entered[]): Entrances["entrances"] =>
  records
    .filter(
      ({ status, memory }) => memory.behindEntrance && memory.hostPort !== 0 && status.observed !== Observed.REMOVED,
    )
    .map(({ memory: { hostPort: port } }) => ({ port, to: { host: hiddenAddress, port } }))
    .toSorted((a, b) => a.port - b.port);

/** Those of both; where they differ about a port, `own` counts. */
export function joined(own: Entrances["entrances"], found: Entrances["entrances"]): Entrances["entrances"] {
  const ports = new Set(own.map(({ port }) => port));
  return [...own, ...found.filter(({ port }) => !ports.has(port))].toSorted((a, b) => a.port - b.port);
}
