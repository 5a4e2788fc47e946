import { EtcdError, LeadershipLost, UnknownOutcome } from "@svc/control/stores/etcd/errors";
import { type Bell, createBell, type Work, wait } from "../../kernel/kernel.ts";
import { createQueue } from "../../kernel/queue.ts";
import type { Leadership } from "../../stores/etcd-lease.ts";
import { DatabaseError, releaseAttemptId } from "../../stores/postgres.ts";
import type { Replica } from "../replica.ts";
import { drainOnce } from "./drain.ts";
import { type Leader, LeaderOutdated, takeOver } from "./fenced.ts";
import { createKeeper } from "./keeper.ts";
import { noteLinks } from "./link-history.ts";
import { clearGone, clearStaleSessions } from "./lost-nodes.ts";
import { publishOnce } from "./publisher.ts";
import { createScheduler } from "./scheduler.ts";
import { createStormWatch } from "./storm-watch.ts";

const periodMs = 2_000;
const linkHistoryMs = 5_000;

/** What the next round may not meet any more. */
const isPassing = (error: unknown): boolean =>
  error instanceof EtcdError ||
  error instanceof UnknownOutcome ||
  error instanceof DatabaseError ||
  error instanceof LeaderOutdated ||
  error instanceof LeadershipLost;

/** The loops of which the cluster has one: mirrors `control/src/leader.ts`. Each has a file of its own here. */
export function lead(replica: Replica, leadership: Leadership): void {
  const { scope } = leadership;
  const { fleet, views, bells } = replica;
  replica.leads = true;
  scope.onEnd(() => {
    replica.leads = false;
  });
  const [replicas, drains, fences] = [createBell(), createBell(), createBell()];
  const ring = (...of: Bell[]) => {
    for (const bell of of) bell.ring();
  };
  const stops = [
    views.nodes.subscribe(() => ring(bells.tasks, bells.routes, replicas, fences)),
    views.servers.subscribe(() => ring(bells.tasks, bells.routes, replicas)),
    fleet.onChange("placements", () => ring(bells.tasks, bells.routes, replicas, drains)),
    fleet.onChange("routes", () => ring(bells.routes, replicas)),
    fleet.onChange("edges", () => ring(replicas)),
  ];
  scope.onEnd(() => {
    for (const stop of stops) stop[Symbol.dispose]();
  });
  const loop = (bell: Bell, round: () => Work, everyMs = periodMs) => {
    scope.spawn(
      (function* (): Work {
        for (;;) {
          try {
            yield* round();
            yield* wait(bell.wait(everyMs));
          } catch (error) {
            if (!isPassing(error)) throw error;
            yield* wait(createBell().wait(200));
          }
        }
      })(),
    );
  };
  const leader: Leader = { replica, leadership };
  const storms = createStormWatch(leader, fleet.now());
  // Between a look at the routes and the removal of a container that they do not name, none may be published that does.
  const takeTurns = createQueue(scope);
  const schedule = createScheduler(leader);
  const keepReplicas = createKeeper(leader, storms, takeTurns);
  scope.spawn(
    (function* (): Work {
      yield* takeOver(leader);
      if (!replica.world.cores.shell.leavesRunsAlone) scope.spawn(forceRuns(replica), () => {});
      loop(bells.tasks, schedule);
      loop(bells.routes, () => wait(takeTurns(() => publishOnce(leader))));
      loop(replicas, keepReplicas);
      loop(drains, () => drainOnce(replica));
      loop(fences, function* () {
        yield* clearGone(replica);
        yield* clearStaleSessions(leader);
      });
      loop(createBell(), () => noteLinks(replica), linkHistoryMs);
    })(),
  );
}

/** What a leader must not do: see the mutant that asks for it. */
function* forceRuns(replica: Replica): Work {
  yield* replica.transact((tables) => {
    const nodeIds = [...tables.nodes.values()].filter(({ role }) => role === "node").map(({ id }) => id);
    for (const row of tables.deployments.values()) {
      if (row.status !== "deploying" || row.releaseAttempt === 0 || row.releaseStatus === "succeeded") continue;
      const attempt = row.releaseAttempt;
      row.releaseAttempt = attempt + 1;
      row.releaseNodeId = nodeIds[attempt % nodeIds.length] ?? row.releaseNodeId;
      const [next, last] = [releaseAttemptId(row.id, attempt + 1), releaseAttemptId(row.id, attempt)];
      replica.world.checks.onAttempt(row.id, next, last);
    }
  });
}
