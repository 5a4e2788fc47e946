import type { Route, StaticTarget } from "@svc/proto/edge";
import { targetName } from "./names.ts";
import { changedHosts } from "./table.ts";

export type BundleState =
  | "present"
  /** Under way, and not for long yet. */
  | "coming"
  /** Not there. */
  | { problem: string };

/** How much of a table can be served now. */
export interface Servable {
  /** What to serve: the table's route of a host, or the one it has, where the table's cannot be served. */
  routes: Map<string, Route>;
  /** Hosts that keep what they have, and why. */
  problems: Map<string, string>;
  /** Hosts that keep what they have until their bundle is there. */
  coming: string[];
  /** Targets of the table whose host does not serve them yet. */
  bundles: StaticTarget[];
}

/**
 * What to serve of `wanted` where `served` is in force. One host never waits for another.
 *
 * @param bundleState whether the files of a static route are in place
 */
export function servable(
  served: ReadonlyMap<string, Route>,
  wanted: ReadonlyMap<string, Route>,
  bundleState: (target: StaticTarget) => BundleState,
): Servable {
  const result: Servable = { routes: new Map(served), problems: new Map(), coming: [], bundles: [] };
  for (const host of changedHosts(served, wanted)) {
    const route = wanted.get(host);
    if (route === undefined) {
      result.routes.delete(host);
      continue;
    }
    const { target } = route;
    const named = targetName(route);
    if ("problem" in named) {
      result.problems.set(host, named.problem);
      continue;
    }
    if (target.case === "static") result.bundles.push(target.value);
    const state = target.case === "static" ? bundleState(target.value) : "present";
    if (state === "present") result.routes.set(host, route);
    else if (state === "coming") result.coming.push(host);
    else result.problems.set(host, state.problem);
  }
  return result;
}
