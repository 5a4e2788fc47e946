import { randomUUID } from "node:crypto";
import type { Channel, DatabaseEngine, DatabaseStatus } from "@svc/proto";
import type { TestApi } from "../../../http/testing.ts";
import type { Project } from "../../../stores/db/tables.ts";
import { insertBranch, moveBranch } from "../store.ts";

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
