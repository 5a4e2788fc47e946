import { createHash } from "node:crypto";
import type { Log } from "../../log.ts";
import type { Leadership, Op } from "../../stores/etcd/index.ts";
import type { Fleet } from "../cluster/fleet.ts";
import { keys, type RoutesMetaValue } from "../cluster/keys.ts";
import type { RouteEntry } from "../cluster/route-entry.ts";
import { both, clean, type Dirty, isClean } from "./dirty.ts";
import { readHostFacts } from "./facts.ts";
import type { GateSecret } from "./gate.ts";
import type { RouteRows, Scope } from "./rows.ts";
import { applyChange, hostsOf, isUnheard, lineOf, tableChange } from "./table.ts";

export interface PublisherDeps {
  rows: RouteRows;
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

/** What a leader publishes with. Its two rounds must not run at the same time. */
export interface Publisher {
  /** Tells what may have to be published; the caller wakes a round afterwards. */
  note(dirty: Dirty): void;
  /** Looks at every site: finds also what nobody told. */
  publishAll(): Promise<void>;
  /** Looks at the sites that were told of, and asks for a look at all when that is not enough. */
  publishNoted(): Promise<void>;
}

/** @param askForAll wakes the loop of `publishAll` */
export function createPublisher(deps: PublisherDeps, askForAll: () => void): Publisher {
  const { rows, fleet } = deps;
  /** Sites by name: whatever takes a look at everything is asked for at once, and holds these up no longer than it takes. */
  let noted = clean;
  /** Revision of the table that the last look at everything was about, or that was published since; null: unknown. */
  let known: bigint | null = null;

  function note(dirty: Dirty): void {
    const next = both(noted, dirty);
    if (dirty.everything || next.everything) askForAll();
    if (!dirty.everything) noted = next.everything ? clean : next;
  }

  /** The round about what was noted. When it fails, that is noted again. */
  async function settling(round: () => Promise<void>): Promise<void> {
    const taken = noted;
    noted = clean;
    try {
      await round();
    } catch (cause) {
      note(taken);
      throw cause;
    }
  }

  return {
    note,
    publishAll: () =>
      settling(async () => {
        known = null;
        const outcome = await publish(deps, null);
        if (outcome !== "needs all") known = outcome;
      }),
    async publishNoted() {
      const { modRevision } = fleet.routesMeta();
      // What was published last is not in the view yet: to find nothing to change there would mean nothing. It wakes this again.
      if (known !== null && (modRevision ?? 0n) < known) return;
      // Somebody else published, or nobody has looked at everything yet.
      if (known === null || modRevision !== known) return askForAll();
      if (isClean(noted)) return;
      const { projects, tasks } = noted;
      await settling(async () => {
        const ids = new Set([...projects, ...(await rows.projectsOf([...tasks]))]);
        if (ids.size === 0) return;
        const hosts = hostsOf(fleet.routeTable(), ids);
        const outcome = await publish(deps, { projectIds: [...ids], hosts });
        if (outcome === "needs all") askForAll();
        else known = outcome;
      });
    },
  };
}

/** One round that looks at every site. */
export const publishOnce = async (deps: PublisherDeps): Promise<void> => void (await publish(deps, null));

/**
 * One round: brings the published table, or the scope's part of it, to what the facts ask for. Each transaction is a whole
 * generation: entries and meta change together, guarded by the meta that was read. The very first table, also that
 * of a restored etcd, is a generation only as a whole: until then edges keep the one that they have.
 *
 * Returns the revision of the table that is as wanted; "needs all" when only a later look at everything can tell.
 */
async function publish(deps: PublisherDeps, scope: Scope | null): Promise<bigint | null | "needs all"> {
  const { rows, fleet, leadership, gateSecret, clusterEpoch = 1, log } = deps;
  const { facts, unrecorded } = await readHostFacts(rows, fleet, gateSecret, scope);
  if (unrecorded.length > 0) await rows.place(leadership.epoch, unrecorded);
  let table = fleet.routeTable();
  let { modRevision: metaRevision, ...meta } = fleet.routesMeta();
  const isFirst = metaRevision === null;
  if (isFirst) {
    const isEarly = fleet.now().getTime() - fleet.lookingSince.getTime() < firstTableMs;
    if (scope !== null || (isEarly && facts.some(isUnheard))) return "needs all";
    meta = { ...meta, generation: (clusterEpoch - 1) * generationsPerEpoch };
  }
  const change = tableChange(table, facts, scope?.hosts);
  const edits: ({ put: RouteEntry } | { remove: string })[] = [
    ...change.upserts.map((put) => ({ put })),
    ...change.removedHosts.map((remove) => ({ remove })),
  ];
  // A first table may lack nothing but to be told of, also an empty one: whoever takes something away waits for edges to have it.
  const isUntold = isFirst && edits.length === 0;
  // An empty table says why it is: that takes a look at everything.
  if (scope !== null && change.upserts.length === 0 && change.removedHosts.length === table.size) return "needs all";
  const emptied = scope === null && facts.length === 0 && (meta.emptied === true || (await rows.holdsProjects()));
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
    if (!succeeded) return "needs all";
    table = new Map(next.map((entry) => [entry.host, entry]));
    if (!isWhole) continue;
    log.info({ generation: nextMeta.generation, hosts: batch.length, count: nextMeta.count }, "routes published");
    meta = nextMeta;
    metaRevision = revision;
  }
  return metaRevision;
}
