import { deletedReply } from "@svc/proto";
import { argument, command, flag } from "../../../command.ts";
import { confirmLoss, requireAnswerable } from "../../../confirm.ts";
import { assertedChannel, backupIdOf, backupPath, getBackup } from "../../../database/backups.ts";
import { findBranch } from "../../../database/branch.ts";
import { formatAge, formatBytes } from "../../../format.ts";

export const dbBackupDelete = command({
  name: "db backup delete",
  summary: "Delete a backup; the database itself stays as it is",
  flags: { project: flag.project, channel: assertedChannel },
  arguments: { backupId: argument.required("backupId", "The backup; see `svc db backup list`") },
  examples: ["svc db backup delete 7b0f6c1e-58a1-4f0e-9d6c-3a1b2c4d5e6f --yes"],
  async run(context, { project: named, channel, backupId: text }) {
    const backupId = backupIdOf(text);
    requireAnswerable(context, `This deletes the backup ${backupId}.`);
    const { api, project, target } = await findBranch(context, named, channel ?? "production");
    const found = await getBackup(api, { projectId: target.id, backupId, channel });
    const made = `made ${formatAge(found.createdAt, context.clock.now())}, ${formatBytes(found.sizeBytes)}`;
    await confirmLoss(context, {
      loss: `This deletes the backup of ${found.channel} ${made}.`,
      name: backupId.slice(0, 8),
    });
    await api.delete(backupPath(target.id, backupId, channel), deletedReply);
    return { project, channel: found.channel, engine: found.engine, backupId, deleted: true };
  },
  render: ({ backupId }, { paint }) => `${paint("green", "✓")} Deleted the backup ${backupId}`,
});
