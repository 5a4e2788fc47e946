import { keys, type RunValue } from "@svc/control/fleet/cluster/keys";
import { runAfterFence } from "@svc/control/fleet/nodes/fence/steps";
import { kindOfRun } from "@svc/control/fleet/tasks/run-kinds/index";
import { type Work, wait } from "../../kernel/kernel.ts";
import type { Replica } from "../replica.ts";
import type { Leader } from "./fenced.ts";

/** Clears what nodes that are no longer ours have left in etcd: mirrors `control/src/fleet/nodes/fence/fence.ts`. */
export function* clearGone(replica: Replica): Work {
  const { views, client, world, process } = replica;
  const writer = { by: "worker", serverId: replica.id } as const;
  const gone = yield* replica.transact((tables) =>
    [...tables.nodes.values()].filter(({ lifecycle }) => lifecycle !== "active").map(({ id }) => id),
  );
  for (const id of gone) {
    for (const key of [keys.nodeSession(id), keys.edgeSession(id), keys.edgeApplied(id)]) {
      if (views.nodes.get(key) === undefined && views.edges.get(key) === undefined) continue;
      yield* wait(client.txn({ guards: [], ops: [{ delete: { key } }], writer }));
    }
    const { entries } = yield* client.range(keys.runs(id));
    for (const { key, value, modRevision } of entries) {
      const run = world.values.of<RunValue>(value);
      const next = runAfterFence(run, kindOfRun(run.kind), process.now());
      if (next === null) continue;
      const put = { put: { key, value: world.values.textOf(next) } };
      yield* wait(client.txn({ guards: [{ key, compare: "modRevision", value: modRevision }], ops: [put], writer }));
    }
  }
}

/**
 * Deletes session keys that nobody has given back: every later replica would count their lease anew. Mirrors
 * `control/src/fleet/cluster/stale-sessions.ts`.
 */
export function* clearStaleSessions({ replica, leadership }: Leader): Work {
  for (const { key, serverId, modRevision } of replica.fleet.staleSessions()) {
    yield* leadership.txn(
      [{ delete: { key } }],
      [
        { key, compare: "modRevision", value: modRevision },
        { key: keys.server(serverId), compare: "absent" },
      ],
    );
  }
}
