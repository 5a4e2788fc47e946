import { linkKinds } from "../cluster/link-kinds.ts";
import type { StormRows } from "../cluster/storm/store.ts";
import type { Transact } from "./tables.ts";

/** What is asked to tell whether nodes were lost together, answered from memory. */
export const memoryStormRows = (transact: Transact): StormRows => ({
  nodes: () =>
    transact(({ tables }) =>
      [...tables.nodes.values()].flatMap(({ id, role, lifecycle, seenAt }) =>
        role === "node" && lifecycle === "active" && seenAt !== null ? [id] : [],
      ),
    ),
  lastLinks: (nodeIds) =>
    transact(({ tables, now }) =>
      nodeIds.flatMap((id) => {
        const line = tables.lastLine(id, linkKinds);
        const seenAt = tables.nodes.get(id)?.seenAt ?? null;
        if (line === null) return [];
        const { what: kind, at } = line;
        return [{ node_id: id, kind, ms_ago: now.getTime() - at.getTime(), is_last: seenAt !== null && at >= seenAt }];
      }),
    ),
});
