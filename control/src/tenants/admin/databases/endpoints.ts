import { adminDatabasesReply } from "@svc/proto";
import { endpoint } from "../../endpoint.ts";
import { adminDatabaseView, listAllBranches } from "./store.ts";

const list = endpoint({
  method: "GET",
  path: "/admin/databases",
  access: "admin",
  summary: "The database of every project and channel, with its size and its limits; never a credential.",
  reply: adminDatabasesReply,
  handle: async ({ db }) => ({ databases: (await listAllBranches(db)).map(adminDatabaseView) }),
});

export const adminDatabaseEndpoints = [list];
