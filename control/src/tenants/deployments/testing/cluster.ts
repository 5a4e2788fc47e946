import { systemClock } from "@svc/runtime/system";
import type { Fleet } from "../../../fleet/cluster/fleet.ts";
import { openFleet } from "../../../fleet/cluster/testing.ts";
import { type TestApi, testApi } from "../../../http/testing.ts";
import type { Etcd } from "../../../stores/etcd/index.ts";
import { startEtcd, testClient } from "../../../stores/etcd/testing.ts";

/** The stores and the API of a cluster in which nothing runs: tests call the workers themselves. */
export interface TestCluster extends AsyncDisposable {
  api: TestApi;
  etcd: Etcd;
  fleet: Fleet;
}

export async function testCluster(): Promise<TestCluster> {
  await using stack = new AsyncDisposableStack();
  const [server, api] = await Promise.all([startEtcd(), testApi()]);
  stack.use(server);
  stack.use(api);
  const etcd = testClient(server.endpoint);
  stack.defer(() => etcd.close());
  const fleet = stack.use(await openFleet(etcd, { clock: systemClock, log: api.context.log }));
  const owned = stack.move();
  return { api, etcd, fleet, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
