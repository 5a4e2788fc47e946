import { randomUUID } from "node:crypto";
import type { Channel, DatabaseEngine, DatabaseStatus } from "@svc/proto";
import type { TestApi } from "../../../http/testing.ts";
import type { Project } from "../../../stores/db/tables.ts";
import { buryBranch, insertBranch, lockBranch, moveBranch } from "../store.ts";

/** A branch of the project that nobody brings any further; ready unless another status is asked for. Returns its id. */
export async function newBranch(
  { db, context: { secrets } }: TestApi,
  { id: projectId }: Pick<Project, "id">,
  {
    channel = "production",
    engine = "postgres",
    status: to = "ready",
  }: { channel?: Channel; engine?: DatabaseEngine; status?: DatabaseStatus } = {},
): Promise<string> {
  const id = randomUUID();
  await insertBranch(db, secrets, { id, projectId, channel, engine });
  await moveBranch(db, id, { from: "provisioning", to, reason: to === "error" ? "its disk broke" : null });
  return id;
}

/** A branch of the project that was dropped, and whose volume is kept on the node. Returns its id. */
export async function newDroppedBranch(
  api: TestApi,
  { id: projectId, nodeId, channel = "production" }: { id: string; nodeId: string; channel?: Channel },
): Promise<string> {
  const id = await newBranch(api, { id: projectId }, { channel });
  const had = { node_id: nodeId, role_connection_limit: 10, volume_bytes: 4_096 };
  await api.db.updateTable("database").set(had).where("id", "=", id).execute();
  await api.db.transaction().execute(async (tx) => {
    const branch = await lockBranch(tx, id);
    if (branch !== null) await buryBranch(tx, branch, { nodeId, keptHours: 72 });
  });
  return id;
}
