import type { Duplex } from "node:stream";

/** Where the server of a branch is. */
export interface DatabaseAddress {
  databaseId: string;
  nodeId: string;
  /** Of the instance that may write. */
  epoch: string;
}

/** Opens a byte stream to a branch's server. Rejects when its node is away, its instance is not serving, or the epoch is past. */
export type OpenLine = (address: DatabaseAddress, signal: AbortSignal) => Promise<Duplex>;
