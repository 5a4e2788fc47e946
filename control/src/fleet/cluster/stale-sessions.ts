import type { Log } from "../../log.ts";
import type { Leadership } from "../../stores/etcd/index.ts";
import type { Fleet } from "./fleet.ts";
import { keys } from "./keys.ts";

interface ClearDeps {
  fleet: Pick<Fleet, "staleSessions">;
  leadership: Pick<Leadership, "txn">;
  log: Log;
}

/**
 * Deletes session keys that nobody has given back: their replica of control is gone, and for a whole lease no machine has
 * taken them over. Otherwise every later replica would count that lease anew. Guarded by both facts.
 */
export async function clearStaleSessions({ fleet, leadership, log }: ClearDeps): Promise<void> {
  for (const { key, serverId, modRevision } of fleet.staleSessions()) {
    const { succeeded } = await leadership.txn(
      [{ delete: { key } }],
      [
        { key, compare: "modRevision", value: modRevision },
        { key: keys.server(serverId), compare: "absent" },
      ],
    );
    if (succeeded) log.info({ key }, "a session that was left behind is cleared");
  }
}
