// @pure
import type { Channel } from "@svc/proto";

/** A separate line of deployments of a project, with hosts of its own. */
export interface HostAddress {
  channel: Channel;
  /** Null: the stable address of the channel. */
  prNumber: number | null;
}

export const sameAddress = (a: HostAddress, b: HostAddress): boolean =>
  a.channel === b.channel && a.prNumber === b.prNumber;
