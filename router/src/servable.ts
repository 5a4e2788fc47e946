import { create } from "@bufbuild/protobuf";
import { PageTarget_Page, PageTargetSchema, type Route, type StaticTarget } from "@svc/proto/edge";
import { targetName } from "./names.ts";

export type BundleState =
  | "present"
  /** Under way, and not for long yet. */
  | "coming"
  /** Not there. */
  | { problem: string };

/** How much of a table can be served now. */
export interface Servable {
  /** What to serve from now on; null is nothing. */
  routes: Map<string, Route | null>;
  /** Hosts that keep what they have, and why. */
  problems: Map<string, string>;
  /** Hosts that keep what they have until their bundle is there. */
  coming: string[];
  /** What the static routes among them need. */
  bundles: StaticTarget[];
}

/**
 * What can be served of `wanted` for those hosts that do not serve it yet. One host never waits for another.
 *
 * A host that keeps what it has takes over the password at once, or its end: to be late with files is no reason to be open.
 * What another project served there is not kept: its name may have been given to somebody else.
 *
 * @param served what is served now
 * @param bundleState whether the files of a static route are in place
 */
export function servable(
  wanted: ReadonlyMap<string, Route>,
  hosts: Iterable<string>,
  served: ReadonlyMap<string, Route>,
  bundleState: (target: StaticTarget) => BundleState,
): Servable {
  const result: Servable = { routes: new Map(), problems: new Map(), coming: [], bundles: [] };
  for (const host of hosts) {
    const route = wanted.get(host);
    if (route === undefined) {
      result.routes.set(host, null);
      continue;
    }
    const { target } = route;
    const before = served.get(host);
    const kept = before?.projectId === route.projectId ? before : undefined;
    if (before !== kept || route.gate !== (kept?.gate ?? ""))
      result.routes.set(host, { ...(kept ?? nothingYet(route)), gate: route.gate });
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

/** In the place of what cannot be served yet. */
const nothingYet = (route: Route): Route => ({
  ...route,
  target: { case: "page", value: create(PageTargetSchema, { page: PageTarget_Page.EMPTY }) },
});
