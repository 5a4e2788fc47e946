import { deleteDatabaseReply } from "@svc/proto";
import { command } from "../../command.ts";
import { confirmLoss, requireAnswerable } from "../../confirm.ts";
import { branchFlags, databasePath, failureOf, findBranch, nameOf } from "../../database/branch.ts";

export const dbDisable = command({
  name: "db disable",
  summary: "Delete the database of a channel with all its data",
  details:
    "Backups that are complete stay. The project keeps its engine, and what runs on the channel loses its database.",
  flags: branchFlags,
  examples: ["svc db disable --channel preview", "svc db disable --channel dev --yes"],
  async run(context, { project: named, channel = "production" }) {
    requireAnswerable(context, `This deletes the ${channel} database with all its data.`);
    const branch = await findBranch(context, named, channel);
    await confirmLoss(context, {
      loss: `This deletes ${nameOf(branch)} with all its data, and what runs on ${channel} loses it. Complete backups stay.`,
      name: channel,
    });
    const reply = await branch.api.delete(databasePath(branch), deleteDatabaseReply, { failure: failureOf(branch) });
    const { ok: _ok, ...dropped } = reply;
    return { project: branch.project, ...dropped };
  },
  render: ({ channel }, { paint }) => `${paint("green", "✓")} The ${channel} database is being deleted`,
});
