// @pure
import { type HostAddress, sameAddress } from "../hosts/address.ts";

export interface RenameHost extends HostAddress {
  host: string;
  /** The slug that it was made of. */
  slug: string;
  /** Where it sends visitors; null: it serves. */
  redirectTo: string | null;
  /** What the published table has for it, as text that is equal when two hosts serve the same; null: it has nothing. */
  published: string | null;
}

export interface RenameFacts {
  now: Date;
  /** The project is deleted, or about to be. */
  projectGone: boolean;
  slug: string;
  /** The slug that it is to get; null once it has it. */
  nextSlug: string | null;
  /** When that was asked for. */
  since: Date | null;
  /** Every host of the project. */
  hosts: readonly RenameHost[];
  /** Edges in rotation, and those that serve the hosts of the newer slug as the published table says. */
  edgesInRotation: number;
  edgesCurrent: number;
}

export type RenameStep =
  /** Channels that have no host of `slug` yet. */
  | { do: "claim"; slug: string; addresses: HostAddress[] }
  /** `slug` becomes the project's. */
  | { do: "flip"; slug: string; why: string }
  /** Old hosts, each with the host of `slug` that takes its place. */
  | { do: "redirect"; slug: string; hosts: { host: string; to: string }[] }
  /** `isLong`: it is not a matter of moments any more, so other work comes first. */
  | { do: "wait"; for: string; isLong: boolean }
  | { do: "end" };

/** For how long edges that do not answer hold up the new slug. The old hosts then go on serving for them. */
export const edgesWaitMs = 30_000;
/** Healthy edges follow within this. */
const edgesSoonMs = 5_000;

/**
 * The next thing to do for a rename. Hosts of both slugs serve until every edge has the new ones; the slug flips, and
 * the old hosts redirect. An edge that is away for long holds up only the last of these, because its visitors would be
 * sent to hosts that it does not know; with no edge at all, nothing takes effect.
 */
export function nextRenameStep(facts: RenameFacts): RenameStep {
  if (facts.projectGone) return { do: "end" };
  const { slug: present, nextSlug } = facts;
  const waitedMs = facts.since === null ? null : facts.now.getTime() - facts.since.getTime();
  // Nobody waits for redirects.
  const isLong = nextSlug === null || waitedMs === null || waitedMs >= edgesSoonMs;
  const slug = nextSlug ?? present;
  const serving = facts.hosts.filter(({ redirectTo }) => redirectTo === null);
  const own = serving.filter((host) => host.slug === slug);
  const others = serving.filter((host) => host.slug !== slug);
  if (nextSlug === null && others.length === 0) return { do: "end" };

  const missing = others.filter((other) => !own.some((host) => sameAddress(host, other)));
  if (missing.length > 0) {
    return { do: "claim", slug, addresses: missing.map(({ channel, prNumber }) => ({ channel, prNumber })) };
  }
  const pairs = others.flatMap((from) => {
    const to = own.find((host) => sameAddress(host, from));
    return to === undefined ? [] : [{ from, to }];
  });
  const isPublished =
    own.every(({ published }) => published !== null) &&
    pairs.every(({ from, to }) => from.published === null || from.published === to.published);
  if (!isPublished) return { do: "wait", for: "the new hosts to be published", isLong };

  const { edgesCurrent, edgesInRotation } = facts;
  if (edgesCurrent === edgesInRotation && edgesInRotation > 0) {
    return nextSlug === null
      ? { do: "redirect", slug, hosts: pairs.map(({ from, to }) => ({ host: from.host, to: to.host })) }
      : { do: "flip", slug, why: "every edge serves the new hosts" };
  }
  const isOverdue = waitedMs !== null && waitedMs >= edgesWaitMs;
  if (nextSlug !== null && isOverdue && edgesCurrent > 0) {
    const behind = edgesInRotation - edgesCurrent;
    return { do: "flip", slug, why: `${behind} of ${edgesInRotation} edges do not serve the new hosts yet` };
  }
  return { do: "wait", for: "the edges to serve the new hosts", isLong };
}
