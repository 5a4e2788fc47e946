import { adminDatabasesReply } from "@svc/proto";
import { durabilityOf, readDurability } from "../../databases/copies/durability.ts";
import { endpoint } from "../../endpoint.ts";
import { adminDatabaseView, listAllBranches } from "./store.ts";

const list = endpoint({
  method: "GET",
  path: "/admin/databases",
  access: "admin",
  summary: "The database of every project and channel, with its size and its limits; never a credential.",
  reply: adminDatabasesReply,
  async handle({ db }) {
    const [branches, durability] = await Promise.all([listAllBranches(db), readDurability(db, null)]);
    return { databases: branches.map((each) => adminDatabaseView(each, durabilityOf(durability, each.id))) };
  },
});

export const adminDatabaseEndpoints = [list];
