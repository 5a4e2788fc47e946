import { notify } from "../../stores/db/notify.ts";
import type { Db } from "../../stores/db/pool.ts";
import { nodeTopic, routeTopic, taskTopic } from "../cluster/topics.ts";
import { admitFacts, type SaidHello } from "../nodes/addresses/admit.ts";
import {
  type NodeConditions,
  type NoticedChange,
  setConditions,
  setDockerfileProblem,
  setQuarantined,
} from "../nodes/store.ts";
import type { TaskRecord } from "../sessions/outbox.ts";
import { type SessionRows, sessionRows } from "../sessions/rows.ts";
import { findTaskRecords } from "./orphans.ts";

/** What an agent's session asks of Postgres. */
export interface NodeRows extends SessionRows {
  /** Keeps what an agent told of its node, unless the address among it is not the node's own. */
  admitFacts(hello: SaidHello): Promise<{ refused: string } | { changed: NoticedChange | null }>;
  /** Why it builds no Dockerfiles; null: it does. */
  setDockerfileProblem(nodeId: string, problem: string | null): Promise<void>;
  /** Takes a node out of use of which there are two, and says so; false when it is already. */
  quarantine(nodeId: string, now: Date): Promise<boolean>;
  /** Keeps what a node says with its renewals, and tells the leader; false when nothing changed. */
  setConditions(nodeId: string, conditions: NodeConditions): Promise<boolean>;
  /** What is known of placements that the agent holds and nobody has placed there. */
  findTaskRecords(nodeId: string, placementIds: readonly string[]): Promise<ReadonlyMap<string, TaskRecord>>;
}

export const nodeRows = (db: Db): NodeRows => ({
  ...sessionRows(db),
  admitFacts: (hello) => admitFacts(db, hello),
  setDockerfileProblem: (nodeId, problem) => setDockerfileProblem(db, nodeId, problem),
  async quarantine(nodeId, now) {
    if (!(await setQuarantined(db, nodeId, now))) return false;
    for (const topic of [nodeTopic, taskTopic, routeTopic]) await notify(db, topic);
    return true;
  },
  async setConditions(nodeId, conditions) {
    if (!(await setConditions(db, nodeId, conditions))) return false;
    await notify(db, taskTopic);
    return true;
  },
  findTaskRecords: (nodeId, placementIds) => findTaskRecords(db, nodeId, placementIds),
});
