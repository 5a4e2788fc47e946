// @pure
import { uuid } from "../../stores/db/uuid.ts";
import { keyParts, prefix } from "../cluster/keys.ts";

/** What may be routed otherwise than the published table says, since it was looked at last. */
export interface Dirty {
  /** Nobody said what: only a look at every site finds it. */
  everything: boolean;
  projects: ReadonlySet<string>;
  /** Their projects are to be looked up. */
  tasks: ReadonlySet<string>;
}

export const clean: Dirty = { everything: false, projects: new Set(), tasks: new Set() };

/** When this many are named, one look at all costs no more than many at each. */
export const namedMax = 200;

export const both = (a: Dirty, b: Dirty): Dirty => {
  const projects = new Set([...a.projects, ...b.projects]);
  const tasks = new Set([...a.tasks, ...b.tasks]);
  const everything = a.everything || b.everything || projects.size + tasks.size > namedMax;
  return everything ? { ...clean, everything } : { everything, projects, tasks };
};

export const isClean = ({ everything, projects, tasks }: Dirty): boolean =>
  !everything && projects.size === 0 && tasks.size === 0;

/** What a notification of `routeTopic` makes dirty: it names a project, or nothing, as an older control and a new connection do. */
export const dirtyByNotice = (payload: string): Dirty =>
  uuid.test(payload) ? { ...clean, projects: new Set([payload]) } : { ...clean, everything: true };

/** What changed keys of placements and observations make dirty; without keys it may be any. */
export function dirtyByKeys(changes: readonly { key: string }[] | undefined): Dirty {
  if (changes === undefined) return { ...clean, everything: true };
  const tasks = changes.map(({ key }) => {
    const under = key.startsWith(prefix.placements) ? prefix.placements : prefix.observations;
    return keyParts(key, under)[1] ?? "";
  });
  return dirtyByTasks(tasks);
}

/** What changed keys of nodes make dirty: what is placed there. A replica of control that comes or goes may be about any node. */
export function dirtyByNodes(
  changes: readonly { key: string }[] | undefined,
  placedOn: (nodeId: string) => readonly string[],
): Dirty {
  if (changes === undefined || !changes.every(({ key }) => key.startsWith(prefix.nodes)))
    return { ...clean, everything: true };
  const nodes = new Set(changes.map(({ key }) => keyParts(key, prefix.nodes)[0] ?? ""));
  return dirtyByTasks([...nodes].flatMap((id) => placedOn(id)));
}

function dirtyByTasks(ids: readonly string[]): Dirty {
  // What is no task cannot be looked up.
  if (!ids.every((id) => uuid.test(id))) return { ...clean, everything: true };
  return both(clean, { ...clean, tasks: new Set(ids) });
}
