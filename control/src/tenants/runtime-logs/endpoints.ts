import { idParams, runtimeLogsQuery, runtimeLogsReply } from "@svc/proto";
import type { RuntimeLog } from "../../fleet/agents/runtime-log.ts";
import { ApiError } from "../../http/errors.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { TenantContext } from "../context.ts";
import { endpoint } from "../endpoint.ts";
import { getProject } from "../projects/store.ts";
import { suspendedRefusal, suspensionOf } from "../projects/suspended.ts";
import { noContainerEver, nothingWanted, notRunning } from "./rules.ts";
import { findLast, listWanted, type PlacedContainer, type Scope } from "./store.ts";

/** Of several replicas so many are asked for one that runs. */
const askedMax = 3;

const read = endpoint({
  method: "GET",
  path: "/projects/:id/runtime-logs",
  access: { scope: "logs:read" },
  summary: "The last lines that a channel's container wrote: the one that runs, or with exited=true the last one.",
  params: idParams,
  query: runtimeLogsQuery,
  reply: runtimeLogsReply,
  errors: ["RUNTIME_LOGS_UNAVAILABLE", { code: "RUNTIME_LOGS_UNAVAILABLE", status: 502 }],
  async handle(context, { caller, params, query }) {
    const { db } = context;
    const project = await getProject(db, caller, params.id);
    const { id: projectId } = project;
    if (project.type === "static") throw unavailable(noContainerEver);
    const suspension = suspensionOf(project);
    const scope = await getScope(db, projectId, query);
    const wanted = await listWanted(db, projectId, scope);
    const last = wanted.length > 0 ? null : await findLast(db, projectId, scope);
    const containers = wanted.length > 0 ? wanted : last !== null && query.exited ? [last] : [];
    if (wanted.length === 0 && suspension !== null) throw unavailable(suspendedRefusal(suspension).message);
    if (containers.length === 0) throw unavailable(nothingWanted(last));
    const { text, lines, state, exit } = await readBest(context, projectId, containers, query.lines);
    if (state === "running") return { log: text, lines, state, exit: null };
    // One that was told to stop has nothing to explain.
    if (!query.exited || state === "absent" || exit === null) throw unavailable(notRunning(exit));
    return { log: text, lines, state, exit };
  },
});

interface Asked {
  channel?: "production" | "preview" | "dev";
  deployment?: string;
}

/** Nothing falls back to another channel. Throws NOT_FOUND for a deployment that is not of the project and channel. */
async function getScope(db: Db, projectId: string, { channel, deployment }: Asked): Promise<Scope> {
  if (deployment === undefined) return { channel: channel ?? "production" };
  const found = await db
    .selectFrom("deployment")
    .select("channel")
    .where("id", "=", deployment)
    .where("project_id", "=", projectId)
    .executeTakeFirst();
  if (found === undefined || (channel !== undefined && channel !== found.channel)) throw new ApiError("NOT_FOUND");
  return { deploymentId: deployment };
}

/** The log of a container that runs; when none of them does, of the first whose node answers. @throws ApiError when none does */
async function readBest(
  context: TenantContext,
  projectId: string,
  containers: readonly PlacedContainer[],
  lines: number,
): Promise<RuntimeLog> {
  let best: RuntimeLog | null = null;
  for (const container of containers.slice(0, askedMax)) {
    const found = await readOne(context, projectId, container, lines);
    if (found?.state === "running") return found;
    best ??= found;
  }
  if (best !== null) return best;
  const message = "The node that runs the container did not deliver its log. Try again in a moment.";
  throw new ApiError("RUNTIME_LOGS_UNAVAILABLE", { status: 502, message });
}

/** Null: its node does not answer. */
async function readOne(
  { log, fleet, queryLog }: TenantContext,
  projectId: string,
  { taskId, nodeId }: PlacedContainer,
  lines: number,
): Promise<RuntimeLog | null> {
  try {
    // A question to a node without a stream would only be waited for.
    if (!fleet.isConnected(nodeId)) throw new Error("the node has no stream");
    return await queryLog(nodeId, taskId, lines);
  } catch (cause) {
    log.warn({ err: cause, projectId, nodeId }, "runtime log could not be read");
    return null;
  }
}

const unavailable = (message: string): ApiError => new ApiError("RUNTIME_LOGS_UNAVAILABLE", { message });

export const runtimeLogEndpoints = [read];
