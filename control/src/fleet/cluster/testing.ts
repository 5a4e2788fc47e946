import type { Clock } from "@svc/runtime/clock";
import type { Log } from "../../log.ts";
import type { Etcd } from "../../stores/etcd/index.ts";
import { createFleet, type Fleet } from "./fleet.ts";
import { watchCluster } from "./views.ts";

/** A fleet with views of its own, which it takes along when it is disposed. */
export type OpenFleet = Fleet & AsyncDisposable;

/** Resolves once it has seen all that is in etcd now. */
export async function openFleet(etcd: Etcd, { clock, log }: { clock: Clock; log: Log }): Promise<OpenFleet> {
  await using stack = new AsyncDisposableStack();
  const views = stack.use(watchCluster(etcd, log));
  const fleet = stack.use(createFleet(views, clock));
  await views.ready();
  const owned = stack.move();
  return { ...fleet, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
