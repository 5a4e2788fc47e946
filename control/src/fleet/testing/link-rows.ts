import { linkKinds } from "../cluster/link-kinds.ts";
import type { LinkRows } from "../nodes/events/link-rows.ts";
import type { Transact } from "./tables.ts";

/** What is asked to keep the history of links, answered from memory. */
export const memoryLinkRows = (transact: Transact): LinkRows => ({
  machines: () =>
    transact(({ tables }) =>
      [...tables.nodes.values()]
        .filter(({ lifecycle }) => lifecycle === "active")
        .map(({ id, createdAt, quarantinedAt }) => ({ id, created_at: createdAt, quarantined_at: quarantinedAt })),
    ),
  lastLinks: (nodeIds) =>
    transact(({ tables }) =>
      nodeIds.flatMap((id) => {
        const line = tables.lastLine(id, linkKinds);
        return line === null ? [] : [{ node_id: id, kind: line.what }];
      }),
    ),
  withHistory: (nodeIds) => transact(({ tables }) => nodeIds.filter((id) => tables.lines.some(({ of }) => of === id))),
  add: (events) =>
    transact(({ tables, now }) => {
      for (const { nodeId: of, kind: what, at = now } of events) tables.lines.push({ of, what, at });
    }),
});
