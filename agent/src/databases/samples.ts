// @pure
import { create } from "@bufbuild/protobuf";
import type { DatabaseProxyState } from "@svc/proto/database-proxy";
import { type DatabaseSample, DatabaseSampleSchema } from "@svc/proto/node";

/** An instance that serves on this node. */
export interface Instance {
  databaseId: string;
  epoch: bigint;
  /** What its volume takes; null when that could not be measured. */
  volumeBytes: number | null;
}

/**
 * What control is told of databases: of each instance here, and of each database that logins of this node's containers failed
 * at, wherever that is.
 *
 * @param state null when the proxy does not tell
 */
export function databaseSamples(
  instances: readonly Instance[],
  state: DatabaseProxyState | null,
  at: string,
): DatabaseSample[] {
  const counted = new Map(state?.connections.map((each) => [nameOf(each), each]));
  const here = instances.map(({ databaseId, epoch, volumeBytes }) => {
    const count = counted.get(nameOf({ databaseId, epoch }));
    counted.delete(nameOf({ databaseId, epoch }));
    return create(DatabaseSampleSchema, {
      ...{ databaseId, epoch, at },
      ...(volumeBytes !== null && { volumeBytes: BigInt(volumeBytes) }),
      ...(count !== undefined && { connections: count.open, failedLogins: BigInt(count.failedLogins) }),
    });
  });
  const elsewhere = [...counted.values()]
    .filter(({ failedLogins }) => failedLogins > 0)
    .map(({ databaseId, epoch, failedLogins }) =>
      create(DatabaseSampleSchema, { databaseId, epoch: BigInt(epoch), at, failedLogins: BigInt(failedLogins) }),
    );
  return [...here, ...elsewhere];
}

const nameOf = ({ databaseId, epoch }: { databaseId: string; epoch: bigint | string }): string =>
  `${databaseId} ${epoch}`;
