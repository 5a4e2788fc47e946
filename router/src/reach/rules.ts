// @pure
import { create } from "@bufbuild/protobuf";
import { ProxyTargetSchema, type Route } from "@svc/proto/edge";

/** The machine of an upstream `host:port`. */
export const machineOf = (upstream: string): string => upstream.slice(0, upstream.lastIndexOf(":"));

const askedPerMachine = 3;

/**
 * A few upstreams of each machine to which there is an alternative, of different projects, and of others in each round:
 * apps that take no connections say nothing of the machine.
 */
export function machinesToAsk(routes: Iterable<Route>, round: number): Map<string, string[]> {
  const machines = new Map<string, Map<string, string>>();
  for (const { target, projectId } of routes) {
    if (target.case !== "proxy" || target.value.upstreams.length < 2) continue;
    for (const upstream of target.value.upstreams) {
      const byProject = machines.get(machineOf(upstream)) ?? new Map<string, string>();
      machines.set(machineOf(upstream), byProject.set(projectId, upstream));
    }
  }
  return new Map(
    [...machines].map(([machine, byProject]) => {
      const all = [...byProject.values()];
      const from = (round * askedPerMachine) % all.length;
      return [machine, [...all.slice(from), ...all.slice(0, from)].slice(0, askedPerMachine)];
    }),
  );
}

/** So many questions in a row without any answer, and a machine counts as silent. */
const silentAfter = 3;

/** How many questions in a row each machine has left without an answer, after one more round of them. */
export const nextSilence = (
  before: ReadonlyMap<string, number>,
  answered: ReadonlyMap<string, boolean>,
): Map<string, number> =>
  new Map([...answered].map(([machine, isThere]) => [machine, isThere ? 0 : (before.get(machine) ?? 0) + 1]));

/**
 * Machines that do not answer. When none does, it is more likely this one that is cut off: then they all count as
 * there, and visitors are sent on as before.
 */
export function silentMachines(silence: ReadonlyMap<string, number>): Set<string> {
  const silent = [...silence].filter(([, count]) => count >= silentAfter).map(([machine]) => machine);
  return new Set(silent.length < silence.size ? silent : []);
}

/** The route without upstreams on silent machines, unless that leaves none. */
export function withoutSilent(route: Route, silent: ReadonlySet<string>): Route {
  const { target } = route;
  if (silent.size === 0 || target.case !== "proxy") return route;
  const upstreams = target.value.upstreams.filter((upstream) => !silent.has(machineOf(upstream)));
  if (upstreams.length === 0 || upstreams.length === target.value.upstreams.length) return route;
  return { ...route, target: { case: "proxy", value: create(ProxyTargetSchema, { ...target.value, upstreams }) } };
}
