import { adminDatabasesReply } from "@svc/proto";
import { endpoint } from "../../endpoint.ts";

/** No project can have a managed database in this version, so there is none to tell of. */
const list = endpoint({
  method: "GET",
  path: "/admin/databases",
  access: "admin",
  summary: "The database of every project and channel, with its size and its limits; never a credential.",
  reply: adminDatabasesReply,
  handle: async () => ({ databases: [] }),
});

export const adminDatabaseEndpoints = [list];
