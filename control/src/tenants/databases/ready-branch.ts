import type { Channel, DatabaseEngine } from "@svc/proto";
import type { Caller } from "../../http/caller.ts";
import type { Db } from "../../stores/db/pool.ts";
import { Refused } from "../../stores/refused.ts";
import type { DatabaseAddress } from "./sql/line.ts";
import type { Login } from "./sql/requests.ts";

/** The branch is on its way, or broken: there is no database yet, or no more. One whose server is away for a moment has another refusal. */
export class BranchNotReady extends Refused {
  override readonly name = "BranchNotReady";
}

/** A branch whose server may be asked. */
export interface ReadyBranch {
  branch: {
    projectId: string;
    ownerId: string;
    channel: Channel;
    engine: DatabaseEngine;
    /** Of the owner's plan now. */
    sizeLimitMb: number;
    connectionLimit: number;
    readOnly: boolean;
    /** It is, and sessions can undo that. */
    readOnlySoft: boolean;
  };
  /** Where its server is. */
  address: DatabaseAddress;
  /** Secrets. */
  credentials: {
    /** Of the tenant's role. */
    tenant: Login;
    /** Of the platform's own user. */
    admin: Login;
  };
}

/**
 * The branch of a project's channel, for the caller. Throws NOT_FOUND, also without a branch; DATABASE_PROVISIONING;
 * DATABASE_NOT_READY, also without credentials; SUSPENDED; PLAN_FEATURE_UNAVAILABLE.
 */
export type FindReadyBranch = (
  db: Db,
  caller: Pick<Caller, "userId" | "projectIds">,
  projectId: string,
  channel: Channel,
) => Promise<ReadyBranch>;

/** What was measured of a branch, in the store. */
export interface SizeRecord {
  /** Notes what the branch has now, for whoever asks without measuring. */
  saveSize(db: Db, databaseId: string, sizeBytes: number): Promise<void>;
  /** The newest samples of housekeeping, oldest first; at most `max`. */
  listSizeSamples(db: Db, databaseId: string, max: number): Promise<{ sampledAt: Date; sizeBytes: number }[]>;
}
