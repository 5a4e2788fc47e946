import { clearStaleSessions } from "@svc/control/fleet/cluster/stale-sessions";
import { nodeTopic, routeTopic, taskTopic } from "@svc/control/fleet/cluster/topics";
import { drainOnce } from "@svc/control/fleet/nodes/drain/drain";
import { clearGone } from "@svc/control/fleet/nodes/fence/fence";
import { noteFenceRequired } from "@svc/control/fleet/nodes/fence/required";
import { clean, type Dirty, dirtyByKeys, dirtyByNotice } from "@svc/control/fleet/routes/dirty";
import { createPublisher } from "@svc/control/fleet/routes/publisher";
import { createScheduler } from "@svc/control/fleet/scheduler/scheduler";
import { wakesScheduler } from "@svc/control/fleet/scheduler/wakes";
import { memoryDrainRows } from "@svc/control/fleet/testing/drain-rows";
import { memoryLostRows } from "@svc/control/fleet/testing/lost-rows";
import { memoryRouteRows } from "@svc/control/fleet/testing/route-rows";
import { memorySchedulerRows } from "@svc/control/fleet/testing/scheduler-rows";
import { EtcdError, LeadershipLost, UnknownOutcome } from "@svc/control/stores/etcd/errors";
import { runLoop } from "@svc/runtime/loop";
import { createWake, type Wake } from "@svc/runtime/wake";
import { type Bell, createBell, type Work, wait, waitFor } from "../../kernel/kernel.ts";
import { enter, promiseOf } from "../../kernel/ports.ts";
import { createQueue } from "../../kernel/queue.ts";
import type { Leadership } from "../../stores/etcd-lease.ts";
import { DatabaseError } from "../../stores/postgres.ts";
import type { Replica } from "../replica.ts";
import { type Leader, LeaderOutdated, takeOver } from "./fenced.ts";
import { createKeeper } from "./keeper.ts";
import { noteLinks } from "./link-history.ts";
import { leaderPorts } from "./ports.ts";
import { createStormWatch } from "./storm-watch.ts";
import { watchTold } from "./told.ts";

const periodMs = 2_000;
const linkHistoryMs = 5_000;
const windowMs = 20;
const drainsRestMs = 100;
const routesRestMs = 20;
/** Sites have no password here. */
const gateSecret = Buffer.alloc(32);

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
  const { fleet, process } = replica;
  replica.leads = true;
  scope.onEnd(() => {
    replica.leads = false;
  });
  const replicas = createBell();
  const leader: Leader = { replica, leadership };
  const storms = createStormWatch(leader, fleet.now());
  // Between a look at the routes and the removal of a container that they do not name, none may be published that does.
  const takeTurns = createQueue(scope);
  const ports = leaderPorts(replica, leadership);
  const { clock, transact, onError } = ports;
  const { signal } = ports.leadership;
  const aWake = () => createWake(clock);
  const [tasks, drains, fences, routes, allRoutes] = [aWake(), aWake(), aWake(), aWake(), aWake()];
  const told = watchTold(replica.world, fleet, ports.leadership);
  const publisher = createPublisher(
    {
      ...ports,
      leadership: told.leadership,
      rows: memoryRouteRows(transact),
      gateSecret,
      clusterEpoch: replica.clusterEpoch,
    },
    allRoutes.signal,
  );
  const noteRoutes = (dirty: Dirty): void => {
    publisher.note(dirty);
    told.note(dirty);
    routes.signal();
  };
  const inTurn = (round: () => Promise<void>) => () =>
    promiseOf(
      process.scope,
      takeTurns(() => wait(waitFor(round))),
    );
  const ring = (...of: Bell[]) => {
    for (const bell of of) bell.ring();
  };
  const wakeAll = (...wakes: Wake[]) => {
    for (const each of wakes) each.signal();
  };
  const stops = [
    fleet.onChange("nodes", () => ring(replicas)),
    fleet.onChange("placements", () => ring(replicas)),
    fleet.onChange("routes", () => ring(replicas)),
    fleet.onChange("edges", () => ring(replicas)),
    fleet.onChange("nodes", () => {
      wakeAll(tasks);
      noteRoutes({ ...clean, everything: true });
    }),
    fleet.onChange("placements", (changes) => {
      if (wakesScheduler(changes, (nodeId, taskId) => fleet.observation(nodeId, taskId))) tasks.signal();
      noteRoutes(dirtyByKeys(changes));
    }),
    fleet.onChange("routes", () => wakeAll(routes)),
    replica.listener.on(routeTopic, (payload) => noteRoutes(dirtyByNotice(payload))),
    fleet.onChange("edges", () => wakeAll(drains)),
    replica.listener.on(taskTopic, () => wakeAll(tasks, drains)),
    replica.listener.on(nodeTopic, () => wakeAll(fences)),
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
  const keepReplicas = createKeeper(leader, storms, takeTurns);
  scope.spawn(
    (function* (): Work {
      yield* takeOver(leader);
      enter(process, () => {
        const options = { clock, periodMs, signal, onError };
        const schedule = createScheduler({ ...ports, rows: memorySchedulerRows(transact), windowMs });
        const lost = memoryLostRows(transact);
        void runLoop({ ...options, wake: tasks, restMs: 0 }, schedule);
        void runLoop({ ...options, wake: drains, restMs: drainsRestMs }, () =>
          drainOnce({ ...ports, drains: memoryDrainRows(transact) }),
        );
        void runLoop({ ...options, wake: routes, restMs: routesRestMs }, inTurn(publisher.publishNoted));
        void runLoop(
          { ...options, wake: allRoutes, restMs: routesRestMs },
          inTurn(() => told.lookAtAll(publisher.publishAll)),
        );
        void runLoop({ ...options, wake: fences }, async () => {
          await clearGone({ ...ports, lost });
          await clearStaleSessions(ports);
          await noteFenceRequired({ lost, fleet });
        });
      });
      loop(replicas, keepReplicas);
      loop(createBell(), () => noteLinks(replica), linkHistoryMs);
    })(),
  );
}
