import { clip, limits } from "@svc/proto";
import type { Node } from "../../stores/db/tables.ts";
import { labelChangeText } from "./labels/rules.ts";

/** What a machine said of itself of which a change is worth a line in its history. */
export type TracedFacts = Pick<Node, "address" | "labels" | "capacity">;

const amounts = [
  ["memoryMb", "memory", " MiB"],
  ["cpuMillicores", "processors", " millicores"],
  ["pids", "process ids", ""],
  ["diskMb", "disk", " MiB"],
] as const;

/**
 * What a machine says of itself otherwise than before, for people; null when it says the same, and at its first hello.
 * Where it is reached is left out, as in everything that is shown of it. Of bounded length.
 */
export function factChange(before: TracedFacts, after: TracedFacts): string | null {
  if (before.address === null) return null;
  const labels = labelChangeText(before.labels, after.labels);
  const parts = [
    ...(before.address === after.address ? [] : ["another address"]),
    ...capacityParts(before.capacity, after.capacity),
    ...(labels === null ? [] : [`labels: ${labels}`]),
  ];
  return parts.length === 0 ? null : clip(`says of itself: ${parts.join("; ")}`, limits.nodeEventDetailBytesMax);
}

const capacityParts = (before: Node["capacity"], after: Node["capacity"]): string[] =>
  amounts.flatMap(([key, name, unit]) => {
    const [was, is] = [before?.[key] ?? 0, after?.[key] ?? 0];
    return was === is ? [] : [`${name} ${is}${unit} (was ${was})`];
  });
