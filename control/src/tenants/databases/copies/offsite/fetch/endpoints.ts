import { fetchDatabaseInput, fetchDatabaseReply, idParams } from "@svc/proto";
import { recordAudit } from "../../../../../http/audit.ts";
import { Refused } from "../../../../../stores/refused.ts";
import { endpoint } from "../../../../endpoint.ts";
import { takesWork } from "../../../changes/move.ts";
import { throwIf } from "../../../endpoints/access.ts";
import { lockBranch } from "../../../store.ts";
import { listFetchable, offsiteSizeMb } from "../store.ts";
import { fetchRefusal } from "./rules.ts";
import { insertFetch, isBeingFetched } from "./store.ts";

const path = "/admin/databases/:id/fetch";

const fetchCopy = endpoint({
  method: "POST",
  path,
  access: "admin",
  summary: "Bring what is off-site of a database's copy to a machine, where the database can be restored from it.",
  params: idParams,
  body: fetchDatabaseInput,
  status: 202,
  reply: fetchDatabaseReply,
  errors: ["CONFLICT", "IDEMPOTENCY_CONFLICT"],
  handle({ random, createOnce, bucket }, { caller, params, body, address, idempotencyKey }) {
    const request = [`POST ${path}`, params.id, body];
    return createOnce({ caller, idempotencyKey, request, status: 202 }, async (tx) => {
      const branch = await lockBranch(tx, params.id);
      if (branch === null) throw new Refused("NOT_FOUND");
      const [offsite] = bucket === null ? [] : await listFetchable(tx, branch.id, bucket.place);
      const node = await tx
        .selectFrom("node")
        .select(["id", "name", "role", "lifecycle", "drain", "schedulable", "disk_full", "capacity"])
        .where("id", "=", body.node)
        .executeTakeFirst();
      throwIf(
        fetchRefusal({
          ...{ hasBucket: bucket !== null, isThere: offsite !== undefined },
          isFetching: await isBeingFetched(tx, branch.id),
          node:
            node === undefined || node.role !== "node"
              ? null
              : {
                  ...{ name: node.name, takesWork: takesWork(node), isFull: node.disk_full },
                  diskMb: node.capacity?.diskMb ?? 0,
                },
          sizeMb: offsite === undefined ? 0 : await offsiteSizeMb(tx, offsite.id),
        }),
      );
      if (offsite?.covered_at == null) throw new Refused("CONFLICT");
      const copyId = random.uuid();
      await insertFetch(tx, branch, { id: copyId, nodeId: body.node, offsite });
      const coveredAt = offsite.covered_at.toISOString();
      const { channel, engine } = branch;
      const detail = { channel, engine, databaseId: branch.id, copyId, node: body.node, coveredAt };
      await recordAudit(tx, { caller, address, action: "database.fetch", target: branch.project_id, detail });
      return { copyId, coveredAt };
    });
  },
});

export const fetchEndpoints = [fetchCopy];
