import { idParams, undropDatabaseReply } from "@svc/proto";
import { recordAudit } from "../../../http/audit.ts";
import { endpoint } from "../../endpoint.ts";
import { namesOf } from "../changes/read.ts";
import { changeView } from "../changes/view.ts";
import { undropBranch } from "./undrop.ts";

const path = "/admin/databases/:id/undrop";

const undrop = endpoint({
  method: "POST",
  path,
  access: "admin",
  summary:
    "Bring a database back that was dropped, with its data and its passwords: from its volume, or from its newest copy if that is lost.",
  params: idParams,
  status: 202,
  reply: undropDatabaseReply,
  errors: ["CONFLICT", "DATABASE_NOT_READY", "IDEMPOTENCY_CONFLICT"],
  handle({ random, createOnce }, { caller, params, address, idempotencyKey }) {
    const request = [`POST ${path}`, params.id];
    return createOnce({ caller, idempotencyKey, request, status: 202 }, async (tx) => {
      const asked = { changeId: random.uuid(), requestedBy: caller.userId };
      const { branch, from, change } = await undropBranch(tx, params.id, asked);
      const { id: databaseId, project_id, channel, engine } = branch;
      const coveredAt = change?.covered_at?.toISOString() ?? null;
      await recordAudit(tx, {
        ...{ caller, address, action: "database.undrop", target: project_id },
        detail: { channel, engine, databaseId, from, ...(coveredAt !== null && { coveredAt }) },
      });
      return { databaseId, channel, engine, from, coveredAt, change: change && changeView(change, await namesOf(tx)) };
    });
  },
});

export const droppedEndpoints = [undrop];
