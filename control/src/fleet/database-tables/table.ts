// @pure
import { create } from "@bufbuild/protobuf";
import { type Channel, type DatabaseEngine, type DatabaseStatus, databaseNames } from "@svc/proto";
import { type DatabaseEntry, DatabaseEntry_State, DatabaseEntrySchema } from "@svc/proto/node";

/** What decides how a branch is reached. */
export interface ReachableBranch {
  id: string;
  projectId: string;
  channel: Channel;
  engine: DatabaseEngine;
  status: DatabaseStatus;
  /** The project is off the air, or being deleted. */
  isOff: boolean;
  /** Whose disk holds its data; null until its first server was placed. */
  nodeId: string | null;
  /** Of its owner's plan, now. */
  connectionLimit: number;
  /** Nothing of its tenant's is to be written. */
  readOnly: boolean;
  /** It is on its way to another volume or server: whoever wants in waits. */
  isHeld: boolean;
  /** Copies that follow it, in the order of their ids. */
  copies: readonly { copyId: string; nodeId: string }[];
  /** The newest server that was asked for, if any was: the only one that may write. */
  server: {
    epoch: number;
    /** Nobody can write to it. */
    readOnly: boolean;
    /** Null: it is on no node, or has been asked to go. */
    at: { nodeId: string; address: string } | null;
  } | null;
}

/** What runs on a node, and may use a database. */
export interface Uses {
  /** Whose containers are there. */
  channels: readonly { projectId: string; channel: string }[];
  /** Deployments and runs of jobs whose commands run there. */
  ownerIds: readonly string[];
}

/** A server that could be written to is the platform's alone while the branch is read-only. */
export const isForTenant = (branch: { readOnly: boolean }, server: { readOnly: boolean } | null): boolean =>
  !branch.readOnly || server?.readOnly === true;

/** Whether its containers get through. */
export const letsTenantIn = ({
  status,
  isOff,
  readOnly,
  server,
}: Pick<ReachableBranch, "status" | "isOff" | "readOnly"> & { server: { readOnly: boolean } | null }): boolean =>
  !isOff && (status === "ready" || status === "provisioning") && isForTenant({ readOnly }, server);

/**
 * The part of a node's table that is about these branches, each of which its containers may use, or whose server or copy it has:
 * sorted, so that equal ones are equal bytes. A branch without a server so far is in none, since there is no way to it yet.
 */
export const tableOf = (branches: readonly ReachableBranch[]): DatabaseEntry[] =>
  branches
    .toSorted((a, b) => (a.id < b.id ? -1 : 1))
    .flatMap((branch) => {
      const { id, projectId, channel, engine, connectionLimit, copies, server } = branch;
      if (server === null) return [];
      const { role, database } = databaseNames(id);
      return [
        create(DatabaseEntrySchema, {
          ...{
            databaseId: id,
            epoch: BigInt(server.epoch),
            engine,
            role,
            database,
            projectId,
            channel,
            connectionLimit,
          },
          ...{ nodeId: server.at?.nodeId ?? "", address: server.at?.address ?? "" },
          state: stateOf(branch),
          copies: [...copies],
        }),
      ];
    });

function stateOf(branch: ReachableBranch): DatabaseEntry_State {
  if (!letsTenantIn(branch)) return DatabaseEntry_State.CLOSED;
  return branch.isHeld ? DatabaseEntry_State.HELD : DatabaseEntry_State.OPEN;
}
