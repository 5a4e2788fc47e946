import type { NodeAxes } from "@svc/proto";
import type { Fleet } from "../../cluster/fleet.ts";
import { linkKinds } from "../../cluster/link-kinds.ts";
import type { LinkRows } from "./link-rows.ts";
import type { NewNodeEvent } from "./store.ts";

export type LinkKind = (typeof linkKinds)[number];

/** The line that a machine's link asks for after the last one that it had; null when there is nothing new. */
export function linkEvent(last: LinkKind | null, link: NodeAxes["link"]): LinkKind | null {
  const kind = linkKinds.find((each) => each === link) ?? null;
  // Somebody who joined and never came has no history of being lost.
  if (kind === last || (last === null && kind !== "connected")) return null;
  return kind;
}

const idsPerQuery = 1_000;

/**
 * Keeps the history of links: each call compares every machine's link with its last line, and adds what is new. What was
 * written last is remembered between the calls, so that a calm fleet costs one short query.
 */
export function createLinkHistory({
  rows,
  fleet,
}: {
  rows: LinkRows;
  fleet: Pick<Fleet, "nodeLink">;
}): () => Promise<void> {
  const lastOf = new Map<string, LinkKind | null>();
  return async () => {
    const machines = await rows.machines();
    const present = new Set(machines.map(({ id }) => id));
    for (const id of lastOf.keys()) if (!present.has(id)) lastOf.delete(id);
    const joined = await learn(
      rows,
      lastOf,
      machines.filter(({ id }) => !lastOf.has(id)),
    );
    const events: NewNodeEvent[] = [...joined];
    const next = new Map<string, LinkKind>();
    for (const { id, quarantined_at } of machines) {
      if (quarantined_at !== null) continue;
      const { link, since } = fleet.nodeLink(id);
      const kind = linkEvent(lastOf.get(id) ?? null, link);
      if (kind === null) continue;
      next.set(id, kind);
      events.push({ nodeId: id, kind, at: since });
    }
    if (events.length > 0) await rows.add(events);
    for (const [id, kind] of next) lastOf.set(id, kind);
  };
}

/** Reads how the machines were last seen into `lastOf`. Returns the first lines of those that have no history yet. */
async function learn(
  rows: LinkRows,
  lastOf: Map<string, LinkKind | null>,
  unknown: readonly { id: string; created_at: Date }[],
): Promise<NewNodeEvent[]> {
  const first: NewNodeEvent[] = [];
  for (let at = 0; at < unknown.length; at += idsPerQuery) {
    const batch = unknown.slice(at, at + idsPerQuery);
    const ids = batch.map(({ id }) => id);
    const [links, known] = await Promise.all([rows.lastLinks(ids), rows.withHistory(ids)]);
    const withHistory = new Set(known);
    for (const { id, created_at } of batch) {
      lastOf.set(id, null);
      if (!withHistory.has(id)) first.push({ nodeId: id, kind: "joined", at: created_at });
    }
    for (const { node_id, kind } of links) lastOf.set(node_id, linkKinds.find((each) => each === kind) ?? null);
  }
  return first;
}
