import { createHash } from "node:crypto";
import type { Log } from "../../log.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Leadership, Op } from "../../stores/etcd/index.ts";
import type { Fleet } from "../cluster/fleet.ts";
import { keys, type RoutesMetaValue } from "../cluster/keys.ts";
import type { RouteEntry } from "../cluster/route-entry.ts";
import { mirrorInPostgres } from "../scheduler/mirror.ts";
import { holdsProjects, readHostFacts } from "./facts.ts";
import type { GateSecret } from "./gate.ts";
import { applyChange, isUnheard, lineOf, tableChange } from "./table.ts";

export interface PublisherDeps {
  db: Db;
  fleet: Fleet;
  leadership: Leadership;
  gateSecret: GateSecret;
  /** 1 unless given. */
  clusterEpoch?: number;
  log: Log;
}

/** Hosts per transaction, beside the meta key; etcd takes 120 operations. */
const batchSize = 100;
/** How long the first table waits for nodes to tell what they run; edges serve their last one until then. */
const firstTableMs = 60_000;
/** Generations of a later cluster epoch are above all of an earlier one: what an edge reports of that is never current. */
const generationsPerEpoch = 2 ** 30;

export const tableDigest = (entries: readonly RouteEntry[]): string =>
  createHash("sha256").update(entries.map(lineOf).join("\n")).digest("hex");

/**
 * One round: brings the published table to what the facts ask for. Each transaction is a whole
 * generation: entries and meta change together, guarded by the meta that was read. The very first table, also that
 * of a restored etcd, is a generation only as a whole: until then edges keep the one that they have.
 */
export async function publishOnce(deps: PublisherDeps): Promise<void> {
  const { db, fleet, leadership, gateSecret, clusterEpoch = 1, log } = deps;
  const { facts, unrecorded } = await readHostFacts(db, fleet, gateSecret);
  if (unrecorded.length > 0)
    await mirrorInPostgres(
      db,
      leadership.epoch,
      unrecorded.map((each) => ({ do: "mirror", ...each })),
    );
  let table = fleet.routeTable();
  let { modRevision: metaRevision, ...meta } = fleet.routesMeta();
  const isFirst = metaRevision === null;
  if (isFirst) {
    const isEarly = fleet.now().getTime() - fleet.lookingSince.getTime() < firstTableMs;
    if (isEarly && facts.some(isUnheard)) return;
    meta = { ...meta, generation: (clusterEpoch - 1) * generationsPerEpoch };
  }
  const change = tableChange(table, facts);
  const edits: ({ put: RouteEntry } | { remove: string })[] = [
    ...change.upserts.map((put) => ({ put })),
    ...change.removedHosts.map((remove) => ({ remove })),
  ];
  // A first table may lack nothing but to be told of, also an empty one: whoever takes something away waits for edges to have it.
  const isUntold = isFirst && edits.length === 0;
  const emptied = facts.length === 0 && (meta.emptied === true || (await holdsProjects(db)));
  for (let at = 0; at < edits.length || (isUntold && at === 0); at += batchSize) {
    const batch = edits.slice(at, at + batchSize);
    const next = applyChange(table, {
      upserts: batch.flatMap((edit) => ("put" in edit ? [edit.put] : [])),
      removedHosts: batch.flatMap((edit) => ("remove" in edit ? [edit.remove] : [])),
    });
    const nextMeta: RoutesMetaValue = {
      generation: meta.generation + 1,
      digest: tableDigest(next),
      count: next.length,
      ...(emptied && { emptied }),
    };
    const ops = batch.map(
      (edit): Op =>
        "put" in edit
          ? { put: { key: keys.route(edit.put.host), value: JSON.stringify(edit.put) } }
          : { delete: { key: keys.route(edit.remove) } },
    );
    const isWhole = !isFirst || at + batchSize >= edits.length;
    const { succeeded, revision } = await leadership.txn(
      isWhole ? [...ops, { put: { key: keys.routesMeta, value: JSON.stringify(nextMeta) } }] : ops,
      [
        metaRevision === null
          ? { key: keys.routesMeta, compare: "absent" }
          : { key: keys.routesMeta, compare: "modRevision", value: metaRevision },
      ],
    );
    // The view was behind: the next round starts from what is there.
    if (!succeeded) return;
    table = new Map(next.map((entry) => [entry.host, entry]));
    if (!isWhole) continue;
    log.info({ generation: nextMeta.generation, hosts: batch.length, count: nextMeta.count }, "routes published");
    meta = nextMeta;
    metaRevision = revision;
  }
}
