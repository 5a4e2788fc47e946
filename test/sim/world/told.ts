import { keys } from "@svc/control/fleet/cluster/keys";
import type { Dirty } from "@svc/control/fleet/routes/dirty";
import type { createPublisher, PublisherDeps } from "@svc/control/fleet/routes/publisher";
import type { Scope } from "@svc/control/fleet/routes/rows";
import type { Guard, Op, TxnResult } from "@svc/control/stores/etcd/txn";
import type { World } from "./world.ts";

/** How long word of a change may be on its way. */
const wordMs = 10_000;

/**
 * Holds what a publisher finds by what it is told to a look at everything: such a look has nothing to change but what somebody has
 * told of since the host was looked at last, alone or with all, and what time alone has changed. Otherwise the table would
 * be wrong until that look, and nobody would notice. Stands at the publisher's door: see `mutants/door.ts`.
 */
export const watchTold =
  (world: World) =>
  (create: typeof createPublisher): typeof createPublisher =>
  (deps, askForAll) => {
    const watch = watchRounds(world, deps);
    const publisher = create({ ...deps, ...watch.ports }, () => {
      watch.asked();
      askForAll();
    });
    return {
      note(dirty) {
        watch.note(dirty);
        publisher.note(dirty);
      },
      publishAll: () => watch.around(publisher.publishAll),
      publishNoted: () => watch.around(publisher.publishNoted),
    };
  };

/** One round of the publisher. */
interface Round {
  /** Projects that it looked at; null: all. It did not look unless it says so. */
  lookedAt: ReadonlySet<string> | null | undefined;
  /** What is published is as it should be, as far as the round looked. */
  isWhole: boolean;
  changed: string[];
}

function watchRounds(world: World, { fleet, leadership, rows }: Pick<PublisherDeps, "fleet" | "leadership" | "rows">) {
  const { kernel, checks } = world;
  const { tables } = world.postgres;
  /** Since the last look at it, or at all of them. */
  const told = { everything: true, projects: new Set<string>() };
  /** Hosts that changed although nobody had told of them, while word may be on its way. */
  const untold = new Map<string, string>();
  let round: Round = { lookedAt: undefined, isWhole: false, changed: [] };
  /** What links and the storm guard had to say around the last look at all; null: it was not whole. */
  let saidThen: string | null = null;

  const projectOf = (host: string): string => tables.sites.get(host)?.projectId ?? "";
  /** Silence lasts: that alone changes what becomes of visitors, and only time tells of it. */
  const said = (): string => {
    const links = [...tables.nodes.keys()].map((id) => `${fleet.nodeLink(id).link} ${fleet.nodeLostAt(id) === null}`);
    return [fleet.status()?.storm != null, ...links].join();
  };

  /** Who looks at an old table finds nothing to change, and looks again once there is a newer one. The very first is waited for. */
  const hasTable = (): boolean => {
    const { modRevision } = fleet.routesMeta();
    return modRevision !== null && modRevision === world.etcd.get(keys.routesMeta)?.modRevision;
  };

  /** Whatever was changed without a word has a moment left in which that may come. */
  function judge(hosts: readonly string[]): void {
    for (const host of hosts) {
      const projectId = projectOf(host);
      untold.set(projectId, host);
      kernel.at(wordMs, "told", () => {
        if (untold.get(projectId) === host)
          checks.fail(36, `a look at every site changes ${host}, and nobody told of that`);
      });
    }
  }

  return {
    ports: {
      rows: {
        ...rows,
        async hosts(scope: Scope | null) {
          round.lookedAt = scope && new Set(scope.projectIds);
          return rows.hosts(scope);
        },
      },
      leadership: {
        ...leadership,
        async txn(ops: readonly Op[], guards?: readonly Guard[]): Promise<TxnResult> {
          const result = await leadership.txn(ops, guards);
          if (!result.succeeded) round.isWhole = false;
          for (const op of ops) {
            const key = "put" in op ? op.put.key : "delete" in op ? op.delete.key : "";
            if (result.succeeded && key !== keys.routesMeta) round.changed.push(key.slice(keys.route("").length));
          }
          return result;
        },
      },
    },
    /** A round that asks for a look at all has not found what it was to find. */
    asked(): void {
      round.isWhole = false;
    },
    note({ everything, projects, tasks }: Dirty): void {
      const named = [...projects, ...[...tasks].map((id) => tables.tasks.get(id)?.projectId ?? "")];
      told.everything ||= everything;
      for (const id of named) told.projects.add(id);
      for (const id of everything ? untold.keys() : named) untold.delete(id);
    },
    async around(work: () => Promise<void>): Promise<void> {
      const own: Round = { lookedAt: undefined, isWhole: hasTable(), changed: [] };
      round = own;
      const before = { everything: told.everything, projects: new Set(told.projects) };
      Object.assign(told, { everything: false, projects: new Set() });
      const saidBefore = said();
      const hadSaid = saidThen;
      let isOver = false;
      try {
        await work();
        isOver = true;
      } finally {
        const { lookedAt } = own;
        const isSettled = isOver && own.isWhole && lookedAt !== undefined;
        // What was not looked at is still to be.
        told.everything ||= before.everything && !(isSettled && lookedAt === null);
        for (const id of before.projects)
          if (!isSettled || (lookedAt !== null && !lookedAt.has(id))) told.projects.add(id);
        const isAsBefore = said() === saidBefore;
        if (lookedAt === null) saidThen = isSettled && isAsBefore ? saidBefore : null;
        // A look at some hosts has brought them to what was said meanwhile, whatever is said by the next look at all.
        else if (!isAsBefore || saidBefore !== saidThen) saidThen = null;
      }
      if (own.lookedAt !== null || saidThen === null || hadSaid !== saidThen || before.everything) return;
      judge(own.changed.filter((host) => !before.projects.has(projectOf(host)) && !told.projects.has(projectOf(host))));
    },
  };
}
