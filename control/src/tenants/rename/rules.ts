// @pure
import { limits } from "@svc/proto";

export interface HeldHost {
  /** The slug that it was made of. */
  slug: string;
  /** When it is given up; null: not while it serves. */
  redirectUntil: Date | null;
}

/**
 * Why a project, which has the slug `present` and `hosts`, may not get `slug` as well; null when it may. The names that
 * it had are kept from everybody for a day each, so there is a bound to them; one of them may always be taken again.
 * The promised day is kept rather than the oldest name released early: visitors still come by it, and they must not
 * meet a stranger there.
 */
export function formerSlugsProblem(
  hosts: readonly HeldHost[],
  { present, slug, now }: { present: string; slug: string; now: Date },
): string | null {
  /** The last moment of each that any of its hosts is held. */
  const former = new Map<string, number>();
  for (const host of hosts) {
    const until = host.redirectUntil?.getTime() ?? Number.POSITIVE_INFINITY;
    if (host.slug !== present && until > now.getTime())
      former.set(host.slug, Math.max(until, former.get(host.slug) ?? 0));
  }
  if (slug === present || former.has(slug) || former.size < limits.formerSlugsPerProject) return null;
  const first = Math.min(...former.values());
  const when = Number.isFinite(first) ? `at ${new Date(first).toISOString()}` : "a day after all edges have followed";
  return (
    `The project's last ${former.size} slugs still lead to it, each for a day. ` +
    `The first of them is released ${when}; rename it then, or back to one of these: ${[...former.keys()].join(", ")}.`
  );
}
