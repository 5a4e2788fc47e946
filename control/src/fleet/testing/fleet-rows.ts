import type { FleetRows } from "../leading.ts";
import { memoryDrainRows } from "./drain-rows.ts";
import { memoryFailedServerRows } from "./failed-server-rows.ts";
import { memoryLinkRows } from "./link-rows.ts";
import { memoryLostRows } from "./lost-rows.ts";
import { memoryReplicaRows } from "./replica-rows.ts";
import { memoryRouteRows } from "./route-rows.ts";
import { memorySchedulerRows } from "./scheduler-rows.ts";
import { memoryStormRows } from "./storm-rows.ts";
import type { Transact } from "./tables.ts";

/** What leaders ask of Postgres, answered from memory. */
export const memoryFleetRows = (transact: Transact): FleetRows => ({
  ...{ scheduler: memorySchedulerRows(transact), routes: memoryRouteRows(transact) },
  ...{ replicas: memoryReplicaRows(transact), drains: memoryDrainRows(transact), lost: memoryLostRows(transact) },
  ...{ storms: memoryStormRows(transact), links: memoryLinkRows(transact) },
  failed: memoryFailedServerRows(transact),
});
