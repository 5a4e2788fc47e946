import { sql } from "kysely";
import type { Db } from "../../../stores/db/pool.ts";
import { insertNodeEvents } from "../events/store.ts";
import { type NodeFacts, type NoticedChange, saveFacts } from "../store.ts";
import { isOwnAddress } from "./own-address.ts";

/** An agent that said hello, and where its call came from. */
export interface SaidHello {
  nodeId: string;
  facts: NodeFacts;
  peer: string;
  now: Date;
}

/**
 * Keeps what an agent told of its node, unless the address among it is not the node's own: then it is told why, and
 * whoever looks at the node is told the same.
 */
export const admitFacts = (
  db: Db,
  { nodeId, facts, peer, now }: SaidHello,
): Promise<{ refused: string } | { changed: NoticedChange | null }> =>
  db.transaction().execute(async (tx) => {
    const node = await tx
      .selectFrom("node")
      .select(["address", "addresses", "refusal"])
      .where("id", "=", nodeId)
      .forUpdate()
      .executeTakeFirst();
    if (node === undefined) return { changed: null };
    const bound = node.addresses ?? [node.address ?? peer];
    const refused = isOwnAddress(facts.address, peer, bound)
      ? await takenBy(tx, nodeId, node.address, facts.address)
      : "the address that it tells is neither the one that it joined from nor one that an operator named";
    if (refused !== null) {
      await noteRefusal(tx, { nodeId, before: node.refusal, refused, now });
      return { refused };
    }
    if (node.refusal !== null || node.addresses === null) {
      const set = { refusal: null, addresses: JSON.stringify(bound) };
      await tx.updateTable("node").set(set).where("id", "=", nodeId).execute();
    }
    return { changed: await saveFacts(tx, nodeId, facts, now) };
  });

/** In words, who has the address already; null: nobody else. What a node had, it keeps. */
async function takenBy(tx: Db, nodeId: string, present: string | null, address: string): Promise<string | null> {
  if (address === present) return null;
  // Of two that want it at once the second sees what the first got.
  await sql`select pg_advisory_xact_lock(hashtextextended(${`node address ${address}`}, 0))`.execute(tx);
  const holder = await tx
    .selectFrom("node")
    .select("name")
    .where("address", "=", address)
    .where("role", "=", "node")
    .where("lifecycle", "=", "active")
    .where("id", "!=", nodeId)
    .executeTakeFirst();
  return holder === undefined ? null : `${holder.name} has the address that it tells, until it is fenced or removed`;
}

interface Refusal {
  nodeId: string;
  before: string | null;
  refused: string;
  now: Date;
}

/** It tries again and again: only another reason is news. */
async function noteRefusal(tx: Db, { nodeId, before, refused, now }: Refusal): Promise<void> {
  if (before === refused) return;
  await tx.updateTable("node").set({ refusal: refused }).where("id", "=", nodeId).execute();
  await insertNodeEvents(tx, [{ nodeId, kind: "refused", detail: refused, at: now }]);
}
