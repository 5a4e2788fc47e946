export { type CampaignOptions, campaign, type Leadership } from "./campaign.ts";
export { createEtcd, type Etcd, type Snapshot } from "./client.ts";
export type { ConnectionOptions, Timings, TlsOptions } from "./connection.ts";
export type { Entry, WatchEvent } from "./entry.ts";
export { EtcdError, type EtcdErrorCode, LeadershipLost, LeaseLost, UnknownOutcome } from "./errors.ts";
export { grantLease, type Lease, type LeaseOptions } from "./lease.ts";
export { type Guard, type Op, type Txn, type TxnResult, txnLimits } from "./txn.ts";
export { type Change, createView, type Decode, type View, type ViewOptions } from "./view.ts";
export { listWatch, type WatchConsumer } from "./watch.ts";
