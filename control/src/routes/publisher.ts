import { createHash } from "node:crypto";
import type { Fleet } from "../cluster/fleet.ts";
import { keys, type RoutesMetaValue } from "../cluster/keys.ts";
import type { Db } from "../db/pool.ts";
import type { Leadership, Op } from "../etcd/index.ts";
import type { Log } from "../log.ts";
import { readHostFacts } from "./facts.ts";
import type { GateSecret } from "./gate.ts";
import { applyChange, canonical, type RouteEntry, tableChange } from "./table.ts";

export interface PublisherDeps {
  db: Db;
  fleet: Fleet;
  leadership: Leadership;
  gateSecret: GateSecret;
  log: Log;
}

/** Hosts per transaction, beside the meta key; etcd takes 120 operations. */
const batchSize = 100;

export const tableDigest = (entries: readonly RouteEntry[]): string =>
  createHash("sha256")
    .update(entries.map((entry) => canonical(entry)).join("\n"))
    .digest("hex");

/**
 * One round: brings the published table to what the facts ask for. Each transaction is a whole
 * generation: entries and meta change together, guarded by the meta that was read.
 */
export async function publishOnce({ db, fleet, leadership, gateSecret, log }: PublisherDeps): Promise<void> {
  const facts = await readHostFacts(db, fleet, gateSecret);
  let table = fleet.routeTable();
  let { modRevision: metaRevision, ...meta } = fleet.routesMeta();
  const change = tableChange(table, facts);
  const edits: ({ put: RouteEntry } | { remove: string })[] = [
    ...change.upserts.map((put) => ({ put })),
    ...change.removedHosts.map((remove) => ({ remove })),
  ];
  for (let at = 0; at < edits.length; at += batchSize) {
    const batch = edits.slice(at, at + batchSize);
    const next = applyChange(table, {
      upserts: batch.flatMap((edit) => ("put" in edit ? [edit.put] : [])),
      removedHosts: batch.flatMap((edit) => ("remove" in edit ? [edit.remove] : [])),
    });
    const nextMeta: RoutesMetaValue = {
      generation: meta.generation + 1,
      digest: tableDigest(next),
      count: next.length,
    };
    const ops = batch.map(
      (edit): Op =>
        "put" in edit
          ? { put: { key: keys.route(edit.put.host), value: JSON.stringify(edit.put) } }
          : { delete: { key: keys.route(edit.remove) } },
    );
    const { succeeded, revision } = await leadership.txn(
      [...ops, { put: { key: keys.routesMeta, value: JSON.stringify(nextMeta) } }],
      [
        metaRevision === null
          ? { key: keys.routesMeta, compare: "absent" }
          : { key: keys.routesMeta, compare: "modRevision", value: metaRevision },
      ],
    );
    // The view was behind: the next round starts from what is there.
    if (!succeeded) return;
    log.info({ generation: nextMeta.generation, hosts: batch.length, count: nextMeta.count }, "routes published");
    meta = nextMeta;
    metaRevision = revision;
    table = new Map(next.map((entry) => [entry.host, entry]));
  }
}
