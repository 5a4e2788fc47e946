import type { Rotation } from "./rotate.ts";
import type { KeyCount } from "./store.ts";

/** A control server that is running. */
export interface LiveServer {
  serverId: string;
  startedAt: string;
  /** Null: it does not tell. */
  masterKeyIds: readonly string[] | null;
}

/**
 * Why values must not be sealed with the first of `keyIds` yet, or null. A server that does not know that key could
 * not open them; one that seals with another would add values of the old key for ever.
 */
export function serversProblem(servers: readonly LiveServer[], [first]: readonly [string, ...string[]]): string | null {
  const behind = servers.filter(({ masterKeyIds }) => masterKeyIds?.[0] !== first);
  if (behind.length === 0) return null;
  const names = behind.map(({ serverId, startedAt }) => `${serverId} (started ${startedAt})`).join(", ");
  return `these control servers do not seal with key ${first}: ${names}. Restart each with the new key first and the older ones behind it, then run rotate-key again`;
}

/** Who seals what, for the operator, and whether every value is sealed with the first of `keyIds`. */
export function keyReport(
  counts: readonly KeyCount[],
  keyIds: readonly [string, ...string[]],
): { lines: string[]; done: boolean } {
  const [first, ...older] = keyIds;
  const others = [...new Set(counts.map(({ keyId }) => keyId))].filter((id) => !keyIds.includes(id)).sort();
  const totalOf = (id: string) => sum(counts.filter(({ keyId }) => keyId === id));
  const line = (id: string, is: string): string => {
    const where = counts.filter(({ keyId }) => keyId === id).map(({ place, count }) => `${place} ${count}`);
    return `key ${id || "(none)"} ${is}: ${totalOf(id)} ${totalOf(id) === 1 ? "value" : "values"}${where.length === 0 ? "" : ` (${where.join(", ")})`}`;
  };
  const left = sum(counts.filter(({ keyId }) => keyId !== first));
  return {
    done: left === 0,
    lines: [
      line(first, "seals"),
      ...older.map((id) => line(id, "opens")),
      ...others.map((id) => line(id, "is NOT CONFIGURED, so nothing opens these")),
      left > 0
        ? `${left} ${left === 1 ? "value is" : "values are"} not sealed with key ${first}: keep every other key.`
        : `Every value is sealed with key ${first}: ${older.length === 0 ? "there is no other key" : "the other keys may be removed"}.`,
    ],
  };
}

/** What a rotation did, for the operator. */
export function keyRotationReport({ resealed, overtaken, unreadable }: Rotation): string[] {
  return [
    `sealed ${resealed} ${resealed === 1 ? "value" : "values"} anew${overtaken === 0 ? "" : `; ${overtaken} changed meanwhile and kept what they have`}`,
    ...unreadable.map(
      ({ place, key }) => `cannot open ${place} of ${key}: damaged, misplaced, or its key is missing; left as it is`,
    ),
  ];
}

const sum = (counts: readonly KeyCount[]): number => counts.reduce((total, { count }) => total + count, 0);
