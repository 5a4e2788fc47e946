import { databaseCredentialsReply, databaseQuery, databaseUrl, idParams, rotateCredentialsReply } from "@svc/proto";
import { recordAudit } from "../../../http/audit.ts";
import { endpoint } from "../../endpoint.ts";
import { loginsOf } from "../find-ready.ts";
import { addressFor } from "../public-address.ts";
import { beginRotation } from "../store.ts";
import { branchErrors, getReadyBranch } from "./access.ts";

const path = "/projects/:id/database";

export const reveal = endpoint({
  method: "POST",
  path: `${path}/dev-credentials`,
  access: { scope: "database:credentials" },
  summary: "The address of a channel's database, password included. It stays good until it is rotated.",
  params: idParams,
  query: databaseQuery,
  reply: databaseCredentialsReply,
  errors: branchErrors,
  handle: ({ db, secrets, config }, { caller, params, query: { channel }, address }) =>
    db.transaction().execute(async (tx) => {
      const { branch } = await getReadyBranch(tx, caller, { id: params.id, channel });
      const { engine } = branch;
      const { password } = loginsOf(secrets, branch).tenant;
      const { isPublic, ...at } = addressFor(engine, config.databases);
      const detail = { channel, engine, databaseId: branch.id };
      await recordAudit(tx, { caller, address, action: "database.reveal", target: params.id, detail });
      return {
        ...{ channel, engine, expiresAt: null },
        databaseUrl: databaseUrl({ ...branch, password }, at),
        note: isPublic
          ? "This address does not expire. Keep it secret; rotate the credentials if somebody else has seen it."
          : "This address does not expire, and is reachable from the project's own containers only. Keep it secret.",
      };
    }),
});

export const rotate = endpoint({
  method: "POST",
  path: `${path}/rotate-credentials`,
  access: { scope: "projects:write" },
  summary: "Give a channel's database another password. The one of before stops working at once.",
  params: idParams,
  query: databaseQuery,
  status: 202,
  reply: rotateCredentialsReply,
  errors: branchErrors,
  handle: ({ db, secrets }, { caller, params, query: { channel }, address }) =>
    db.transaction().execute(async (tx) => {
      const { branch } = await getReadyBranch(tx, caller, { id: params.id, channel }, { lock: true });
      const { engine } = branch;
      await beginRotation(tx, secrets, branch.id);
      const detail = { channel, engine, databaseId: branch.id };
      await recordAudit(tx, { caller, address, action: "database.rotate", target: params.id, detail });
      return {
        ...{ channel, engine, status: "rotating" as const },
        note: "What runs on this channel loses its database until it is deployed or started again.",
      };
    }),
});
