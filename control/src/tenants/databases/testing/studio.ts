import { systemClock } from "@svc/runtime/system";
import { createLog } from "../../../log.ts";
import { getProject } from "../../projects/store.ts";
import type { SqlRunner } from "../sql/runner.ts";
import { createTransfers } from "../sql/transfers.ts";
import type { Studio } from "../studio/studio.ts";
import { lineTo, newBranch, type TestBranch, type TestServer } from "./server.ts";

/** A studio in which `branch` is the production database of every project of whoever asks. */
export const studioOf = ({
  server,
  runner,
  branch: { id, target },
}: {
  server: TestServer;
  runner: SqlRunner;
  branch: TestBranch;
}): Studio => ({
  async findReadyBranch(db, caller, projectId, channel) {
    const { owner_id: ownerId } = await getProject(db, caller, projectId);
    if (target.tenant === null) throw new Error("a branch of a test has a tenant");
    return {
      branch: {
        projectId,
        ownerId,
        channel,
        engine: server.engine,
        sizeLimitMb: 100,
        connectionLimit: 10,
        readOnly: false,
        readOnlySoft: false,
      },
      address: { databaseId: id, nodeId: "n", epoch: "1" },
      credentials: { tenant: target.tenant, admin: server.admin },
    };
  },
  openLine: (_, signal) => lineTo(server.socket)(signal),
  sql: runner,
  transfers: createTransfers({ clock: systemClock, log: createLog("silent") }),
  saveSize: async () => {},
  listSizeSamples: async () => [{ sampledAt: new Date("2030-01-01T00:00:00Z"), sizeBytes: 5 }],
});

/** The same over a branch that has the table `kept` with the row 1. */
export async function studioWithTable(server: TestServer, runner: SqlRunner): Promise<Studio> {
  const branch = await newBranch(runner, server);
  const sql = "create table kept (id int primary key, note text); insert into kept values (1, 'one')";
  await runner.ask(branch.target, "query", { sql, rollback: false, readOnly: false });
  return studioOf({ server, runner, branch });
}
