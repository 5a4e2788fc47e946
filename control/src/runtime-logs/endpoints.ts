import { idParams, runtimeLogsQuery, runtimeLogsReply } from "@svc/proto";
import type { Db } from "../db/pool.ts";
import { endpoint } from "../http/endpoint.ts";
import { ApiError } from "../http/errors.ts";
import { getProject } from "../projects/store.ts";

/**
 * The container whose output people mean when they name no channel: production's, else that of the newest
 * deployment that serves. Null when none runs.
 */
async function findContainer(db: Db, projectId: string): Promise<{ id: string; nodeId: string } | null> {
  const row = await db
    .selectFrom("channel_state")
    .innerJoin("task", "task.deployment_id", "channel_state.deployment_id")
    .select(["task.id", "task.node_id"])
    .where("channel_state.project_id", "=", projectId)
    .where("channel_state.stopped", "=", false)
    .where("task.kind", "=", "serve")
    .where("task.desired", "=", "running")
    .where("task.node_id", "is not", null)
    .orderBy((order) => order("channel_state.channel", "=", "production"), "desc")
    .orderBy("task.epoch", "desc")
    .limit(1)
    .executeTakeFirst();
  return row === undefined || row.node_id === null ? null : { id: row.id, nodeId: row.node_id };
}

const read = endpoint({
  method: "GET",
  path: "/projects/:id/runtime-logs",
  access: { scope: "logs:read" },
  summary: "The last lines that the running container wrote.",
  params: idParams,
  query: runtimeLogsQuery,
  reply: runtimeLogsReply,
  async handle({ db, log, queryLog }, { caller, params, query }) {
    const { id } = await getProject(db, caller, params.id);
    const container = await findContainer(db, id);
    if (container === null) throw new ApiError("RUNTIME_LOGS_UNAVAILABLE");
    try {
      const { text, lines } = await queryLog(container.nodeId, container.id, query.lines);
      return { log: text, lines };
    } catch (cause) {
      log.warn({ err: cause, projectId: id, nodeId: container.nodeId }, "runtime log could not be read");
      throw new ApiError("RUNTIME_LOGS_UNAVAILABLE", {
        status: 502,
        message: "The node that runs the container did not deliver its log. Try again in a moment.",
        cause,
      });
    }
  },
});

export const runtimeLogEndpoints = [read];
