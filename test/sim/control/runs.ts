import { isRunOver, keys, type RunValue } from "@svc/control/fleet/cluster/keys";
import { type Work, wait } from "../kernel/kernel.ts";
import type { Replica } from "./replica.ts";

/** Asks the node of an attempt to end it, or never to start it: mirrors `control/src/fleet/tasks/runs.ts`. */
export function* cancelRun(replica: Replica, nodeId: string, attemptId: string): Work {
  const { client, world, process } = replica;
  const key = keys.run(nodeId, attemptId);
  const entry = yield* client.get(key);
  if (entry === null) return;
  const run = world.values.of<RunValue>(entry.value);
  if (run.cancel || isRunOver(run.state)) return;
  const next: RunValue = { ...run, cancel: true, changedAt: process.now().toISOString() };
  yield* wait(
    client.txn({
      guards: [{ key, compare: "modRevision", value: entry.modRevision }],
      ops: [{ put: { key, value: world.values.textOf(next) } }],
      writer: { by: "worker", serverId: replica.id },
    }),
  );
}
