import type { ObservationValue } from "../cluster/keys.ts";
import { rulesOf } from "../tasks/kinds/index.ts";
import { failureKey, type Hints } from "./score.ts";
import type { Placed } from "./steps.ts";

const failuresMs = 5 * 60_000;
/** How long a node is taken to keep the image of a container that is gone. */
const imagesMs = 60 * 60_000;
/** Of each: what is oldest goes first. */
const entriesMax = 50_000;

const hasPulled: ReadonlySet<string> = new Set(["created", "starting", "running"]);

type Seen = Pick<ObservationValue, "observed" | "changedAt">;

/**
 * What the rounds of one leader saw of late: which nodes have which images, and where tasks fail again and again. A new
 * leader begins with what is there now.
 */
export interface Recent {
  /** Adds what a round sees; returns all that still counts. */
  note(placed: ReadonlyMap<string, Placed>, observed: ReadonlyMap<string, Seen>, now: Date): Hints;
}

export function createRecent(): Recent {
  const images = new Map<string, { specHash: string; nodeId: string; at: number }>();
  const failures = new Map<string, { key: string; at: number }>();
  return {
    note(placed, observed, now) {
      const time = now.getTime();
      for (const { placementId, nodeId, projectId, specHash, kind } of placed.values()) {
        const seen = observed.get(placementId);
        if (seen === undefined) continue;
        if (rulesOf(kind).hasImage && hasPulled.has(seen.observed)) {
          renew(images, `${specHash}/${nodeId}`, { specHash, nodeId, at: time });
        }
        if (seen.observed !== "failed" || failures.has(placementId)) continue;
        const at = Date.parse(seen.changedAt);
        if (at > time - failuresMs) renew(failures, placementId, { key: failureKey(nodeId, projectId), at });
      }
      forget(images, time - imagesMs);
      forget(failures, time - failuresMs);
      return { images: byHash(images), failures: counted(failures) };
    },
  };
}

/** Makes it the youngest. */
function renew<T>(entries: Map<string, T>, key: string, value: T): void {
  entries.delete(key);
  entries.set(key, value);
}

/** The oldest come first, but for failures that were told late; those go a little later. */
function forget(entries: Map<string, { at: number }>, before: number): void {
  for (const [key, { at }] of entries) {
    if (at >= before && entries.size <= entriesMax) return;
    entries.delete(key);
  }
}

function byHash(images: ReadonlyMap<string, { specHash: string; nodeId: string }>): Map<string, Set<string>> {
  const nodes = new Map<string, Set<string>>();
  for (const { specHash, nodeId } of images.values()) {
    const known = nodes.get(specHash);
    if (known === undefined) nodes.set(specHash, new Set([nodeId]));
    else known.add(nodeId);
  }
  return nodes;
}

function counted(failures: ReadonlyMap<string, { key: string }>): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { key } of failures.values()) counts.set(key, (counts.get(key) ?? 0) + 1);
  return counts;
}
