import { command } from "../../command.ts";
import { createFlags } from "../../database/branch.ts";
import { create, renderCreated } from "./create.ts";

export const dbEnable = command({
  name: "db enable",
  summary: "Create the production database, empty",
  details:
    "Without --engine it is what the project's databases run on already, else what the manifest says, else Postgres. A project keeps its engine for good.",
  flags: createFlags,
  examples: ["svc db enable", "svc db enable --engine mariadb --project shop", "svc db enable --no-wait --json"],
  run: (context, options) => create(context, "production", options),
  render: renderCreated,
});
