// @pure
import type { DatabaseProxyState } from "@svc/proto/database-proxy";
import type { Counts } from "../sessions/counts.ts";
import { isHere } from "./admission.ts";
import type { TableIndex } from "./lookup.ts";

/** What this process says of itself: each database whose server is here, and those whose logins failed through it. */
export const stateOf = (pid: number, index: TableIndex, counts: Counts): DatabaseProxyState => ({
  generation: index.generation.toString(),
  pid,
  connections: [...index.byId.values()]
    .map((entry) => ({
      entry,
      open: counts.open(entry.databaseId),
      failedLogins: counts.failedLogins(entry.databaseId),
    }))
    .filter(({ entry, open, failedLogins }) => isHere(entry) || open > 0 || failedLogins > 0)
    .map(({ entry: { databaseId, epoch }, open, failedLogins }) => ({ databaseId, epoch, open, failedLogins })),
});
