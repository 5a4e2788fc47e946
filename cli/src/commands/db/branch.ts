import { databaseChannels } from "@svc/proto";
import { argument, command } from "../../command.ts";
import { createFlags } from "../../database/branch.ts";
import { create, renderCreated } from "./create.ts";

export const dbBranch = command({
  name: "db branch",
  summary: "Create the database of a channel, empty",
  details: "Nothing is copied from another channel, ever. Where there is one already, nothing is changed.",
  flags: createFlags,
  arguments: { channel: argument.choice("channel", "Whose database", databaseChannels) },
  examples: ["svc db branch preview", "svc db branch dev --project shop --no-wait"],
  run: (context, { channel, ...options }) => create(context, channel, options),
  render: renderCreated,
});
