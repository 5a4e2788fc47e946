import { keys } from "@svc/control/fleet/cluster/keys";
import type { Dirty } from "@svc/control/fleet/routes/dirty";
import type { createPublisher, PublisherDeps } from "@svc/control/fleet/routes/publisher";
import type { Guard, Op, TxnResult } from "@svc/control/stores/etcd/txn";
import type { World } from "./world.ts";

/** How long word of a change may be on its way. */
const wordMs = 10_000;

/** What a publisher was told of since some moment. */
interface Told {
  everything: boolean;
  projects: Set<string>;
}

/**
 * Looks at what a publisher does not find by what it is told: a look at every site has nothing to change but what somebody
 * told of, or what time alone has changed. Otherwise the table would be wrong until that look, and nobody would notice. Stands at
 * the door of the publisher: see `mutants/door.ts`.
 */
export const watchTold =
  (world: World) =>
  (create: typeof createPublisher): typeof createPublisher =>
  (deps, askForAll) => {
    const watch = createWatch(world, deps);
    const publisher = create({ ...deps, leadership: watch.leadership }, askForAll);
    return {
      note(dirty) {
        watch.note(dirty);
        publisher.note(dirty);
      },
      publishAll: () => watch.lookAtAll(publisher.publishAll),
      publishNoted: publisher.publishNoted,
    };
  };

function createWatch(world: World, { fleet, leadership }: Pick<PublisherDeps, "fleet" | "leadership">) {
  const { kernel, checks } = world;
  const { tables } = world.postgres;
  const nothing = (): Told => ({ everything: false, projects: new Set() });
  let told = nothing();
  /** Of the look under way. */
  let changed: string[] = [];
  let isWhole = false;
  /** What links and the storm guard had to say before and after the last look that was whole; null: there was none. */
  let saidThen: string | null = null;

  const projectOf = (host: string): string => tables.sites.get(host)?.projectId ?? "";
  /** Silence lasts: that alone changes what becomes of visitors, and only time tells of it. */
  const said = (): string => {
    const links = [...tables.nodes.keys()].map((id) => `${fleet.nodeLink(id).link} ${fleet.nodeLostAt(id) === null}`);
    return [fleet.status()?.storm != null, ...links].join();
  };

  return {
    leadership: {
      ...leadership,
      async txn(ops: readonly Op[], guards?: readonly Guard[]): Promise<TxnResult> {
        const result = await leadership.txn(ops, guards);
        if (!result.succeeded) isWhole = false;
        for (const op of ops) {
          const key = "put" in op ? op.put.key : "delete" in op ? op.delete.key : "";
          if (result.succeeded && key !== keys.routesMeta) changed.push(key.slice(keys.route("").length));
        }
        return result;
      },
    },
    note({ everything, projects, tasks }: Dirty): void {
      told.everything ||= everything;
      for (const id of projects) told.projects.add(id);
      for (const id of tasks) told.projects.add(tables.tasks.get(id)?.projectId ?? "");
    },
    async lookAtAll(look: () => Promise<void>): Promise<void> {
      const before = told;
      told = nothing();
      changed = [];
      const saidBefore = said();
      const wasWhole = saidThen === saidBefore;
      saidThen = null;
      // The very first table is one that waits until nodes have told what they run.
      isWhole = fleet.routesMeta().modRevision !== null;
      try {
        await look();
      } catch (error) {
        isWhole = false;
        throw error;
      } finally {
        if (!isWhole) {
          told.everything ||= before.everything;
          for (const id of before.projects) told.projects.add(id);
        }
      }
      if (!isWhole || said() !== saidBefore) return;
      saidThen = saidBefore;
      if (!wasWhole || before.everything) return;
      const untold = changed.filter((host) => !before.projects.has(projectOf(host)));
      if (untold.length === 0) return;
      const since = told;
      kernel.at(wordMs, "told", () => {
        for (const host of untold)
          if (!since.everything && !since.projects.has(projectOf(host)))
            checks.fail(36, `a look at every site changes ${host}, and nobody told of that`);
      });
    },
  };
}
