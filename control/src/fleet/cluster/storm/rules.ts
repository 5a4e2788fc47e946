// @pure
import type { NodeLink } from "../node-links.ts";
import { graceMs } from "../node-links.ts";

/** What decides whether the loss of nodes is theirs or ours. */
export interface StormFacts {
  now: Date;
  /** Since when this replica leads. */
  leadingSince: Date;
  nodes: readonly StormNode[];
}

/** An active node: since when nothing is heard of it, also while its lease still runs, or since when it is heard. */
export type StormNode = { id: string } & ({ lostAt: Date } | { heardSince: Date });

/** A node's link as far as this replica has seen, and when it was lost if it was before. */
export interface SeenNode {
  id: string;
  link: NodeLink;
  since: Date;
  /** Of one that was away when this replica began to watch: when a leader noted the loss; null: nobody has. */
  notedLostAt: Date | null;
}

export interface Storm {
  /** One sentence for an operator. */
  reason: string;
  since: Date;
}

/** The reason of the first half minute of every leader. */
export const newLeader = "a replica of control has just begun to lead";
const windowMs = 60_000;
/** Thousands of nodes need a minute or two to come back to a replica of control that has just started. */
const returnsMs = 15_000;
const leastLost = 3;
const lostShare = 1 / 3;

/**
 * What was away before this replica looked was lost when a leader noted it, and not all at that moment. Of what nobody
 * noted it is only known that it went while nobody looked, and so perhaps together: that each of them came at another
 * time says nothing about when they went.
 */
export function stormNode({ id, link, since, notedLostAt }: SeenNode): StormNode {
  if (link === "connected" || link === "reconciling") return { id, heardSince: since };
  return { id, lostAt: notedLostAt !== null && notedLostAt < since ? notedLostAt : since };
}

/**
 * Why no replica may be replaced on account of a lost node at the moment; null: it may. Many nodes that go within one
 * minute say more about the network, or about control, than about the nodes, and moving everything would be worse than
 * waiting. That holds until enough of them are back, or an operator fences them; and as long as some come back one after
 * the other, since those that are still away may be the next. Silence counts before the lease is over: leases end seconds
 * apart, and the first to end would move otherwise. Who was lost before the minute is no part of the fleet that it is
 * measured by.
 */
export function stormOf({ now, leadingSince, nodes }: StormFacts): Storm | null {
  const settledAt = leadingSince.getTime() + graceMs;
  if (now.getTime() < settledAt) return { reason: newLeader, since: leadingSince };
  const lost = nodes.flatMap((node) => ("lostAt" in node ? [node.lostAt.getTime()] : [])).sort((a, b) => a - b);
  for (const [before, first] of lost.entries()) {
    const together = lost.slice(before).filter((at) => at - first <= windowMs).length;
    const there = nodes.length - before;
    if (together >= leastLost && together >= there * lostShare) {
      return { reason: `${together} of ${there} nodes were lost within a minute`, since: new Date(first) };
    }
  }
  const back = nodes.filter((node) => "heardSince" in node && now.getTime() - node.heardSince.getTime() < returnsMs);
  const [first] = lost;
  return first !== undefined && lost.length >= leastLost && back.length >= leastLost
    ? { reason: "nodes that were lost are coming back", since: new Date(first) }
    : null;
}
