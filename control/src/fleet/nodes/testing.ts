import type { TaskKind } from "@svc/proto/kinds";
import type { Clock } from "@svc/runtime/clock";
import { systemClock } from "@svc/runtime/system";
import { type TestApi, testApi } from "../../http/testing.ts";
import { createLog } from "../../log.ts";
import type { Deployment, Node } from "../../stores/db/tables.ts";
import type { Etcd } from "../../stores/etcd/index.ts";
import { startEtcd, testClient } from "../../stores/etcd/testing.ts";
import type { Fleet } from "../cluster/fleet.ts";
import { keys, type ObservationValue, type PlacementValue, type RunValue } from "../cluster/keys.ts";
import { openFleet } from "../cluster/testing.ts";
import { type DrainRows, drainRows } from "./drain/store.ts";
import { type LostRows, lostRows } from "./fence/store.ts";

/** A database, an etcd, and machines of which a test says in etcd what they hold. */
export interface TestFleet extends AsyncDisposable {
  api: TestApi;
  etcd: Etcd;
  fleet: Fleet;
  /** What the loops take. */
  deps: {
    db: TestApi["db"];
    drains: DrainRows;
    lost: LostRows;
    etcd: Etcd;
    fleet: Fleet;
    log: ReturnType<typeof createLog>;
    clock: Clock;
  };
  newNode(
    values?: Partial<Pick<Node, "role" | "drain" | "schedulable" | "lifecycle" | "drain_deadline">>,
  ): Promise<Node>;
  newDeployment(status: Deployment["status"]): Promise<Deployment>;
  put(key: string, value: unknown): Promise<void>;
  /** Places a task and has its node say `observed`. */
  place(
    nodeId: string,
    deployment: Deployment,
    kind: TaskKind,
    desired?: "running" | "stopped" | "removed",
    drainSeconds?: number,
  ): Promise<string>;
  observe(nodeId: string, taskId: string, observed: ObservationValue["observed"]): Promise<void>;
  run(nodeId: string, deployment: Deployment, state: RunValue["state"]): Promise<string>;
  readRun(nodeId: string, attemptId: string): Promise<RunValue | null>;
  eventsOf(nodeId: string): Promise<string[]>;
}

export async function startTestFleet(options: Parameters<typeof testApi>[0] = {}): Promise<TestFleet> {
  const stack = new AsyncDisposableStack();
  const server = stack.use(await startEtcd());
  const api = stack.use(await testApi(options));
  const etcd = stack.use(testClient(server.endpoint));
  const log = createLog("silent");
  const fleet = stack.use(await openFleet(etcd, { clock: systemClock, log }));
  const put = async (key: string, value: unknown) => {
    await etcd.txn({ guards: [], ops: [{ put: { key, value: JSON.stringify(value) } }] });
  };
  const at = systemClock.now().toISOString();
  let made = 0;
  const observe: TestFleet["observe"] = async (nodeId, placementId, observed) => {
    const value: ObservationValue = {
      ...{ placementId, epoch: 1, statusSeq: ++made, observed, health: null, restartSeq: 0, upstream: null },
      ...{ failure: null, build: null, changedAt: at },
    };
    await put(keys.observation(nodeId, placementId), value);
  };
  return {
    ...{ api, etcd, fleet, put, observe },
    deps: {
      ...{ db: api.db, drains: drainRows(api.db), lost: lostRows(api.db) },
      ...{ etcd, fleet, log, clock: systemClock },
    },
    newNode: (values = {}) =>
      api.db
        .insertInto("node")
        .values({ role: "node", name: `machine-${++made}`, labels: "{}", ...values })
        .returningAll()
        .executeTakeFirstOrThrow(),
    newDeployment: async (status) => api.newDeployment(await api.newProject(await api.newUser()), { status }),
    async place(nodeId, deployment, kind, desired = "running", drainSeconds = 0) {
      const { id, project_id, channel } = await api.newTask(deployment, { kind, desired });
      await api.db
        .updateTable("task")
        .set({ node_id: nodeId, drain_seconds: drainSeconds })
        .where("id", "=", id)
        .execute();
      const value: PlacementValue = {
        ...{ placementId: id, epoch: 1, desired, kind, specHash: "h", projectId: project_id, channel },
        ...{
          ownerKind: "deployment",
          ownerId: deployment.id,
          memoryMb: 1,
          cpuMillicores: 1,
          pidsLimit: 1,
          storageMb: 1,
        },
        ...{ limitsGeneration: 0, drainSeconds },
      };
      await put(keys.placement(nodeId, id), value);
      await observe(nodeId, id, "running");
      return id;
    },
    async run(nodeId, deployment, state) {
      const { id: attemptId } = await api.newRun(deployment, { node_id: nodeId });
      const value: RunValue = {
        ...{
          attemptId,
          kind: "release",
          ownerKind: "deployment",
          ownerId: deployment.id,
          projectId: deployment.project_id,
          state,
          cancel: false,
          acceptedBy: null,
          token: "t",
          exitCode: null,
          timedOut: false,
        },
        ...{ message: null, startedAt: null, finishedAt: null, changedAt: at },
      };
      await put(keys.run(nodeId, attemptId), value);
      return attemptId;
    },
    async readRun(nodeId, attemptId) {
      const entry = await etcd.get(keys.run(nodeId, attemptId));
      return entry === null ? null : (JSON.parse(entry.value) as RunValue);
    },
    async eventsOf(nodeId) {
      const rows = await api.db
        .selectFrom("node_event")
        .select("kind")
        .where("node_id", "=", nodeId)
        .orderBy("id")
        .execute();
      return rows.map(({ kind }) => kind);
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}
