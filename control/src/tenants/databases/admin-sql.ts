import type { Duplex } from "node:stream";
import type { DatabaseEngine } from "@svc/proto";

/** A branch's server as long as one instance of it runs. */
export interface BranchAddress {
  databaseId: string;
  nodeId: string;
  /** Of the instance: another one has a higher number. */
  epoch: string;
}

/** Opens a byte stream to a branch's server. Rejects when its node is away, its instance does not serve, or the epoch is past. */
export type OpenLine = (branch: BranchAddress, signal: AbortSignal) => Promise<Duplex>;

/** A server, and how the platform's administrator reaches it. */
export interface AdminTarget {
  engine: DatabaseEngine;
  connect(signal: AbortSignal): Promise<Duplex>;
  /** Of the administrator. */
  password: string;
  /** Whose turn it is when many ask: the id of the project. */
  turn: string;
}

export interface NewTenant {
  database: string;
  role: string;
  /** What the server is given in place of the password; see `verifierOf`. */
  verifier: string;
  /** Connections of the role at once. */
  connectionLimit: number;
}

/**
 * What the platform does in a branch's server as its administrator. Every call may be repeated, also after one that was cut
 * off, and ends within its own bound of time.
 */
export interface DatabaseAdmin {
  /**
   * Makes the role and the database that it owns, where they are not there yet, and gives the role this verifier and this
   * limit in any case. What is in a database that is there stays, and so do sessions beyond a lower limit.
   */
  createTenant(target: AdminTarget, tenant: NewTenant, signal: AbortSignal): Promise<void>;
  /** Gives the role another verifier and then ends all its sessions: who came in by the one before is out. */
  rotate(target: AdminTarget, tenant: Pick<NewTenant, "role" | "verifier">, signal: AbortSignal): Promise<void>;
  /**
   * Keeps the role out and ends all sessions, so that nobody writes any more; `createTenant` lets it in again. Gives the place
   * in the server's log then, and whether the copy that follows by `slot` has everything before it: looked at for up to
   * `waitMs`. Without a slot nobody but the copy's own node knows.
   */
  freeze(
    target: AdminTarget,
    asked: { role: string; slot: string | null; waitMs: number },
    signal: AbortSignal,
  ): Promise<{ position: string; isCopied: boolean }>;
  /** Makes the user that copies are kept by, with this verifier, or gives it that. */
  bringKeeper(target: AdminTarget, keeper: { verifier: string }, signal: AbortSignal): Promise<void>;
  /** Ends what the server keeps of its log for copies; see `copySlot`. Gives how many of them there were. */
  releaseSlots(target: AdminTarget, asked: { slots: string[] }, signal: AbortSignal): Promise<number>;
  /** Logs in as the tenant's role and asks something of its database; false: the server refuses that password. */
  proveLogin(
    target: Pick<AdminTarget, "engine" | "connect" | "turn">,
    login: { database: string; role: string; password: string },
    signal: AbortSignal,
  ): Promise<boolean>;
}

/** The server was not reached, or did not answer in time: another try may help. */
export class ServerUnreachable extends Error {
  override readonly name = "ServerUnreachable";
}

/** The server answered, and would not do it. The message is for operators, and holds no secret. */
export class ServerRefused extends Error {
  override readonly name = "ServerRefused";
}
