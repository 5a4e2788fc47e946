/** The published table as etcd holds it: which hosts, and the revision that last wrote each. */
export interface PublishedTable {
  generation: number;
  hosts: ReadonlyMap<string, bigint>;
  /** It has no hosts, and somebody took the last away. */
  emptied: boolean;
}

/**
 * What one router has been sent within one session. Each message names the generation that it
 * applies to; the next is sent only after the router answered the last.
 */
export interface TableOutbox {
  sent: ReadonlyMap<string, bigint>;
  /** The generation that the router has or is about to have; null before the first table and after a resync. */
  generation: number | null;
  /** The generation whose answer is awaited. */
  waitsFor: number | null;
}

export const emptyTableOutbox: TableOutbox = { sent: new Map(), generation: null, waitsFor: null };

export interface TableMessage {
  kind: "complete" | "delta";
  /** 0 for a complete table. */
  appliesTo: number;
  generation: number;
  upsertHosts: string[];
  removedHosts: string[];
}

/** The next message and the outbox once it is sent; null while an answer is awaited or nothing changed. */
export function nextTable(
  outbox: TableOutbox,
  table: PublishedTable,
): { outbox: TableOutbox; message: TableMessage } | null {
  if (outbox.waitsFor !== null || outbox.generation === table.generation) return null;
  const complete = outbox.generation === null;
  const upsertHosts = [...table.hosts]
    .filter(([host, revision]) => complete || outbox.sent.get(host) !== revision)
    .map(([host]) => host)
    .sort();
  const removedHosts = complete ? [] : [...outbox.sent.keys()].filter((host) => !table.hosts.has(host)).sort();
  const { generation } = table;
  return {
    outbox: { sent: table.hosts, generation, waitsFor: generation },
    message: {
      kind: complete ? "complete" : "delta",
      appliesTo: outbox.generation ?? 0,
      generation,
      upsertHosts,
      removedHosts,
    },
  };
}

/**
 * The outbox after the router's answer. A refusal leaves the router on its older table, so the
 * next message must be a whole one; the caller decides when. An error beside the generation that was
 * sent is about single hosts: the router has the table, and sending it again would only hold up the others.
 */
export function tableAnswered(
  outbox: TableOutbox,
  { generation, refused, resync }: { generation: number; refused: boolean; resync: boolean },
): TableOutbox {
  if (resync || (refused && outbox.generation !== generation)) return emptyTableOutbox;
  return outbox.waitsFor === generation ? { ...outbox, waitsFor: null } : outbox;
}

/**
 * Whether the entries are the whole table of the newest generation. The publisher writes entries
 * in as many transactions as it needs and the meta key with the last of them, so entries that are
 * newer than the meta key, or another number of them than it says, are a table half written.
 */
export function isWhole(entries: ReadonlyMap<string, bigint>, meta: { modRevision: bigint; count: number }): boolean {
  if (entries.size !== meta.count) return false;
  for (const revision of entries.values()) if (revision > meta.modRevision) return false;
  return true;
}

/** More removals than this in one message are a decision that somebody must have made. */
const removalsOfNormalLife = 10;

/**
 * Whether control vouches for a table that shrinks by more than half. It does for whatever the
 * publisher made, except for one case: a table that has become empty all at once though nobody emptied it, which is
 * what a lost or restored database looks like. A router then keeps its last good one.
 */
export const vouchesForShrinking = (message: TableMessage, { hosts, emptied }: PublishedTable): boolean =>
  hosts.size > 0 || emptied || (message.kind === "delta" && message.removedHosts.length <= removalsOfNormalLife);
