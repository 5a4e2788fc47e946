/** Every wait and bound of the link. Tests shorten some; production uses the defaults. */
export interface LinkTimings {
  /** How often a daemon renews its lease, and how long it lasts without. Told in Welcome. */
  renewEveryMs: number;
  leaseTtlMs: number;
  /** From opening a stream to its Hello. */
  helloTimeoutMs: number;
  /** From Welcome to the last part of the inventory. */
  inventoryTimeoutMs: number;
  /** From an assignment or a table to its answer. A router may have bundles to fetch before it answers. */
  applyTimeoutMs: number;
  /** Reports of one node are gathered this long before they are written. */
  statusWindowMs: number;
  /** A peer that takes nothing for this long, or lets this much pile up, is sent away. */
  stuckAfterMs: number;
  stuckBytes: number;
  /** How often Postgres hears who was heard, and who may no longer speak is found. */
  rollCallEveryMs: number;
  /** Least time between two writes of what a daemon says with its renewals: of its clock to etcd, of its conditions to Postgres. */
  clockWriteEveryMs: number;
  conditionWriteEveryMs: number;
  /** How often it is looked which volumes a node is to remove: they had days to go. */
  volumesEveryMs: number;
  /** Least and longest pause before a whole assignment or table is sent again because the peer asked for it. */
  resyncMinMs: number;
  resyncMaxMs: number;
  /** Transport pings to silent connections. */
  keepaliveMs: number;
  keepaliveTimeoutMs: number;
  /** How long a stop waits for streams and calls to end by themselves. */
  stopGraceMs: number;
}

export const defaultTimings: LinkTimings = {
  renewEveryMs: 5_000,
  leaseTtlMs: 15_000,
  helloTimeoutMs: 10_000,
  inventoryTimeoutMs: 30_000,
  applyTimeoutMs: 120_000,
  statusWindowMs: 50,
  stuckAfterMs: 10_000,
  stuckBytes: 1024 * 1024,
  rollCallEveryMs: 30_000,
  clockWriteEveryMs: 30_000,
  conditionWriteEveryMs: 5_000,
  volumesEveryMs: 60_000,
  resyncMinMs: 1_000,
  resyncMaxMs: 30_000,
  keepaliveMs: 20_000,
  keepaliveTimeoutMs: 5_000,
  stopGraceMs: 3_000,
};

/** Streams that may be opened per second, and at once, by all daemons together. */
export const helloRate = { ratePerSecond: 200, burst: 200 } as const;
/** Streams that one identity may open; far more than a daemon that backs off, or two that fight over a session. */
export const ownHelloRate = { ratePerSecond: 2, burst: 10 } as const;
/** Calls that one identity may make: an agent that sends the logs of dozens of builds stays below. */
export const ownCallRate = { ratePerSecond: 100, burst: 500 } as const;
/** Identities whose streams and calls are counted; those that were idle the longest are forgotten first. */
export const countedIdentities = 20_000;
/** Enrolments per second: each costs a signature check, and comes from somebody unknown. */
export const joinRate = { ratePerSecond: 20, burst: 40 } as const;

const renewalsFactor = 10;
const renewalsWindowMs = 30_000;

/** Renewals that are put up with in one stream: ten times as many as are asked for. */
export const renewalRate = ({ renewEveryMs }: Pick<LinkTimings, "renewEveryMs">) => ({
  ratePerSecond: (renewalsFactor * 1000) / renewEveryMs,
  burst: Math.max(1, (renewalsFactor * renewalsWindowMs) / renewEveryMs),
});

const driftShare = 0.01;
const deliveryMs = 1_000;

/**
 * How long the grantor of a lease waits after the last renewal it received. The holder counts
 * from its send and with a clock that may be slow by the drift; so it always gives up first.
 */
export const grantedForMs = (ttlMs: number) => ttlMs * (1 + driftShare) + deliveryMs;
