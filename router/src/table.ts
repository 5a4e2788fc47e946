// @pure
import { toJson } from "@bufbuild/protobuf";
import { type Route, RouteSchema, type RouteTable, RouteTable_Kind } from "@svc/proto/edge";
import { canonicalJson } from "@svc/runtime/canonical-json";

/** A route table: what control published under one generation. */
export interface Table {
  /** Raised when control's own storage was restored; generations start anew under it. */
  clusterEpoch: bigint;
  /** 0 is the table of nothing, before the first. */
  generation: bigint;
  /** By host. */
  routes: ReadonlyMap<string, Route>;
}

export const emptyTable: Table = { clusterEpoch: 0n, generation: 0n, routes: new Map() };

/** Hosts that may disappear at once whatever the size of the table: a few deleted projects are no accident. */
const freeRemovals = 10;

export type Decision =
  /** `changed`: hosts whose route is another than before, those that are gone included. */
  | { accept: Table; changed: string[] }
  /** `resync`: only a complete table helps. */
  | { refuse: string; resync: boolean };

/**
 * What a message makes of the table that was accepted last. Refused are an older table, a change on top of
 * one that we do not have, and one that takes away more than half of the hosts without the bulk token.
 *
 * @param whole false: some routes of `known` may not be what control published under its generation, so
 * it is no base for changes
 */
export function decide(known: Table, whole: boolean, message: RouteTable): Decision {
  if (message.clusterEpoch < known.clusterEpoch)
    return { refuse: "the table is of an older cluster epoch", resync: false };
  const sameEpoch = message.clusterEpoch === known.clusterEpoch;
  if (sameEpoch && message.generation < known.generation) {
    return { refuse: `generation ${message.generation} is older than ${known.generation}`, resync: false };
  }
  if (message.kind === RouteTable_Kind.DELTA) {
    // Said twice: nothing to add.
    if (whole && sameEpoch && message.generation === known.generation) return { accept: known, changed: [] };
    if (!whole || !sameEpoch || message.appliesTo !== known.generation) {
      return { refuse: `a change on top of generation ${message.appliesTo}, which is not here`, resync: true };
    }
  } else if (message.kind !== RouteTable_Kind.COMPLETE) {
    return { refuse: "neither a complete table nor a change", resync: true };
  }
  const { routes, changed } = routesAfter(known.routes, message);
  const removed = changed.filter((host) => !routes.has(host)).length;
  if (message.bulkToken === "" && removed > Math.max(freeRemovals, known.routes.size / 2)) {
    return { refuse: `would remove ${removed} of ${known.routes.size} hosts`, resync: false };
  }
  return { accept: { clusterEpoch: message.clusterEpoch, generation: message.generation, routes }, changed };
}

/** Routes that did not change stay the same objects. */
function routesAfter(current: ReadonlyMap<string, Route>, message: RouteTable) {
  const complete = message.kind === RouteTable_Kind.COMPLETE;
  const routes = new Map(complete ? [] : current);
  for (const host of message.removedHosts) routes.delete(host);
  for (const route of message.upserts) {
    const before = current.get(route.host);
    routes.set(route.host, before !== undefined && routeLine(before) === routeLine(route) ? before : route);
  }
  const touched = complete
    ? new Set([...current.keys(), ...routes.keys()])
    : new Set([...message.removedHosts, ...message.upserts.map(({ host }) => host)]);
  return { routes, changed: [...touched].filter((host) => current.get(host) !== routes.get(host)) };
}

const lines = new WeakMap<Route, string>();

/** A route as one line of JSON with sorted keys: equal routes give equal lines. Control does the same. */
export function routeLine(route: Route): string {
  const kept = lines.get(route);
  if (kept !== undefined) return kept;
  const line = canonicalJson(toJson(RouteSchema, route));
  lines.set(route, line);
  return line;
}

/** Lines of all routes in host order. The digest of a table is the sha256 of this. */
export const tableText = (routes: ReadonlyMap<string, Route>): string =>
  [...routes.values()]
    .sort((a, b) => (a.host < b.host ? -1 : 1))
    .map(routeLine)
    .join("\n");
