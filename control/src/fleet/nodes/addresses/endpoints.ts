import { addressNodeInput, addressNodeReply, idParams } from "@svc/proto";
import { recordAudit } from "../../../http/audit.ts";
import { ApiError } from "../../../http/errors.ts";
import { endpoint } from "../../endpoint.ts";
import { insertNodeEvents } from "../events/store.ts";
import { requireMachineAddresses } from "./require.ts";

/** What a machine is bound to otherwise is the address that it joined from, which may be another, or not the only one. */
const readdress = endpoint({
  method: "PUT",
  path: "/admin/nodes/:id/addresses",
  access: "admin",
  summary: "Say at which addresses edges may reach a node. Its agent is held to them from its next session on.",
  params: idParams,
  body: addressNodeInput,
  reply: addressNodeReply,
  handle: ({ db, clock }, { caller, params, body: { addresses }, address }) =>
    db.transaction().execute(async (tx) => {
      requireMachineAddresses(addresses);
      const node = await tx
        .updateTable("node")
        .set({ addresses: JSON.stringify(addresses) })
        .where("id", "=", params.id)
        .where("role", "=", "node")
        .returning(["id", "name"])
        .executeTakeFirst();
      if (node === undefined) throw new ApiError("NOT_FOUND");
      await insertNodeEvents(tx, [{ nodeId: node.id, kind: "readdressed", at: clock.now() }]);
      const detail = { name: node.name, addresses };
      await recordAudit(tx, { caller, address, action: "node.readdress", target: node.id, detail });
      return { node };
    }),
});

export const nodeAddressEndpoints = [readdress];
