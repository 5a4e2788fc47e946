// @pure
import { clip, limits } from "@svc/proto";

type Labels = Readonly<Record<string, string>>;

/** The labels after a change, in which null takes one away, or what is wrong with it. */
export function changedLabels(
  before: Labels,
  change: Readonly<Record<string, string | null>>,
): { labels: Record<string, string> } | { problem: string } {
  const all: Record<string, string | null> = { ...before, ...change };
  const labels = Object.fromEntries(
    Object.entries(all).flatMap(([name, value]) => (value === null ? [] : [[name, value] as const])),
  );
  const count = Object.keys(labels).length;
  if (count <= limits.nodeLabelsMax) return { labels };
  const problem = `labels: The machine would have ${count}, and ${limits.nodeLabelsMax} is the most. Take some away with null.`;
  return { problem };
}

/** What differs, for people: `disk=fast, zone=b (was a), without room`. Null when nothing does. Of bounded length. */
export function labelChangeText(before: Labels, after: Labels): string | null {
  const parts = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort().flatMap((name) => {
    const [was, is] = [before[name], after[name]];
    if (was === is) return [];
    if (is === undefined) return [`without ${name}`];
    return [was === undefined ? `${name}=${is}` : `${name}=${is} (was ${was})`];
  });
  return parts.length === 0 ? null : clip(parts.join(", "), limits.nodeEventDetailBytesMax);
}
