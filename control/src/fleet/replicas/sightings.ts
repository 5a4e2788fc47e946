import { hasEnded, type ObservationValue } from "../cluster/keys.ts";

/** Whether edges may have been told of a container, by what its node says of it. */
export const isPublishable = (said: ObservationValue | null): boolean =>
  said !== null && (said.upstream !== null || said.restartSeq > 0 || !beforeServing.has(said.observed));

const beforeServing: ReadonlySet<ObservationValue["observed"]> = new Set([
  "assigned",
  "accepted",
  "pulling",
  "created",
  "starting",
]);

/**
 * What one leader has seen of containers, and when: nobody writes it anywhere, so a new leader counts anew. Times are the
 * caller's, keys are task ids.
 */
export class Sightings {
  readonly endedAt = new Map<string, Date>();
  readonly unroutedAt = new Map<string, Date>();
  /** Edges may have been told of it at some time. */
  private readonly published = new Set<string>();
  /** Where it was last reached: one that is down for a moment comes back there, and its route waits for it. */
  private readonly upstreams = new Map<string, string>();

  /** What was seen of any other task is over. */
  keepOnly(present: ReadonlySet<string>): void {
    for (const seen of [this.endedAt, this.unroutedAt, this.published, this.upstreams])
      for (const id of seen.keys()) if (!present.has(id)) seen.delete(id);
  }

  see(id: string, said: ObservationValue | null, now: Date): void {
    since(this.endedAt, id, said !== null && hasEnded(said.observed), now);
    if (isPublishable(said)) this.published.add(id);
    if (said?.upstream != null) this.upstreams.set(id, said.upstream);
  }

  /** `isUnrouted`: it leaves, and no edge sends visitors to it. */
  seeRoute(id: string, isUnrouted: boolean, now: Date): void {
    since(this.unroutedAt, id, isUnrouted, now);
  }

  wasPublished(id: string): boolean {
    return this.published.has(id);
  }

  /**
   * Whether visitors whom edges send to `routed` may get to the container. Where nobody has seen it, whatever is sent
   * somewhere that is no other replica's may be sent to it.
   */
  isAmong(
    routed: ReadonlySet<string>,
    taskId: string,
    replicas: readonly { readonly id: string; readonly served: boolean }[],
  ): boolean {
    const own = this.upstreams.get(taskId);
    if (own !== undefined) return routed.has(own);
    if (this.endedAt.has(taskId) || replicas.find(({ id }) => id === taskId)?.served !== true) return false;
    const known = new Set(replicas.flatMap(({ id }) => this.upstreams.get(id) ?? []));
    return [...routed].some((each) => !known.has(each));
  }
}

function since(seen: Map<string, Date>, id: string, isSo: boolean, now: Date): void {
  if (!isSo) seen.delete(id);
  else if (!seen.has(id)) seen.set(id, now);
}
