// @pure
import type { SchedulableNode } from "./node-room.ts";

/** Operators keep databases to the nodes that have this label; none has it: any node takes them. */
const label = { database: "yes" } as const;
/** Beside what the owner may store: logs of writes, and what a server keeps while it rewrites a table. */
const diskFactor = 2;

/** What a database that is new asks of its node besides what every task does. One that has data stays where that is. */
export function databaseNeeds(
  {
    sizeMb,
    pinnedTo,
    nodeSelector,
  }: { sizeMb: number; pinnedTo: string | null; nodeSelector: Readonly<Record<string, string>> },
  nodes: readonly Pick<SchedulableNode, "labels">[],
): { nodeSelector: Readonly<Record<string, string>>; diskMb: number } {
  if (pinnedTo !== null) return { nodeSelector, diskMb: 0 };
  const isKept = nodes.some(({ labels }) => labels["database"] === label.database);
  return { nodeSelector: isKept ? { ...nodeSelector, ...label } : nodeSelector, diskMb: sizeMb * diskFactor };
}
