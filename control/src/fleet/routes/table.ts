// @pure
import { canonicalJson } from "@svc/runtime/canonical-json";
import type { RouteEntry } from "../cluster/route-entry.ts";

/** A host with everything that decides what it serves. */
export interface HostFacts {
  host: string;
  projectId: string;
  channel: string;
  /** Another host, to which visitors are sent whatever the rest says; null: the host serves. */
  redirectTo: string | null;
  /** Revision of the project's site password; null: there is none. */
  gate: string | null;
  /** What browsers are told over TLS; null: nothing. */
  hsts: { maxAgeSeconds: number; includeSubdomains: boolean } | null;
  suspended: boolean;
  stopped: boolean;
  /** The deployment that the channel serves; null before the first. */
  active: ActiveDeployment | null;
}

/** `upstreams` are those that are up now, `entrances` those of them that are entrances. `isOver`: every container has ended for good. */
export interface ActiveImage {
  kind: "image";
  upstreams: readonly string[];
  entrances: readonly string[];
  isOver: boolean;
}

export type ActiveDeployment = { deploymentId: string } & (
  | { kind: "bundle"; repository: string; digest: string; sizeBytes: number; spa: boolean }
  | ActiveImage
);

/** A container of the deployment that a host serves. */
export interface Container {
  /** Null until it runs. */
  upstream: string | null;
  /** Edges dial it by TLS. */
  isEntrance: boolean;
  /** It runs and answers, by what its node said last. */
  serving: boolean;
  /** It will never run again, or its node is out of use. */
  isOver: boolean;
  /** Another one has taken its place. */
  retiring: boolean;
  /** Its node's lease is over, or its identity is used twice: what its node said last may be long past. */
  isStale: boolean;
}

/**
 * Whether Postgres has to be told where a container is before edges are told of it. After a restore etcd knows by
 * Postgres alone what runs where: what it does not know is placed anew, and the container that there was is stopped.
 */
export const isUnrecorded = (
  { serving }: Pick<Container, "serving">,
  placedOn: string,
  recordedOn: string | null,
): boolean => serving && placedOn !== recordedOn;

/**
 * Where visitors go. A container that is on its way out, or of which nothing was heard for long, gets them only when
 * there is no better one: control may be what is cut off, and not the container.
 */
export function upstreamsOf(containers: readonly Container[]): Pick<ActiveImage, "upstreams" | "entrances" | "isOver"> {
  const up = containers.filter(({ serving, isOver, upstream }) => serving && !isOver && upstream !== null);
  const [best] = [
    up.filter(({ retiring, isStale }) => !retiring && !isStale),
    up.filter(({ retiring }) => !retiring),
    up,
  ].filter((group) => group.length > 0);
  return {
    upstreams: (best ?? []).flatMap(({ upstream }) => upstream ?? []),
    entrances: (best ?? []).flatMap(({ upstream, isEntrance }) => (isEntrance ? (upstream ?? []) : [])),
    isOver: containers.every(({ isOver }) => isOver),
  };
}

/**
 * The entry of one host. `previous` is what the table has for it, or for another host of its deployment. While none of
 * a deployment's containers is up but one may come back (a crash, a node out of reach), its last upstreams stay: an edge
 * then retries them, and nothing flaps. Once all have ended for good they go, because their ports may soon be somebody
 * else's. What was resumed or started and does not answer yet is down, too: something is deployed, and will be there.
 */
export function routeOf(facts: HostFacts, previous: RouteEntry | undefined): RouteEntry {
  const { host, projectId, channel, active, redirectTo, gate, hsts } = facts;
  const site = {
    ...{ host, projectId, channel, ...(gate !== null && { gate }) },
    ...(hsts !== null && {
      hsts: { maxAgeSeconds: hsts.maxAgeSeconds, ...(hsts.includeSubdomains && { includeSubdomains: true }) },
    }),
  };
  if (redirectTo !== null) return { ...site, redirect: { host: redirectTo } };
  const base = { ...site, ...(active && { deploymentId: active.deploymentId }) };
  if (facts.suspended) return { ...base, page: { page: "PAGE_SUSPENDED" } };
  if (facts.stopped) return { ...base, page: { page: "PAGE_STOPPED" } };
  if (active === null) return { ...base, page: { page: "PAGE_EMPTY" } };
  if (active.kind === "bundle") {
    const { repository, digest, sizeBytes, spa } = active;
    return { ...base, static: { repository, digest, sizeBytes: String(sizeBytes), ...(spa && { spa }) } };
  }
  if (active.upstreams.length > 0) {
    const [upstreams, entrances] = [[...active.upstreams].sort(), [...active.entrances].sort()];
    return { ...base, proxy: { upstreams, ...(entrances.length > 0 && { entrances }) } };
  }
  const last = previous?.deploymentId === active.deploymentId ? previous.proxy : undefined;
  if (last && !active.isOver) return { ...base, proxy: last };
  return { ...base, page: { page: "PAGE_DOWN" } };
}

/**
 * Whether the host has containers of which nothing was heard that would let edges send visitors to them. Nothing at all
 * was heard right after etcd was restored, while they run all the same.
 */
export const isUnheard = ({ redirectTo, suspended, stopped, active }: HostFacts): boolean =>
  redirectTo === null &&
  !suspended &&
  !stopped &&
  active?.kind === "image" &&
  active.upstreams.length === 0 &&
  !active.isOver;

/** Hosts that the table has for these projects. */
export const hostsOf = (published: ReadonlyMap<string, RouteEntry>, projectIds: ReadonlySet<string>): string[] =>
  [...published.values()].flatMap(({ host, projectId }) => (projectIds.has(projectId) ? [host] : []));

/** What visitors of an entry's host get, as text that is equal when the hosts of two entries serve the same. */
export const targetOf = ({ deploymentId, proxy, static: bundle, page, redirect }: RouteEntry): string =>
  canonicalJson({ deploymentId, proxy, static: bundle, page, redirect });

export interface TableChange {
  upserts: RouteEntry[];
  removedHosts: string[];
}

/**
 * What changes from the published table to the one that the facts ask for; both empty when nothing does. `about` are the
 * hosts that go when there are no facts of them: all, unless given.
 */
export function tableChange(
  published: ReadonlyMap<string, RouteEntry>,
  facts: readonly HostFacts[],
  about: Iterable<string> = published.keys(),
): TableChange {
  const wanted = new Set(facts.map(({ host }) => host));
  const proxies = new Map(
    [...published.values()].flatMap((entry) => (entry.proxy ? [[entry.deploymentId, entry]] : [])),
  );
  const previous = ({ host, active }: HostFacts) => {
    const own = published.get(host);
    // A host that is new to its deployment serves what the others do, also while that is not up.
    return own?.proxy && own.deploymentId === active?.deploymentId ? own : proxies.get(active?.deploymentId);
  };
  const upserts = facts
    .map((each) => routeOf(each, previous(each)))
    .filter((entry) => {
      const present = published.get(entry.host);
      return present === undefined || canonicalJson(entry) !== lineOf(present);
    })
    .sort((a, b) => (a.host < b.host ? -1 : 1));
  const removedHosts = [...about].filter((host) => published.has(host) && !wanted.has(host)).sort();
  return { upserts, removedHosts };
}

/** The table after a change, in host order. */
export function applyChange(published: ReadonlyMap<string, RouteEntry>, change: TableChange): RouteEntry[] {
  const next = new Map(published);
  for (const host of change.removedHosts) next.delete(host);
  for (const entry of change.upserts) next.set(entry.host, entry);
  return [...next.values()].sort((a, b) => (a.host < b.host ? -1 : 1));
}

const lines = new WeakMap<RouteEntry, string>();

/** An entry as one line: equal entries give equal lines. Each is asked for again with every change of the table. */
export function lineOf(entry: RouteEntry): string {
  const line = lines.get(entry) ?? canonicalJson(entry);
  lines.set(entry, line);
  return line;
}
