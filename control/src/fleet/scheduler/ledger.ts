import type { Clock } from "@svc/runtime/clock";
import type { Log } from "../../log.ts";
import type { Etcd, Guard, Leadership, Op } from "../../stores/etcd/index.ts";
import { keyParts, keys, prefix } from "../cluster/keys.ts";
import { placedOf } from "./snapshot.ts";
import type { Placed } from "./steps.ts";

export interface Known {
  readonly placed: ReadonlyMap<string, Placed>;
  /** Tasks that are placed in words of another version of control, and are left alone. */
  readonly unreadable: ReadonlySet<string>;
}

/** What one write changes: a placement that is there from now on, or one that is not any more. */
export type Entry = { put: Placed } | { deleted: string };

/**
 * The placements as etcd has them, exactly: only the leader writes them, so after one full read it knows them from
 * its own writes. What is absent here was never placed.
 */
export interface Ledger {
  read(): Promise<Known>;
  /** Writes in one transaction; false when a guard did not hold. The `modRevision` of entries is set by it. */
  commit(change: { ops: readonly Op[]; guards: readonly Guard[]; entries: readonly Entry[] }): Promise<boolean>;
}

/** A ledger that went wrong by a foreign hand is right again after this long. */
const readAgainMs = 5 * 60_000;

export function createLedger({
  clock,
  etcd,
  leadership,
  log,
}: {
  clock: Clock;
  etcd: Pick<Etcd, "range">;
  leadership: Leadership;
  log: Log;
}): Ledger {
  let known: (Known & { placed: Map<string, Placed>; turn: bigint; readAtMs: number }) | null = null;

  /**
   * First ends the turn in which every earlier write was made: one whose outcome is not known, and that is still on its
   * way, then never arrives. So what is read afterwards stays as it is.
   */
  async function readAll(): Promise<NonNullable<typeof known>> {
    const { succeeded, revision } = await leadership.txn([endTurn(leadership)]);
    if (!succeeded) throw new Error("the turn could not be ended");
    const placed = new Map<string, Placed>();
    const unreadable = new Set<string>();
    const { entries } = await etcd.range(prefix.placements);
    for (const entry of entries) {
      try {
        const each = placedOf(entry);
        placed.set(each.placementId, each);
      } catch (err) {
        const [nodeId, taskId = ""] = keyParts(entry.key, prefix.placements);
        log.error({ err, nodeId, taskId }, "a placement in etcd cannot be read");
        unreadable.add(taskId);
      }
    }
    log.debug({ placements: placed.size }, "placements read in full");
    return { placed, unreadable, turn: revision, readAtMs: clock.bootMs() };
  }

  return {
    async read() {
      if (known !== null && clock.bootMs() - known.readAtMs >= readAgainMs) known = null;
      known ??= await readAll();
      return known;
    },
    async commit({ ops, guards, entries }) {
      if (known === null) throw new Error("what is placed is not known");
      const mine = known;
      // Until its outcome is known nothing is.
      known = null;
      const { succeeded, revision } = await leadership.txn(
        [...ops, endTurn(leadership)],
        [...guards, { key: keys.schedulerTurn, compare: "modRevision", value: mine.turn }],
      );
      if (!succeeded) return false;
      for (const entry of entries) {
        if ("put" in entry) mine.placed.set(entry.put.placementId, { ...entry.put, modRevision: revision });
        else mine.placed.delete(entry.deleted);
      }
      known = { ...mine, turn: revision };
      return true;
    },
  };
}

const endTurn = ({ epoch }: Leadership): Op => ({ put: { key: keys.schedulerTurn, value: String(epoch) } });
